"""Forecasts: what a recording says of the space, and what is chosen from it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from spectui.engine.driver import Engine
from spectui.measure.arm import Arm
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import NGRAM_KINDS, DraftSimple, NgramCache, NgramSimple, kind_of
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.file import SUFFIX
from spectui.trace.ngrams import NGRAM_COSTS
from spectui.trace.record import ModelIdentity, Recording, complete
from spectui.tune.candidates import Loader
from spectui.tune.forecast import Answers, Forecast, in_order, promising
from spectui.tune.forecaster import Forecaster
from spectui.tune.recorded import Recorded
from spectui.tune.space import SearchSpace
from spectui.tune.studies.records import KeptTrace, Recordings, study_trace
from tests.support.layouts import expert_layouts
from tests.support.replay import COSTS, DEPTH, DRAFT, SCENE, TARGET, record, trace_of
from tests.support.scripted import hashed_draft
from tests.support.search import forecast_of, known, target_of

RECORDING, _ = record(SCENE)
TRACE = trace_of(RECORDING)
SPACE = SearchSpace(drafts=("draft",), max_draft=DEPTH)


def forecasts(
    recordings: Sequence[Recording],
    costs: Mapping[str, Costs],
    space: SearchSpace,
    *,
    has_text: bool = True,
) -> tuple[Forecast, ...]:
    """Forecasts of a whole space."""
    found = Recorded(recordings=recordings, costs=costs, space=space, has_text=has_text)
    return found.forecasts(found.totals())


def by_models(found: tuple[Forecast, ...]) -> list[Forecast]:
    return [one for one in found if one.arm.draft is not None]


def test_the_whole_space_is_replayed_best_first() -> None:
    found = forecasts(TRACE.recordings, TRACE.costs, SPACE)
    # Of 6 lengths and 5 least lengths, those pairs that can draft at all; 15 floors: 0, 0.3 and up.
    assert len(by_models(found)) == 15 * (2 + 3 + 4 + 5 + 5 + 5)
    assert [one.arm.speculation for one in found if one.arm.draft is None] == [*SPACE.ngrams()]
    assert all(one.speedup >= other.speedup for one, other in pairwise(found))
    assert all(one.n_accepted <= one.n_drafted for one in found)
    # Too short for ngram-cache, whose drafts have a fixed length; n-grams ahead propose nothing.
    assert {one.arm.drafter for one in found} == {"draft", *NGRAM_KINDS} - {kind_of(NgramCache)}
    # Without text nothing is known of drafters that hash tokens, nor without costs of a draft.
    ngrams = SearchSpace(drafts=(), max_draft=8)
    hashed = forecasts(TRACE.recordings, TRACE.costs, ngrams, has_text=False)
    assert {one.arm.drafter for one in hashed} == {"ngram-simple", "ngram-cache"}
    other = SearchSpace(drafts=("other",), max_draft=DEPTH)
    assert by_models(forecasts(TRACE.recordings, TRACE.costs, other)) == []
    assert forecasts((), {}, SPACE) == ()


def test_ngrams_ahead_of_a_model_are_forecast_where_they_gain() -> None:
    # The draft model knows nothing of a text that repeats itself.
    scene = replace(
        SCENE, choose=lambda prefix: 1 + len(prefix) % 5, propose=lambda _prefix: (9, 0.9)
    )
    recording, _ = record(replace(scene, prompt=(1, 2, 3, 4, 5) * 5, n_ctx=200, n_predict=60))
    space = SearchSpace(drafts=("draft",), max_draft=16)
    chains = replace(recording.chains["draft"], depth=16)
    recordings = (replace(recording, chains={"draft": chains}),)
    chained = [one for one in forecasts(recordings, TRACE.costs, space) if is_chained(one)]
    assert {one.arm.drafter for one in chained} >= {"ngram-simple + draft", "ngram-mod + draft"}
    assert min(one.n_accepted for one in chained) > 0
    hashed = forecasts(recordings, TRACE.costs, space, has_text=False)
    assert {one.arm.drafter for one in hashed if is_chained(one)} == {"ngram-simple + draft"}


def is_chained(one: Forecast) -> bool:
    return one.arm.speculation is not None and bool(one.arm.speculation.ahead)


def test_ngrams_are_forecast_where_there_is_no_draft() -> None:
    recording = replace(RECORDING, prompt=(1, 2, 3, 4, 5) * 5, chains={})
    found = forecasts((recording,), {NGRAM_COSTS: COSTS}, SearchSpace(drafts=(), max_draft=8))
    owns = [one.arm.speculation.own for one in found if one.arm.speculation]
    sizes = [(own.size_n, own.size_m) for own in owns if isinstance(own, NgramSimple)]
    assert sorted(sizes) == [(2, 4), (2, 8), (3, 4), (3, 8), (4, 4), (4, 8), (6, 8), (8, 8)]
    assert all(one.speedup > 0 for one in found)


def one(draft: str, draft_max: int, p_min: float, speedup: float) -> Forecast:
    speculation = Speculation(DraftSimple(draft_max=draft_max, draft_p_min=p_min))
    arm = Arm(draft=draft, speculation=speculation)
    return forecast_of(arm, speedup, n_drafted=1, n_accepted=1)


def of_ngrams(n: int, m: int, *, n_drafted: int = 9, speedup: float = 1.0) -> Forecast:
    arm = Arm(draft=None, speculation=Speculation(NgramSimple(size_n=n, size_m=m)))
    return forecast_of(arm, speedup, n_drafted=n_drafted, n_accepted=0)


def test_promising_are_the_best_of_each_length() -> None:
    ordered = [
        one("a", 5, 0.1, 1.9),
        one("a", 5, 0.2, 1.8),
        one("b", 5, 0.1, 1.7),
        one("a", 6, 0.1, 1.6),
        one("a", 4, 0.1, 1.5),
    ]
    assert promising(ordered, 3) == (ordered[0].arm, ordered[2].arm, ordered[3].arm)
    assert promising((), 3) == ()
    # Nor are lengths that no draft reaches.
    assert promising((ordered[0], replace(ordered[0], arm=one("a", 16, 0.9, 1.0).arm))) == (
        ordered[0].arm,
    )
    # What drafts nothing is not, and n-grams share their length.
    ngrams = [of_ngrams(12, 16, n_drafted=0), of_ngrams(4, 8), of_ngrams(3, 8)]
    assert promising([ordered[0], *ngrams]) == (ordered[0].arm, ngrams[1].arm)


def answers(off_s: list[list[float]]) -> Answers:
    ones = np.ones_like(off_s)
    return Answers(tokens=ones, drafted=ones, accepted=ones, on_s=ones, off_s=np.array(off_s))


def test_of_forecasts_within_a_standard_error_the_surest_is_the_most_promising() -> None:
    even, uneven, better, alone = (
        replace(one("a", n, 0.0, float(np.mean(off_s))), answers=answers(off_s))
        for n, off_s in (
            (2, [[1.4, 1.5], [1.4, 1.5]]),
            (3, [[1.0, 1.0], [1.0, 3.2]]),
            (4, [[1.6, 1.4], [1.7, 1.4]]),
            (5, [[1.3]]),
        )
    )
    # Of four parts, each 0.05 of 5.8 away from the mean.
    variance = 16 / 3 * (0.05 / 5.8) ** 2
    assert even.shrunk == pytest.approx(math.log(1.45) - variance / math.log(1.45))
    assert alone.shrunk == pytest.approx(math.log(1.3))
    assert promising((uneven, better, even, alone)) == (
        better.arm,
        even.arm,
        alone.arm,
        uneven.arm,
    )


def test_defaults_follow_the_best_forecast() -> None:
    fast, fair = one("a", 5, 0.1, 1.9), one("a", 3, 0.0, 1.5)
    slow, other = one("b", 3, 0.0, 0.7), one("a", 6, 0.1, 1.4)
    unknown = one("c", 3, 0.0, 1.0).arm
    defaults = (slow.arm, fair.arm, unknown)
    found = in_order((fast, fair, other), (*defaults, fast.arm))
    assert found == (fast.arm, slow.arm, fair.arm, unknown, other.arm)
    assert in_order((), defaults) == defaults


def forecaster(kept: KeptTrace, space: SearchSpace = SPACE) -> Forecaster:
    """One that cannot record: there is no engine."""
    workload = Workload(items=(), n_predict=1, sampling=SamplingConfig(temp=0.0))
    loader = Loader(cast("Engine", None), ())
    return Forecaster(workload, loader, space, target=target_of(), kept=kept)


def test_what_was_recorded_is_replayed_again_when_the_study_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    path = study_trace("../a b/ü", {"machine": "one"})
    assert path.parent == tmp_path / "data" / "traces"
    # Two storages may have a study of the same name.
    others = {study_trace("../a b/ü", {"machine": "other"}), study_trace("a", {"machine": "one"})}
    assert len({path, *others}) == 3
    kept = kept_at(path)
    assert forecaster(kept).recall(1, 1) is None
    kept.keep(TRACE)
    again = known(forecaster(kept).recall(1, 1))
    assert again.forecasts == forecasts(TRACE.recordings, TRACE.costs, SPACE, has_text=False)
    assert again.costs == TRACE.costs
    adaptive = known(again.adaptive.value)
    assert adaptive.draft == "draft"
    assert adaptive.most > 0
    # It holds no text.
    trace = known(kept.read())
    assert not trace.has_text
    assert trace.recordings[0].prompt[0] == 0


class Shared:
    """Recordings of other machines."""

    def __init__(self, *packed: bytes) -> None:
        self.packed = [*packed]

    def add(self, packed: bytes, n_prompts: int) -> None:
        assert n_prompts == 1
        self.packed.insert(0, packed)

    def read(self) -> Iterator[bytes]:
        yield from self.packed


def kept_at(
    path: Path,
    target: ModelIdentity = TARGET,
    draft: ModelIdentity = DRAFT,
    shared: Shared | None = None,
) -> KeptTrace:
    return KeptTrace(path, target, {"draft": draft}, cast("Recordings", shared))


def test_a_kept_trace_of_other_models_damaged_or_too_short_is_as_good_as_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.trace.json.gz"
    kept = kept_at(path)
    kept.keep(TRACE)
    assert kept_at(path, replace(TARGET, n_params=11)).read() is None
    assert kept_at(path, TARGET, TARGET).read() is None
    assert KeptTrace(path, TARGET, {"other": DRAFT}).read() is None
    longer = SearchSpace(drafts=("draft",), max_draft=DEPTH + 1)
    assert forecaster(kept, longer).recall(1, 1) is None
    assert forecaster(kept).recall(1, 1) is not None
    assert forecaster(kept).recall(2, 1) is None
    assert forecaster(kept).recall(1, 25) is None
    path.write_bytes(path.read_bytes()[:-20])
    assert forecaster(kept).recall(1, 1) is None


def test_a_recording_of_another_machine_is_taken_where_it_would_be_the_same(
    tmp_path: Path,
) -> None:
    shared = Shared(b"damaged")

    def machine(name: str, *, item: str = RECORDING.id, n_ctx: int = RECORDING.n_ctx) -> Forecaster:
        own = kept_at(tmp_path / f"{name}{SUFFIX}", shared=shared)
        if name == "first":
            own.keep(TRACE)
        items = (WorkItem(id=item, category="x", tokens=RECORDING.prompt),)
        workload = Workload(items=items, n_predict=1, sampling=SamplingConfig(temp=0.0))
        loader = Loader(cast("Engine", None), ())
        target = target_of(n_ctx, RECORDING.rollback)
        return Forecaster(workload, loader, SPACE, target=target, kept=own)

    first = machine("first")
    assert first.recall(1, 1) is not None
    assert first.taken == ()
    second = machine("second")
    assert second.recall(1, 1) is None
    (taken,) = second.taken
    assert (taken.id, len(taken.output)) == (RECORDING.id, len(RECORDING.output))
    # It has neither text nor the prices of the machine that recorded it.
    (trace,) = kept_at(tmp_path, shared=shared).shared()
    assert (trace.has_text, trace.costs) == (False, {})
    for other in (machine("third", item="other"), machine("third", n_ctx=RECORDING.n_ctx + 1)):
        assert other.recall(1, 1) is None
        assert other.taken == ()
    assert machine("third").recall(2, 1) is None


def with_chains(name: str, *drafts: str) -> Recording:
    (chains,) = RECORDING.chains.values()
    return replace(RECORDING, id=name, chains=dict.fromkeys(drafts, chains))


@pytest.mark.parametrize(
    ("left", "ids", "drafts"),
    [
        ([], [], set()),
        # Interrupted while the target was recorded: what n-gram drafters need is there.
        ([with_chains("a"), with_chains("b")], ["a", "b"], set()),
        ([with_chains("a", "one"), with_chains("b")], ["a"], {"one"}),
        ([with_chains("a", "one", "two"), with_chains("b", "one")], ["a", "b"], {"one"}),
        (
            [with_chains("a", "one", "two"), with_chains("b", "one", "two")],
            ["a", "b"],
            {"one", "two"},
        ),
    ],
)
def test_what_an_interrupt_left_is_made_even(
    left: list[Recording], ids: list[str], drafts: set[str]
) -> None:
    found = complete(left)
    assert [one.id for one in found] == ids
    assert all(set(one.chains) == drafts for one in found)


def test_a_draft_is_hopeless_if_it_loses_even_where_it_takes_no_time() -> None:
    agreements = {"good": 0.9, "weak": 0.3, "wrong": 0.0, "best": 1.0}
    scenes = {
        name: replace(SCENE, propose=hashed_draft(SCENE.choose, 1, agreement=one), n_predict=40)
        for name, one in agreements.items()
    }
    chains = {name: record(scene)[1] for name, scene in scenes.items()}
    recording = replace(record(scenes["good"])[0], chains=chains)
    space = SearchSpace(drafts=tuple(agreements), max_draft=DEPTH)
    found = Recorded(recordings=[recording], costs={"good": COSTS}, space=space)
    assert found.hopeless("best") is None
    weak = found.hopeless("weak")
    assert weak is not None
    assert re.fullmatch(r"on 1 prompt it would .* no time, and good gives \d\.\d\d×", weak)
    assert found.hopeless("wrong") == "on 1 prompt it would gain nothing even if it took no time"
    # Held against a draft that takes long, it may be the faster one.
    dear = replace(found, costs={"good": replace(COSTS, step_s=COSTS.off_s)})
    assert dear.hopeless("weak") is None
    mine = replace(space, present=Arm(draft="weak", speculation=Speculation()))
    assert replace(found, space=mine).hopeless("weak") is None


def test_a_draft_that_moves_the_target_is_forecast_over_what_fits_without_it() -> None:
    # Without the draft two more layers are on the GPU, and the target takes 0.8 of the time.
    alone = replace(COSTS, off_s=0.8 * COSTS.off_s, off_growth_s=0.8 * COSTS.off_growth_s)
    costs = {"draft": COSTS, NGRAM_COSTS: alone}
    target = ModelOptions(path=Path("target.gguf"))
    layouts = expert_layouts(target, 4, draft=6)
    moved = by_models(forecasts(TRACE.recordings, costs, replace(SPACE, layouts=layouts)))
    fixed = by_models(forecasts(TRACE.recordings, costs, SPACE))
    assert [replace(one.arm, layout=None) for one in moved] == [one.arm for one in fixed]
    assert {one.arm.layout for one in moved} == {"n_cpu_moe 6"}
    for one, other in zip(moved, fixed, strict=True):
        assert one.speedup == pytest.approx(0.8 * other.speedup)
    # What is not known of the target's other place cannot be compared with.
    nothing = forecasts(TRACE.recordings, {"draft": COSTS}, replace(SPACE, layouts=layouts))
    assert by_models(nothing) == []
    stays = replace(SPACE, layouts=expert_layouts(target, 4, draft=4))
    assert [one.speedup for one in by_models(forecasts(TRACE.recordings, costs, stays))] == [
        one.speedup for one in fixed
    ]
