"""A draft against expert layers, on plans and machines that are made up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.commands import LoadTarget, ProbeMargin
from spectui.engine.demand import MARGIN_BYTES, FreeMemory, can_load
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, MarginProbed
from spectui.engine.fitting import with_n_cpu_moe
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.planned import PlanRequest
from spectui.measure.arm import OFF, Arm
from spectui.measure.measurer import Measurer, measurements
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, TensorOverride
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.explain import explain_result
from spectui.tune.layouts import Layout, at_least, cache_sizes_mib, place_experts
from spectui.tune.pace import Pace
from spectui.tune.race import LOOK_EVERY, Race, RaceRuns
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.space import SearchSpace
from spectui.tune.trials import best_trial
from tests.support.layouts import expert_layouts
from tests.support.plans import BAD, GOOD, HUGE, ODD, REQUEST, Script, room
from tests.support.search import OFF_TOKENS_PER_S, ScriptedMeasurer, items, known, open_study

pytestmark = pytest.mark.usefixtures("in_memory")

FIXED_BYTES = 50 + 4096
"""Of the scripted target: dense weights and cache."""
TARGET = ModelOptions(path=Path("target.gguf"), n_cpu_moe=6)


LAYOUTS = expert_layouts(TARGET, 4, big=6, small=4)


def gpu(n_bytes: int) -> FreeMemory:
    """A GPU with so much to give away."""
    return room(CUDA0=MARGIN_BYTES + FIXED_BYTES + n_bytes)


def test_a_draft_takes_the_room_of_expert_layers() -> None:
    script, drafts = Script(draft_bytes=150), {"good": GOOD}
    layouts, refused = place_experts(script, REQUEST, drafts, gpu(600))
    kept = expert_layouts(REQUEST.target, 4, good=6)
    assert layouts == kept
    assert layouts.text == "n_cpu_moe 4 without a draft; n_cpu_moe 6 beside good"
    assert at_least(kept, REQUEST.target, 5) == expert_layouts(REQUEST.target, 5, good=6)
    assert not refused
    # What the options say of experts gives way.
    other = TensorOverride(pattern="attn", buffer="CPU")
    experts = TensorOverride(pattern="exps", buffer="CPU")
    given = replace(TARGET, cpu_moe=True, override_tensor=(experts, other))
    assert with_n_cpu_moe(given, 3) == replace(TARGET, n_cpu_moe=3, override_tensor=(other,))


@given(st.integers(-10, 1200), st.integers(0, 1200))
def test_as_few_layers_as_fit_are_in_ram(free_bytes: int, draft_bytes: int) -> None:
    script, free = Script(draft_bytes=draft_bytes), gpu(free_bytes)
    fitting = [
        [n for n in range(script.n_layers + 1) if fits(script, n, draft, free)]
        for draft in (None, GOOD)
    ]
    alone, beside = (min(numbers, default=None) for numbers in fitting)
    if alone is None:
        with pytest.raises(DoesNotFitError, match=r"target.gguf does not fit even with"):
            place_experts(script, REQUEST, {"good": GOOD}, free)
        return
    layouts, refused = place_experts(script, REQUEST, {"good": GOOD}, free)
    assert layouts.alone.n_cpu_moe == alone
    assert known_count(layouts.beside.get("good")) == beside
    assert [*refused] == ["good"] * (beside is None)


def known_count(layout: Layout | None) -> int | None:
    return None if layout is None else layout.n_cpu_moe


def fits(script: Script, n: int, draft: ModelOptions | None, free: FreeMemory) -> bool:
    """Whether there is room for it, and the margin is left."""
    request = PlanRequest(target=with_n_cpu_moe(REQUEST.target, n), draft=draft)
    left = {name: n - MARGIN_BYTES for name, n in free.by_memory.items()}
    return can_load(script(request), FreeMemory(by_memory=left))


def test_caches_of_experts_are_quarters_of_the_room_that_is_left() -> None:
    mib = 1 << 20
    script = Script(expert_bytes=100 * mib)
    in_ram = replace(REQUEST, target=replace(TARGET, n_cpu_moe=4), draft=GOOD)
    cached = replace(in_ram, context=replace(REQUEST.context, moe_cache_mib=512))
    cases: tuple[tuple[PlanRequest, int, bool, tuple[int, ...]], ...] = (
        # Six layers are on the GPU, which keeps its margin; 400 MiB of experts are in RAM.
        (in_ram, 600 + 300, False, (64, 128, 192, 256)),
        (cached, 600 + 300, False, (64, 128, 192, 256)),
        (in_ram, 600 + 900, False, (64, 192, 256, 384)),
        (in_ram, 600 + 60, False, ()),
        (replace(in_ram, target=REQUEST.target), 2000, False, ()),
        # Where all experts may move to RAM there is more to cache, and more room.
        (in_ram, 600 + 900, True, (192, 448, 704, 960)),
    )
    for request, n_mib, moves, sizes in cases:
        free = gpu(n_mib * mib)
        assert cache_sizes_mib(script, request, free, moves_experts=moves) == sizes
    assert all(one.draft is None and not one.context.moe_cache_mib for one in script.asked)


def test_drafts_that_have_no_place_are_refused_with_the_reason() -> None:
    drafts = {"good": GOOD, "huge": HUGE, "bad": BAD, "odd": ODD}
    layouts, refused = place_experts(Script(), REQUEST, drafts, gpu(600))
    assert set(layouts.beside) == {"good"}
    kinds = {name: type(error) for name, error in refused.items()}
    assert kinds == {"huge": DoesNotFitError, "bad": BadInputError, "odd": UsageError}
    assert "keep it in RAM with -ngld 0" in str(refused["huge"])


@dataclass
class Machine:
    """An engine whose GPU has room for what ``LAYOUTS`` say, and for no layer more."""

    n_cpu_moe: int = 6
    draft: str | None = None
    loads: list[int | str] = field(default_factory=list)
    """Layers with experts in RAM for a target, names for drafts."""
    waited_s: float = 0.0
    is_broken: bool = False

    def load_target(self, command: LoadTarget) -> None:
        assert (command.max_draft, command.mtp_file) == (16, False)
        self.n_cpu_moe, self.draft = command.options.n_cpu_moe, None
        self.loads.append(self.n_cpu_moe)
        self._check(LAYOUTS.alone.n_cpu_moe)

    def load_draft(self, options: ModelOptions, *, mtp: bool) -> None:
        assert not mtp
        self.draft = options.path.stem
        self.loads.append(self.draft)
        self._check(LAYOUTS.of(self.draft).n_cpu_moe)

    def _check(self, least: int) -> None:
        if self.is_broken or self.n_cpu_moe < least:
            raise DoesNotFitError("out of memory")

    def probe_margin(self, _command: ProbeMargin) -> MarginProbed:
        return MarginProbed(margin=3.0, noise=0.01)


class PlacedMeasurer(ScriptedMeasurer):
    """The target alone takes 9 units for a token with 4 layers' experts in RAM, and 11 with 6."""

    def __init__(self, machine: Machine, **options: float) -> None:
        super().__init__(**cast("Any", options))
        self.machine = machine
        self.seen: set[tuple[str | None, int]] = set()

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        if speculation is not None and speculation.needs_draft:
            self.seen.add((self.machine.draft, self.machine.n_cpu_moe))
        return super().decode(item, speculation)

    def _machine(self) -> float:
        return super()._machine() * 9 / (5 + self.machine.n_cpu_moe)


