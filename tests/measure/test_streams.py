"""Prompts decoded beside others: who takes turns with whom, and what the rates are."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from spectui.engine.commands import Generate
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.servers import Fleet
from spectui.options.drafters import NgramMod
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.race import RaceRuns
from tests.support.models import Tiny, write_tiny
from tests.support.streams import (
    BASE,
    ITEMS,
    ON,
    WORKLOAD,
    Recorded,
    backend,
)


def measured(servers: Recorded, n_slots: int, repeats: int = 1) -> list[Pair]:
    measurer = measurer_of(backend(servers, n_slots), WORKLOAD)
    return list(measurer.pairs(WORKLOAD.items, ON, repeats))


def test_blocks_of_as_many_prompts_as_slots_take_turns() -> None:
    servers = Recorded(keeps_off=True)
    pairs = measured(servers, 2, repeats=2)
    assert [pair.item.id for pair in pairs] == list("abcdefg" * 2)
    blocks = [one.lower() for one in servers.asked]
    assert blocks[::2] == blocks[1::2] == ["ab", "cd", "ef", "g"] * 2
    begins_off = [one.islower() for one in servers.asked[::2]]
    assert [begins_off[n] != begins_off[n + 1] for n in range(0, 8, 2)] == [True] * 4


def test_halves_take_turns_where_a_change_loads_models() -> None:
    servers = Recorded(keeps_off=False)
    pairs = measured(servers, 2, repeats=2)
    assert servers.asked == ["abcd", "ABCD", "EFG", "efg", "efg", "EFG", "ABCD", "abcd"]
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
    measured = servers.asked
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


def test_one_slot_is_measured_prompt_by_prompt() -> None:
    servers = Recorded(keeps_off=True)
    assert measurer_of(backend(servers, 1), WORKLOAD).n_streams == 1
    pairs = measured(servers, 1)
    assert {pair.whole_s for pair in pairs} == {None}
    assert [one.lower() for one in servers.asked[::2]] == list("abcdefg")


def test_drafters_that_remember_are_kept_busy_with_their_own_prompts() -> None:
    ngram = Speculation(NgramMod())
    servers = Recorded(keeps_off=True)
    measurer = measurer_of(backend(servers, 2, ngram), WORKLOAD)
    list(measurer.pairs(ITEMS[:3], ngram))
    assert {one for one in servers.asked if one.isupper()} == {"AB", "C"}
    assert servers.ended == []
    list(measurer.pairs(ITEMS[:1], ngram))
    assert [one.is_off for one in servers.ended] == [False]


@pytest.mark.parametrize(
    ("sampling", "extra", "sent"),
    [
        ((), (), {"repeat_penalty": 1.0}),
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
    decoding = ServerBackend(cast("Fleet", servers), base, {}, redoes_rounds=False)
    chosen = SamplingConfig(temp=temp)
    decoding.generate(Generate(prompt=(97,), n_predict=4, sampling=chosen))
    (body,) = servers.bodies
    assert {name: body[name] for name in ("repeat_penalty",) if name in body} == sent
    assert body["temperature"] == temp
