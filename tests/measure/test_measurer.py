"""Who decodes when: no side is favoured by a machine that grows slower or faster."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.commands import Generate, GeneratePair
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, PairGenerated, Segment
from spectui.errors import BadInputError, ServerError
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Measurer, Pair, steady
from spectui.measure.server_backend import ServerBackend
from spectui.measure.workload import Workload
from spectui.monitor.disturbance import Kind
from spectui.monitor.watch import MachineWatch
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from tests.support.machine import Machine
from tests.support.search import items, result
from tests.support.timed import timed_round

ON = Speculation(DraftSimple(draft_max=4))


class Recorder:
    """A backend that notes who decodes what."""

    waited_s = 0.0

    def __init__(self, n_beside_off: int | None) -> None:
        self.n_beside_off = n_beside_off
        self.decoded: list[tuple[int, bool]] = []
        """The number of each prompt, and whether there was speculation."""
        self.seeds: list[int] = []
        """The seed of each run."""
        self.longest: list[int] = []
        """The longest draft of each run, 0 without speculation."""
        self.n_tokens = 33
        self.fails_after = 1_000_000

    def generate(self, command: Generate) -> GenerationResult:
        if len(self.decoded) == self.fails_after:
            raise ServerError("it failed")
        is_on = command.speculation is not None
        self.decoded.append((command.prompt[-1], is_on))
        self.seeds.append(command.sampling.seed)
        self.longest.append(0 if command.speculation is None else command.speculation.longest)
        return result(12.5 if is_on else 10.0, n_tokens=self.n_tokens, drafted=48 * is_on)

    def generate_pair(self, command: GeneratePair) -> PairGenerated:
        return ServerBackend.generate_pair(cast("ServerBackend", self), command)

    def probe_margin(self, _command: object) -> None:
        """A server does not tell."""


class Reader(Recorder):
    """A backend that reads a token in 10 ms, and its draft in 5 ms; the first prompt from a disk.

    Every second prompt is taken up from memory.
    """

    def __init__(self, *, tells_parts: bool) -> None:
        super().__init__(None)
        self.tells_parts = tells_parts
        self.n_prompts = 0

    def generate(self, command: Generate) -> GenerationResult:
        self.n_prompts += 1
        n_read = 1 if self.n_prompts % 2 == 0 else 100
        target_s = 60.0 if self.n_prompts == 1 else 0.01 * n_read
        draft_s = 0.005 * n_read if command.speculation else 0.0
        return replace(
            super().generate(command),
            n_prompt_tokens=100,
            n_evaluated=n_read,
            n_read=(n_read if command.speculation else 0) if self.tells_parts else None,
            prompt_s=target_s + draft_s,
            prompt_draft_s=draft_s if self.tells_parts else None,
        )


def measurer(backend: Recorder, n_items: int, seed: int, temp: float = 0.0) -> Measurer:
    sampling = SamplingConfig(temp=temp, seed=seed)
    workload = Workload(items=items(n_items), n_predict=32, sampling=sampling)
    return Measurer(cast("Engine", backend), workload)


def pairs(backend: Recorder, n_items: int, repeats: int, seed: int) -> list[Pair]:
    one = measurer(backend, n_items, seed)
    return list(one.pairs(one.workload.items, ON, repeats))


def first_of_each(decoded: list[tuple[int, bool]]) -> Iterator[bool]:
    """Whether speculation was first, prompt by prompt."""
    for (prompt, is_on), (same, is_other) in zip(decoded[::2], decoded[1::2], strict=True):
        assert prompt == same
        assert is_on is not is_other
        yield is_on


SIZES = {"n_items": st.integers(1, 15), "repeats": st.integers(1, 4), "seed": st.integers(0, 99)}


@given(**SIZES)
def test_of_two_prompts_in_a_row_the_second_has_the_opposite_order(
    n_items: int, repeats: int, seed: int
) -> None:
    backend = Recorder(1)
    found = pairs(backend, n_items, repeats, seed)
    assert [pair.item for pair in found] == list(items(n_items) * repeats)
    order = list(first_of_each(backend.decoded))
    for first, second in zip(order[::2], order[1::2], strict=False):
        assert first is not second
    again = Recorder(1)
    one = measurer(again, n_items, seed)
    for turn in range(repeats):
        list(one.pairs(one.workload.items, ON, turn=turn))
    assert again.decoded == backend.decoded, "pass by pass the order is the same"


def test_chance_says_who_is_first() -> None:
    backends = [Recorder(None) for _ in range(20)]
    for seed, backend in enumerate(backends):
        pairs(backend, 1, 1, seed)
    assert {backend.decoded[0][1] for backend in backends} == {False, True}


@pytest.mark.parametrize("tells_parts", [True, False], ids=["engine", "server"])
def test_a_new_prompt_costs_what_target_and_draft_take(*, tells_parts: bool) -> None:
    """However long the first one took, and however often each of them read none."""
    one = measurer(Reader(tells_parts=tells_parts), 1, seed=1)
    assert one.prompt_token_s == 0
    one.decode(one.workload.items[0], None)
    assert one.prompt_token_s == pytest.approx(0.6)
    for _ in range(4):
        one.decode(one.workload.items[0], None)
    assert one.prompt_token_s == pytest.approx(0.01)
    for _ in range(10):
        one.decode(one.workload.items[0], ON)
    assert one.prompt_token_s == pytest.approx(0.015)


def test_of_two_blocks_the_second_has_the_opposite_order() -> None:
    backend = Recorder(None)
    one = measurer(backend, 1, 0)
    blocks = []
    for turn in range(2):
        backend.decoded.clear()
        (pair,) = one.block(one.workload.items, ON, turn)
        assert pair.speculative.counters.n_drafted
        assert not pair.baseline.counters.n_drafted
        blocks.append(backend.longest[-2:])
    assert blocks[0] == blocks[1][::-1]


def in_parts(pair: Pair, *parts: tuple[float, float]) -> Pair:
    """A pair with segments: seconds of a token of the target alone, and of a round."""
    return replace(
        pair,
        segments=tuple(
            Segment(
                baseline_s=(off_s,) * 4,
                rounds=(timed_round(3, 4, on_s),),
            )
            for off_s, on_s in parts
        ),
    )


def test_seconds_are_those_of_a_machine_that_nothing_disturbs() -> None:
    first, second = pairs(Recorder(1), 2, 1, 0)
    quiet, busy = (0.1, 0.2), (0.1, 2.0)
    given = [in_parts(first, *[quiet] * 8), in_parts(second, *[quiet] * 7, busy)]
    found = steady(given)
    for pair in found:
        assert pair.baseline.decode_s == pytest.approx(0.1 * 32)
        assert pair.speculative.decode_s == pytest.approx(0.2 * 8, rel=0.01)
    assert [pair.segments for pair in found] == [pair.segments for pair in given]
    assert steady([first, second]) == (first, second), "without segments it is not known"
    ended = replace(second, speculative=result(10.0, n_tokens=1))
    assert steady([given[0], ended])[1] is ended


@given(**SIZES)
def test_where_a_change_loads_models_it_goes_on_with_what_is_loaded(
    n_items: int, repeats: int, seed: int
) -> None:
    backend = Recorder(0)
    found = pairs(backend, n_items, repeats, seed)
    every = [item.id for item in items(n_items)]
    assert sorted(pair.item.id for pair in found) == sorted(every * repeats)
    for size in range(n_items, n_items * repeats + 1, n_items):
        assert sorted(pair.item.id for pair in found[:size]) == sorted(every * (size // n_items))
    assert not backend.decoded[0][1], "the target alone is loaded first"
    changes = sum(one[1] != two[1] for one, two in itertools.pairwise(backend.decoded))
    assert changes == min(n_items, 2) * repeats


def test_a_pair_tells_seconds_and_tokens_unless_it_ended_at_once() -> None:
    (pair,) = pairs(Recorder(1), 1, 1, 0)
    assert pair.measurement is not None
    assert (pair.measurement.baseline_tokens, pair.measurement.n_accepted) == (32, 24)
    ended = replace(pair, speculative=result(10.0, n_tokens=1))
    assert (ended.has_decoded, ended.measurement) == (False, None)


def compared(backend: Recorder, watch: MachineWatch | None = None) -> Comparison:
    told: list[Pair] = []
    one = measurer(backend, 4, 0)
    found = compare(one, ON, repeats=2, on_pair=told.append, watch=watch or MachineWatch())
    assert tuple(told) == found.pairs
    return found


def test_what_was_measured_before_a_failure_is_kept() -> None:
    backend = Recorder(1)
    assert len(compared(backend).pairs) == 8
    cut = Recorder(1)
    cut.fails_after = 6
    found = compared(cut)
    assert isinstance(found.ended, ServerError)
    assert len(found.pairs) == 3
    assert found.document()["error"] == "it failed"
    cut.decoded.clear()
    cut.fails_after = 0
    with pytest.raises(ServerError, match="it failed"):
        compared(cut)
    # Answers that end at once are no measurement.
    backend.n_tokens = 1
    with pytest.raises(BadInputError, match="no decoding to measure"):
        compared(backend)


def test_a_comparison_tells_what_disturbed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The watch's thread must not read what this one is writing.
    monkeypatch.setattr("spectui.monitor.watch._INTERVAL_S", 3600.0)
    machine = Machine(tmp_path)
    machine.process(200, "cc1plus")

    class Busy(Recorder):
        def generate(self, command: Generate) -> GenerationResult:
            machine.run(0.5, {200: 0.4}, own_s=0.5)
            return super().generate(command)

    (cause,) = compared(Busy(1), machine.watch()).disturbance.causes
    assert (cause.name, cause.kind) == ("cc1plus", Kind.PROCESS)
    assert cause.share == pytest.approx(0.8)


@pytest.mark.parametrize("n_beside_off", [None, 1, 0])
def test_a_repeat_is_a_further_sample(n_beside_off: int | None) -> None:
    backend = Recorder(n_beside_off)
    found = [*measurer(backend, 2, 7, 0.8).pairs(items(2), ON, 2)]
    drawn = sorted((pair.item.id, pair.item.sample) for pair in found)
    assert drawn == [("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1)]
    # Both sides of a pair draw alike.
    assert sorted(backend.seeds) == [7] * 4 + [8] * 4
    backend.seeds.clear()
    assert [*measurer(backend, 2, 7, 0.8).pairs(items(2), ON, turn=3)]
    assert set(backend.seeds) == {10}
    # A greedy repeat is the same again.
    backend.seeds.clear()
    greedy = [*measurer(backend, 2, 7).pairs(items(2), ON, 3)]
    assert {pair.item for pair in greedy} == set(items(2))
    assert set(backend.seeds) == {7}
    assert SamplingConfig(seed=2**32 - 1).sample(1).seed == 0