SPACE = SearchSpace(drafts=("big",), layouts=LAYOUTS)
WIDE = replace(SPACE, drafts=("big", "small"))
OVER_ALONE = 9 / 11
"""The target alone beside the big draft."""
BIG = Arm(draft="big", speculation=Speculation(DraftSimple(draft_max=6)), layout="n_cpu_moe 6")
SMALL = Arm(draft="small", speculation=Speculation(DraftSimple(draft_max=8)), layout="n_cpu_moe 4")
ALONE = replace(OFF, layout="n_cpu_moe 4")


def loader_of(
    machine: Machine, drafts: tuple[str, ...], *, clock: Callable[[], float] = time.monotonic
) -> Loader:
    command = LoadTarget(options=TARGET, context=ContextOptions(), max_draft=16)
    return Loader(
        cast("Engine", machine),
        [
            Candidate(name=name, options=ModelOptions(path=Path(f"{name}.gguf")), loaded=None)
            for name in drafts
        ],
        movable=(command, LAYOUTS),
        clock=clock,
    )


def run(
    tmp_path: Path, machine: Machine, measurer: PlacedMeasurer, space: SearchSpace, n_trials: int
) -> TuneResult:
    workload = Workload(items=items(16), n_predict=33, sampling=SamplingConfig(temp=0.0))
    with open_study(tmp_path, space=space) as opened:
        setup = SearchSetup(
            engine=cast("Engine", machine),
            study=opened,
            workload=workload,
            measurer=cast("Measurer", measurer),
            loader=loader_of(machine, space.drafts),
            limits=Limits(n_trials=n_trials),
            on_event=lambda _event: None,
        )
        return Search(Pace(setup)).run()


@pytest.mark.parametrize(("gain", "pays"), [(1.1, False), (1.5, True)])
def test_a_draft_is_measured_against_what_fits_without_it(
    tmp_path: Path, gain: float, *, pays: bool
) -> None:
    machine = Machine()
    # Of the two drafters that are tried, the n-gram one gains next to nothing.
    measurer = PlacedMeasurer(machine, peak=3, gain=gain)
    measurer.ngram_gain = 0.7
    result = run(tmp_path, machine, measurer, SPACE, 2)
    best = known(result.best)
    assert result.off == ALONE
    assert (best.draft, best.layout) == ("big", "n_cpu_moe 6")
    assert known(result.speedup).estimate == pytest.approx(gain * OVER_ALONE, rel=0.02)
    assert result.verdict.use_speculation == pays
    assert "n_cpu_moe 6" in result.verdict.reason
    # Where it lies, the draft gains in both cases.
    assert paired_speedup(measurements(known(result.leader).moved)).estimate == pytest.approx(
        gain, rel=0.02
    )
    assert measurer.seen == {("big", 6)}
    text = explain_result(result).text
    assert text.startswith(
        "A draft takes room from the target (n_cpu_moe 6 beside big, n_cpu_moe 4 without one), and "
        "the target alone is 0.82× as fast. Over that:"
    )
    # A study keeps the placements that it began with.
    later = replace(SPACE, layouts=expert_layouts(TARGET, 2, big=3))
    with open_study(tmp_path, space=later) as again:
        assert again.space.layouts == LAYOUTS
        assert again.space.off == ALONE


