"""The race of a setting against off, on a measurer whose speeds are known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from spectui.engine.events import GenerationResult
from spectui.errors import EngineDiedError
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, measurements
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.tune.looks import ERROR
from spectui.tune.race import LOOK_EVERY, Race, RaceRuns, Standing
from tests.support.search import Mortal, ScriptedMeasurer, items, known

BEST = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=6)))


class Wild(ScriptedMeasurer):
    """On prompts that gain very different amounts."""

    gains: tuple[float, ...] = (0.7, 1.0, 1.9, 1.2)

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        done = super().decode(item, speculation)
        if speculation is None:
            return done
        gain = self.gains[item.tokens[-1] % len(self.gains)]
        return replace(done, decode_s=done.decode_s / gain)


class Scattered(Wild):
    """On prompts that gain as differently as those of the built-in suite: 12 %."""

    gains = (0.85, 1.0, 1.17, 1.03, 0.94, 1.09, 0.89, 1.11)


def test_a_prompt_is_measured_again_where_the_process_ended_once() -> None:
    standing = raced(Mortal(6))
    assert len(standing.pairs) == LOOK_EVERY
    assert [pair.item.id for pair in standing.pairs] == [one.id for one in items(LOOK_EVERY)]
    one = race(Mortal(6, 8))
    with pytest.raises(EngineDiedError):
        one.run()
    standing = one.conclude()
    assert len(standing.pairs) == 2


def race(
    measurer: ScriptedMeasurer,
    *,
    n_items: int = 24,
    n_affordable: Callable[[int], int] = lambda n_left: n_left,
    requests: Callable[[Standing], Sequence[Request]] = lambda _standing: (),
    basis: Basis | None = None,
    until_decided: bool = True,
    on_look: Callable[[Speedup], None] = lambda _speedup: None,
) -> Race:
    decodes = cast("Measurer", measurer)
    return Race(
        RaceRuns(decodes, BEST, load=lambda _arm: None, on_pair=lambda _pair: None),
        [replace(item, category="") for item in items(n_items)],
        min_gain=0.02,
        n_affordable=lambda rest: min(n_affordable(len(rest)), len(rest)),
        requests=requests,
        basis=basis,
        until_decided=until_decided,
        on_look=on_look,
    )


def raced(measurer: ScriptedMeasurer, **options: Any) -> Standing:  # noqa: ANN401 - as ``race`` has them
    one = race(measurer, **options)
    one.run()
    return one.conclude()


@pytest.mark.parametrize("gain", [1.4, 0.7])
def test_what_is_clear_is_decided_at_the_first_look(gain: float) -> None:
    standing = raced(ScriptedMeasurer(gain=gain))
    speedup = known(standing.speedup)
    assert len(standing.pairs) == LOOK_EVERY
    assert speedup.estimate == pytest.approx(gain, rel=0.02)
    assert (speedup.n_looks, speedup.level) == (1, 0.95)


def test_the_last_look_spends_what_is_left_where_time_ends_before_the_next() -> None:
    measurer = Scattered(gain=1.03)
    one = race(measurer)
    # Each prompt is two runs; this is the first one after a look.
    measurer.interrupt_at = 2 * LOOK_EVERY + 1
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert not one.is_decided
    standing = one.conclude()
    found, pairs = known(standing.speedup), measurements(standing.pairs)
    assert (found.n_pairs, found.n_looks) == (LOOK_EVERY, 1)
    whole = paired_speedup(pairs, level=1 - ERROR, n_resamples=40_000)
    assert found.interval == pytest.approx(whole.interval, rel=1e-3)


def test_a_race_that_is_to_be_precise_goes_on_with_all_prompts() -> None:
    looks: list[Speedup] = []
    one = race(ScriptedMeasurer(gain=1.4), until_decided=False, on_look=looks.append)
    one.run()
    standing = one.conclude()
    assert [found.n_pairs for found in looks] == [8, 16, 24]
    assert looks[-1] == standing.speedup
    assert one.is_decided
    assert len(standing.pairs) == 24
    assert known(standing.speedup).n_looks == 3


def test_prompts_that_chose_and_texts_that_end_at_once_decide_nothing() -> None:
    class Silent(ScriptedMeasurer):
        def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
            return replace(super().decode(item, speculation), tokens=(1,), decode_s=0.0)

    one = race(ScriptedMeasurer(gain=1.4), n_items=10, basis=Basis.SAME)
    one.run()
    assert not one.is_decided
    assert len(one.pairs) == 10
    standing = raced(Silent())
    assert (standing.speedup, len(standing.pairs)) == (None, 24)


@pytest.mark.parametrize(
    ("n_items", "affordable", "n_pairs", "n_looks"),
    [
        (24, None, 24, 3),
        # A short rest is no look of its own.
        (40, [21, 13, 5, 0], 21, 3),
        # At 8 of 12, 28, 36 and 40 of 40; not at 12 and 20 of 40.
        (40, [8, 4, 28, 20, 12, 4, 0], 40, 4),
        # Time spends what is left of the error.
        (24, [0, 0], 8, 1),
        (8, None, 8, 1),
    ],
)
def test_what_is_open_is_measured_as_long_as_there_is_time(
    n_items: int, affordable: list[int] | None, n_pairs: int, n_looks: int
) -> None:
    told = iter(affordable or [])
    options = {"n_affordable": lambda _left: next(told)} if affordable else {}
    standing = raced(Wild(gain=1.0), n_items=n_items, **options)
    assert (len(standing.pairs), known(standing.speedup).n_looks) == (n_pairs, n_looks)


def test_what_is_decided_is_measured_no_further() -> None:
    standing = raced(Scattered(gain=1.3), n_items=40)
    assert len(standing.pairs) == LOOK_EVERY
    low, high = known(known(standing.speedup).interval)
    assert low > 1.02
    # It is not known to within 5 %, which nobody has asked for.
    assert high - low > 0.1 * known(standing.speedup).estimate


def test_requests_that_are_not_decided_are_measured_on() -> None:
    """A prompt that takes as long as its answer leaves half of decoding's gain."""
    shape, pairs = RequestShape(n_prompt=10, n_answer=33), list[int]()

    def requests(leader: Standing) -> tuple[Request, ...]:
        pairs.append(len(leader.pairs))
        decoding = known(leader.speedup)
        one = Request(
            shape=shape, decoding=decoding, prompt_off_s=9.0, prompt_on_s=9.0, token_s=0.1
        )
        return (one,)

    standing = raced(Scattered(gain=1.3), n_items=40, requests=requests)
    looks = list(dict.fromkeys(pairs))
    assert looks == [8, 16, 24, 32, 40][: len(looks)]
    assert len(standing.pairs) == pairs[-1] > LOOK_EVERY


def test_time_ends_it_and_spends_what_is_left_of_the_error() -> None:
    cut = raced(Wild(gain=1.0), n_affordable=lambda _n_left: 0)
    whole = raced(Wild(gain=1.0), n_items=LOOK_EVERY)
    assert cut == whole


def test_an_interrupt_inside_the_last_look_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cut, whole = (race(Wild(gain=1.0), n_items=LOOK_EVERY) for _ in range(2))
    whole.run()

    def interrupted(*_arguments: object, **_options: object) -> Speedup:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("spectui.tune.race.paired_speedup", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.run()
    assert cut.conclude() == whole.conclude()
