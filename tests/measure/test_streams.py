"""Prompts decoded beside others: who takes turns with whom, and what the rates are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from spectui.engine.commands import Generate
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.comparison import Comparison
from spectui.measure.measurer import Pair, measurements
from spectui.measure.server_backend import ServerBackend, measurer_of, result_of
from spectui.measure.servers import Servers
from spectui.measure.slots import SlotResult, by_slots, slots_document, turns
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_speedup
from spectui.options.drafters import NgramMod
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.race_runs import RaceRuns
from tests.support.models import Tiny, write_tiny
from tests.support.streams import (
    BASE,
    ITEMS,
    ON,
    WORKLOAD,
    Recorded,
    T,
    backend,
    completion,
)


def measured(servers: Recorded, n_slots: int, repeats: int = 1) -> list[Pair]:
    measurer = measurer_of(backend(servers, n_slots), WORKLOAD)
    return list(measurer.pairs(WORKLOAD.items, ON, repeats))


def test_blocks_of_as_many_prompts_as_slots_take_turns() -> None:
    servers = Recorded(keeps_off=True)
    pairs = measured(servers, 2, repeats=2)
    assert [pair.item.id for pair in pairs] == list("abcdefg" * 2)
    blocks = [one.lower().partition("|")[0] for one in servers.asked]
    assert blocks[::2] == blocks[1::2] == ["ab", "cd", "ef", "g"] * 2
    begins_off = [one.islower() for one in servers.asked[::2]]
    assert [begins_off[n] != begins_off[n + 1] for n in range(0, 8, 2)] == [True] * 4
    # The last prompt stands alone, and the other stream has the prompts beside it.
    assert servers.asked[6].lower() == "g|abcdef"


def test_halves_take_turns_where_a_change_loads_models() -> None:
    servers = Recorded(keeps_off=False)
    pairs = measured(servers, 2, repeats=2)
    halves = [one.partition("|")[0] for one in servers.asked]
    assert halves == ["abcd", "ABCD", "EFG", "efg", "efg", "EFG", "ABCD", "abcd"]
    assert [pair.item.id for pair in pairs] == list("abcdefgefgabcd")


@pytest.mark.parametrize("keeps_off", [True, False])
def test_a_race_measures_every_request_in_flight(*, keeps_off: bool) -> None:
    servers, arm, told = (
        Recorded(keeps_off=keeps_off),
        Arm(draft=None, speculation=ON),
        list[Pair](),
    )
    measurer = measurer_of(backend(servers, 3), WORKLOAD)
    runs = RaceRuns(measurer, arm, load=lambda _arm: None, on_pair=told.append)
    for leg in (ITEMS[:4], ITEMS[4:]):
        runs.measure(leg)
    assert [pair.item.id for pair in runs.pairs] == list("abcdefg")
    assert all(pair.whole_s is not None for pair in runs.pairs)
    assert tuple(told) == runs.pairs
    assert runs.n_items == 7
    measured = [one.partition("|")[0] for one in servers.asked]
    expected = ["abc", "d", "ABC", "D", "EFG", "efg"]
    if keeps_off:
        blocks = [one.lower() for one in measured]
        assert blocks[::2] == blocks[1::2] == ["abc", "d", "efg"]
    else:
        assert measured in (expected, [one.swapcase() for one in expected])


def test_a_race_apart_that_is_interrupted_keeps_whole_pairs() -> None:
    servers, arm = Recorded(keeps_off=False), Arm(draft=None, speculation=ON)
    measurer = measurer_of(backend(servers, 2), WORKLOAD)

    def check(_n_done: int) -> None:
        if len(servers.asked) == 5:
            raise KeyboardInterrupt

    runs = RaceRuns(
        measurer, arm, load=lambda _arm: None, on_pair=lambda _pair: None, check_time=check
    )
    with pytest.raises(KeyboardInterrupt):
        runs.measure(ITEMS)
    assert [pair.item.id for pair in runs.pairs] == ["a", "b"]


def test_one_slot_is_measured_prompt_by_prompt_and_one_of_several_in_company() -> None:
    servers = Recorded(keeps_off=True)
    assert measurer_of(backend(servers, 1), WORKLOAD).n_streams == 1
    pairs = measured(servers, 1)
    assert {pair.whole_s for pair in pairs} == {None}
    assert [one.partition("|")[0].lower() for one in servers.asked[::2]] == list("abcdefg")
    some = backend(servers, 3)
    assert measurer_of(some, WORKLOAD).n_streams == 3
    assert some.company == tuple(item.tokens for item in ITEMS)
    servers.asked.clear()
    some.generate(Generate(prompt=ITEMS[1].tokens, n_predict=11, sampling=SamplingConfig()))
    assert servers.asked == ["b|acdefg"]


def test_drafters_that_remember_are_kept_busy_with_their_own_prompts() -> None:
    ngram = Speculation(NgramMod())
    servers = Recorded(keeps_off=True)
    measurer = measurer_of(backend(servers, 2, ngram), WORKLOAD)
    list(measurer.pairs(ITEMS[:3], ngram))
    assert {one for one in servers.asked if one.isupper()} == {"AB", "C"}
    assert servers.ended == []
    list(measurer.pairs(ITEMS[:1], ngram))
    assert [one.is_off for one in servers.ended] == [False]


def test_what_is_measured_again_meets_no_drafter_that_remembers_its_answer() -> None:
    class Repeating(Recorded):
        def measure(self, run: Callable[[], T]) -> T:
            run()
            return run()

    ngram = Speculation(NgramMod())
    servers = Repeating(keeps_off=True)
    decoder = backend(servers, 1, ngram)
    decoder.generate(Generate(prompt=(65,), n_predict=4, speculation=ngram))
    assert len(servers.asked) == 2
    assert servers.ended == [decoder.setup(ngram)]


def result(*, is_on: bool) -> GenerationResult:
    return result_of(completion(is_on=is_on), 1, redoes_rounds=False)


def pairs(*, n_streams: int) -> tuple[Pair, ...]:
    off, on = result(is_on=False), result(is_on=True)
    if n_streams == 1:
        return tuple(Pair(item=item, baseline=off, speculative=on) for item in ITEMS)
    return tuple(
        Pair(item=item, baseline=off, speculative=on, whole_s=(4.0, 2.0)) for item in ITEMS
    )


def slot_result(n_slots: int, speedup: Speedup | None = None) -> SlotResult:
    found = pairs(n_streams=n_slots)
    return SlotResult(
        n_slots=n_slots,
        found=Comparison(
            workload=WORKLOAD,
            speculation=ON,
            runs=found,
            speedup=speedup or paired_speedup(measurements(found)),
            lossless=None,
        ),
    )


def test_all_streams_together_by_littles_law() -> None:
    # 11 tokens in 4 s and 2 s, with three in flight; one alone takes prompt and answer.
    assert slot_result(3).all_tokens_per_s == (3 * 11 / 4, 3 * 11 / 2)
    assert slot_result(1).all_tokens_per_s == pytest.approx((11 / 1.25, 11 / 1.05))
    (document,) = slots_document([slot_result(3)])["slots"]
    assert (document["off_each_tokens_per_s"], document["on_each_tokens_per_s"]) == (10.0, 12.5)
    assert (document["n_slots"], document["speculative"]["acceptance_rate"]) == (3, 0.75)


def speedup(low: float, high: float) -> Speedup:
    return Speedup(estimate=(low + high) / 2, low=low, high=high, n_pairs=7, n_prompts=7)


SAME = "The verdict is the same with any of these:"
USE, OFF, OPEN = speedup(1.25, 1.37), speedup(0.82, 0.94), speedup(0.9, 1.2)


@pytest.mark.parametrize(
    ("found", "is_turn", "told"),
    [
        (
            {1: USE, 4: OFF},
            True,
            "The verdict turns: with 1 slot +31 %, use it; with 4 slots −12 %, turn it off.",
        ),
        (
            {1: USE, 2: USE},
            False,
            f"{SAME} with 1 slot +31 %, use it; with 2 slots +31 %, use it.",
        ),
        ({2: OPEN}, False, "With 2 slots +5 %, not decided."),
        (
            {1: USE, 2: OPEN},
            False,
            "With 1 slot +31 %, use it; with 2 slots +5 %, not decided.",
        ),
        (
            {1: OFF, 2: speedup(0.99, 1.01)},
            False,
            "With 1 slot −12 %, turn it off; with 2 slots 0 %, no difference worth having.",
        ),
    ],
)
def test_the_sentence(found: dict[int, Speedup], *, is_turn: bool, told: str) -> None:
    results = [slot_result(n_slots, one) for n_slots, one in found.items()]
    assert turns(results) is is_turn
    assert by_slots(results) == told


@pytest.mark.parametrize(
    ("sampling", "extra", "sent"),
    [
        ((), (), {}),
        ((("temp", 0.5),), (), {}),
        ((("penalty_repeat", 1.05),), (), {"repeat_penalty": 1.0}),
        # What the user's own command says, its server is to do.
        ((("penalty_repeat", 1.05),), ("--repeat-penalty", "1.1"), {}),
    ],
)
@pytest.mark.parametrize("temp", [0.0, 0.5])
def test_a_server_does_not_sample_as_its_model_asks_where_the_engine_cannot(
    tmp_path: Path,
    sampling: tuple[tuple[str, float | str], ...],
    extra: tuple[str, ...],
    sent: dict[str, object],
    temp: float,
) -> None:
    path = tmp_path / "asking.gguf"
    write_tiny(Tiny(sampling=sampling), path)
    base = replace(BASE, target=ModelOptions(path=path), extra=extra)
    servers = Recorded(keeps_off=True)
    decoding = ServerBackend(cast("Servers", servers), base, {}, redoes_rounds=False)
    chosen = SamplingConfig(temp=temp)
    decoding.generate(Generate(prompt=(97,), n_predict=4, sampling=chosen))
    (body,) = servers.bodies
    assert {name: body[name] for name in ("repeat_penalty",) if name in body} == sent
    assert body["temperature"] == temp