def test_trials_are_told_over_the_same_baseline(tmp_path: Path) -> None:
    machine = Machine()
    result = run(tmp_path, machine, PlacedMeasurer(machine, peak=6, gain=1.2), SPACE, 3)
    told = {record.arm.drafter: record.speedup for record in reversed(result.trials)}
    assert told["ngram-simple"] == pytest.approx(1.02 / 1.1, rel=0.02)
    # Over the target alone in its own place it would be the faster one.
    assert told["big"] == pytest.approx(1.2 / 1.15 * OVER_ALONE, rel=0.02)
    assert known(best_trial(result.trials)).arm.drafter == "ngram-simple"


def test_every_draft_is_tried_where_it_has_its_place(tmp_path: Path) -> None:
    machine = Machine()
    measurer = PlacedMeasurer(machine, peak=6, gain=1.4)
    result = run(tmp_path, machine, measurer, WIDE, 15)
    assert measurer.seen == {("big", 6), ("small", 4)}
    assert all(record.error is None for record in result.trials)
    places = {(record.arm.draft, record.arm.layout) for record in result.trials}
    assert places == {(None, "n_cpu_moe 4"), ("big", "n_cpu_moe 6"), ("small", "n_cpu_moe 4")}
    # Both draft alike, and one leaves the target where it is fastest.
    assert known(result.best).draft == "small"


def test_nothing_is_loaded_that_is_there() -> None:
    machine, times = Machine(), iter((0.0, 30.0, 0.0, 30.0))
    loader = loader_of(machine, ("big", "small"), clock=lambda: next(times))
    # It begins where the target lies without a draft.
    assert loader.drafts == ("small", "big")
    for draft in ("big", "big", None, "small", None):
        loader.load(draft)
    assert machine.loads == ["big", 4, "small"]
    assert loader.move_s == 30.0
    loader.load("big")
    assert machine.loads[3:] == [6, "big"]
    assert loader.needs_other_placement("big", None)
    assert not loader.needs_other_placement("small", None)


def test_a_load_that_failed_is_made_up_for_by_the_next() -> None:
    machine = Machine(is_broken=True)
    loader = loader_of(machine, ("big",))
    with pytest.raises(DoesNotFitError):
        loader.load(None)
    machine.is_broken = False
    loader.load("big")
    assert machine.loads == [4, 6, "big"]


def race(machine: Machine, measurer: ScriptedMeasurer, arm: Arm, n_items: int = 24) -> Race:
    loader = loader_of(machine, ("big", "small"))
    runs = RaceRuns(
        cast("Measurer", measurer),
        arm,
        off=ALONE,
        load=lambda arm: loader.load(arm.draft),
        on_pair=lambda _pair: None,
    )
    return Race(runs, items(n_items), min_gain=0.02)


def test_looks_turn_round_so_that_the_target_moves_once_in_each_and_drift_cancels() -> None:
    # The machine loses half a per cent between the two halves of a look.
    machine = Machine()
    one = race(machine, PlacedMeasurer(machine, gain=1.25, drift_per_run=0.0004), BIG)
    one.run()
    assert machine.loads == [4, 6, "big", 4, 6, "big"]
    standing = one.conclude()
    assert len(standing.pairs) == 24
    assert known(standing.speedup).estimate == pytest.approx(1.25 * OVER_ALONE, rel=0.005)
    # An interrupt between two places leaves what can be compared.
    measurer = PlacedMeasurer(machine, gain=1.25)
    measurer.interrupt_at = LOOK_EVERY + 2 * 3 + 1
    cut = race(machine, measurer, BIG)
    with pytest.raises(KeyboardInterrupt):
        cut.run()
    assert len(cut.conclude().pairs) == 3


def test_a_target_that_moves_is_measured_alone_in_both_places() -> None:
    machine = Machine()
    measurer = PlacedMeasurer(machine, gain=1.25)
    one = race(machine, measurer, BIG, n_items=LOOK_EVERY)
    one.run()
    assert measurer.n_runs == 3 * LOOK_EVERY
    off = [pair.baseline.tokens_per_s for pair in one.pairs]
    assert off == pytest.approx([OFF_TOKENS_PER_S] * LOOK_EVERY)
    own = [pair.baseline.tokens_per_s for pair in one.conclude().moved]
    assert own == pytest.approx([OFF_TOKENS_PER_S * OVER_ALONE] * LOOK_EVERY)
    stays = race(machine, measurer, SMALL, n_items=LOOK_EVERY)
    stays.run()
    assert stays.conclude().moved == ()
