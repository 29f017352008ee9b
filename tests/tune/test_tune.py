"""The search and its study, on a measurer whose speeds are known."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from spectui.engine.commands import ProbeMargin
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, MarginProbed
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    EngineDiedError,
    SpectuiError,
)
from spectui.format import counted
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.verdict import Answer, Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import (
    MTP_KIND,
    NGRAM_KINDS,
    DraftMtp,
    DraftSimple,
    NgramSimple,
)
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.forecast import Answers, Forecast, Outlook, in_order
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import Pace
from spectui.tune.progress import (
    ForecastMade,
    Notice,
    Phase,
    PhaseStarted,
    StepDone,
    TrialFinished,
    TuneEvent,
)
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup, divide
from spectui.tune.space import (
    AHEAD,
    FIRST_NGRAM,
    SERVER_DEFAULTS,
    SearchSpace,
)
from spectui.tune.studies.study import TuningStudy
from spectui.tune.tracing import COSTS_SHARE, MOST_SHARE, TEXT_SHARE
from spectui.tune.trials import TrialState, best_trial
from tests.support.search import (
    SPACE,
    Mortal,
    ScriptedMeasurer,
    forecast_of,
    items,
    known,
    open_study,
    spread,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_memory")]


class Drafts:
    """Stands where a search loads drafts and gives way; one name cannot be loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.waited_s = 0.0

    def load_draft(self, options: ModelOptions, *, mtp: bool) -> None:
        assert not mtp
        if options.path.stem == "broken":
            raise BadInputError("broken.gguf cannot be loaded")
        self.loaded.append(options.path.stem)

    def probe_margin(self, _command: ProbeMargin) -> MarginProbed:
        return MarginProbed(margin=3.0, noise=0.01)


class ScriptedForecaster:
    """Says that ``draft_max`` 7 and 5 are worth a trial, or what a measurer will measure."""

    not_kept = None
    taken = ()
    n_prompts = 8
    n_tokens = 33

    def __init__(
        self,
        lengths: tuple[int, ...] = (7, 5),
        measurer: ScriptedMeasurer | None = None,
        *,
        seconds_per_prompt: float = 1.0,
        interrupted: bool = False,
    ) -> None:
        self._lengths = lengths
        self._measurer = measurer
        self._seconds_per_prompt = seconds_per_prompt
        self._interrupted = interrupted
        self.keeps = False  # an earlier run's trace
        self.recorded: list[tuple[int, int]] = []
        self.recalled: list[tuple[int, int]] = []
        self.in_time: list[tuple[bool, bool]] = []

    @property
    def workload(self) -> Workload:
        prompts, sampling = items(self.n_prompts), SamplingConfig(temp=0.0)
        return Workload(items=prompts, n_predict=self.n_tokens, sampling=sampling)

    def n_steps(self, n_prompts: int) -> int:
        return n_prompts

    def seconds(
        self,
        n_prompts: int,
        n_tokens: int,
        tokens_per_s: float,
        prompt_token_s: float,
    ) -> float:
        assert tokens_per_s > 0
        assert prompt_token_s >= 0
        return n_prompts * self._seconds_per_prompt * n_tokens / self.n_tokens

    def forecast(self, arm: Arm) -> None:
        """Nothing was recorded that tells of what the sampler chooses."""

    def run(
        self,
        n_prompts: int,
        n_tokens: int,
        on_event: Callable[[str], None],
        is_over: Callable[[float], bool],
    ) -> Outlook:
        self.in_time.append((not is_over(COSTS_SHARE), not is_over(TEXT_SHARE)))
        self.recorded.append((n_prompts, n_tokens))
        if self._interrupted:
            raise KeyboardInterrupt
        on_event("p0: good along 33 tokens in 1.0 s")
        while isinstance(self._measurer, Timed) and not is_over(MOST_SHARE):
            self._measurer.now_s += 10.0
        return self._outlook()

    def recall(self, n_prompts: int, n_tokens: int) -> Outlook | None:
        self.recalled.append((n_prompts, n_tokens))
        return None if not self.keeps else self._outlook()

    def _outlook(self) -> Outlook:
        found = [
            self._forecast(Speculation(DraftSimple(draft_max=length))) for length in self._lengths
        ]
        return Outlook(forecasts=tuple(sorted(found, key=lambda one: -one.speedup)), costs={})

    def _forecast(self, speculation: Speculation) -> Forecast:
        measurer = self._measurer
        speedup = measurer.speedup(speculation) if measurer else 1 + speculation.own.longest / 100
        each = np.array([[spread(item)] * 4 for item in items(self.n_prompts)])
        off_s = np.full(each.shape, 0.8)
        answers = Answers(
            tokens=np.full(each.shape, 8.0),
            drafted=np.full(each.shape, 7.0),
            accepted=np.full(each.shape, 6.0),
            on_s=off_s / (speedup * each),
            off_s=off_s,
        )
        return Forecast(
            arm=Arm(draft="good", speculation=speculation),
            speedup=float(off_s.sum() / answers.on_s.sum()),
            n_drafted=10,
            n_accepted=5,
            answers=answers,
        )

    @property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        return tuple((item.id, item.category) for item in items(self.n_prompts))


def begin(study: TuningStudy, forecasts: Sequence[Forecast] = ()) -> None:
    """As a search does after its recording."""
    study.follow(in_order(forecasts, study.space.defaults))


def run(
    study: TuningStudy,
    measurer: ScriptedMeasurer,
    *,
    n_trials: int | None = 12,
    n_prompts: int = 16,
    min_gain: float = 0.02,
    on_event: Callable[[TuneEvent], None] = lambda _event: None,
    engine: Drafts | None = None,
    time_budget_s: float | None = None,
    forecaster: ScriptedForecaster | None = None,
    clock: Callable[[], float] | None = None,
) -> TuneResult:
    workload = Workload(items=items(n_prompts), n_predict=33, sampling=SamplingConfig(temp=0.0))
    driver = cast("Engine", engine or Drafts())
    candidates = [
        Candidate(name=name, options=ModelOptions(path=Path(f"{name}.gguf")), loaded=None)
        for name in study.space.drafts
    ]
    setup = SearchSetup(
        engine=driver,
        study=study,
        workload=workload,
        measurer=cast("Measurer", measurer),
        loader=Loader(driver, candidates),
        limits=Limits(n_trials=n_trials, time_budget_s=time_budget_s, min_gain=min_gain),
        on_event=on_event,
    )
    own_clock = measurer.clock if isinstance(measurer, Timed) else time.monotonic
    search = Search(Pace(setup, clock or own_clock), cast("Forecaster | None", forecaster))
    with study:
        return search.run()


class Timed(ScriptedMeasurer):
    """Keeps a clock of what prompts take."""

    def __init__(self, *, off_s: float = 2.0, on_s: float | None = None, gain: float = 1.4) -> None:
        super().__init__(gain=gain)
        self.now_s = 0.0
        self._off_s, self._on_s = off_s, off_s if on_s is None else on_s

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        self.now_s += self._off_s if speculation is None else self._on_s
        return super().decode(item, speculation)

    def clock(self) -> float:
        return self.now_s


def test_the_defaults_of_every_drafter_are_tried_first(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", "b"))
    result = run(open_study(tmp_path, space=space), ScriptedMeasurer(), n_trials=4)
    assert [record.arm.label for record in result.trials] == [
        "a: max 3, min 0, p_min 0.00",
        "b: max 3, min 0, p_min 0.00",
        "a: max 16, min 0, p_min 0.75",
        "ngram-simple: n 4, m 8",
    ]


def test_the_best_forecast_is_tried_first_and_the_others_before_the_sampler(
    tmp_path: Path,
) -> None:
    events: list[TuneEvent] = []
    forecaster = ScriptedForecaster()
    result = run(
        open_study(tmp_path),
        ScriptedMeasurer(),
        n_trials=6,
        forecaster=forecaster,
        on_event=events.append,
    )
    longest = [r.arm.speculation.own.longest for r in result.trials[:5] if r.arm.speculation]
    assert longest == [7, 3, 16, FIRST_NGRAM.longest, 5]
    assert [one.arm.speculation for one in result.outlook.forecasts] == [
        Speculation(DraftSimple(draft_max=7)),
        Speculation(DraftSimple(draft_max=5)),
    ]
    told = [type(event) for event in events]
    assert told[:5] == [PhaseStarted, PhaseStarted, StepDone, ForecastMade, PhaseStarted]


@pytest.mark.parametrize(
    ("seconds_per_prompt", "extent"),
    # Rather less of each answer than fewer than six prompts; eight if most of the time is enough,
    # and one at least.
    [(1.0, (8, 33)), (8.0, (8, 33)), (13.0, (8, 16)), (20.0, (7, 16)), (1000.0, (1, 16))],
)
def test_something_is_recorded_however_short_the_time_is(
    tmp_path: Path, seconds_per_prompt: float, extent: tuple[int, int]
) -> None:
    events: list[TuneEvent] = []
    forecaster = ScriptedForecaster(seconds_per_prompt=seconds_per_prompt)
    result = run(
        open_study(tmp_path),
        ScriptedMeasurer(),
        n_trials=3,
        time_budget_s=100.0,
        forecaster=forecaster,
        on_event=events.append,
        clock=lambda: 0.0,
    )
    assert forecaster.recorded == [extent]
    assert result.outlook.forecasts
    told = [event.text for event in events if isinstance(event, Notice)]
    assert len(told) == (extent[1] < forecaster.n_tokens)
    assert all(f"16 tokens of {extent[0]} answer" in text for text in told)


@pytest.mark.parametrize(
    ("second", "in_time"),
    [(19.0, (True, True)), (21.0, (False, True)), (26.0, (False, False))],
)
def test_a_recording_is_told_when_its_share_of_the_time_is_gone(
    tmp_path: Path, *, second: float, in_time: tuple[bool, bool]
) -> None:
    forecaster, now = ScriptedForecaster(), [0.0]

    def on_event(event: TuneEvent) -> None:
        if isinstance(event, PhaseStarted) and event.phase is Phase.RECORDING:
            now[0] = second

    run(
        open_study(tmp_path),
        ScriptedMeasurer(),
        n_trials=1,
        time_budget_s=100.0,
        forecaster=forecaster,
        on_event=on_event,
        clock=lambda: now[0],
    )
    assert forecaster.in_time == [in_time]


@pytest.mark.parametrize(("keeps", "recorded"), [(True, []), (False, [(8, 33)])])
def test_a_resumed_study_records_only_what_was_not_kept(
    tmp_path: Path, *, keeps: bool, recorded: list[tuple[int, int]]
) -> None:
    before = ScriptedForecaster() if keeps else None
    run(open_study(tmp_path), ScriptedMeasurer(), n_trials=2, forecaster=before)
    again = ScriptedForecaster()
    again.keeps = keeps
    result = run(open_study(tmp_path), ScriptedMeasurer(), n_trials=6, forecaster=again)
    assert again.recorded == recorded
    assert again.recalled == [(6, 33)]
    longest = [r.arm.speculation.own.longest for r in result.trials if r.arm.speculation]
    order = [7, 3, 16] if keeps else [3, 16, 7]
    assert longest[:5] == [*order, FIRST_NGRAM.longest, 5]


def test_where_time_is_too_short_for_a_trial_the_defaults_are_raced(tmp_path: Path) -> None:
    default = Arm(draft="good", speculation=Speculation(SERVER_DEFAULTS))
    result = run(open_study(tmp_path), Timed(), time_budget_s=30.0)
    assert [(one.arm, one.state) for one in result.trials] == [(default, TrialState.INTERRUPTED)]
    assert result.cut_trials == (0, 12)
    assert 30.0 < result.took_s <= 1.5 * 30.0 + 4
    assert result.best == default
    assert result.verdict.use_speculation
    assert result.cut_race is None
    # What was begun is tried again.
    again = run(open_study(tmp_path), Timed(), n_trials=1)
    assert [(one.arm, one.state) for one in again.trials[1:]] == [(default, TrialState.COMPLETE)]


@pytest.mark.parametrize(("on_s", "n_prompts"), [(20.0, 7), (200.0, 0)])
def test_a_long_trial_gives_way_to_the_race_which_ends_soon_after_the_budget(
    tmp_path: Path, on_s: float, n_prompts: int
) -> None:
    measurer = Timed(off_s=1.0, on_s=on_s)
    result = run(open_study(tmp_path), measurer, time_budget_s=100.0)
    assert [one.state for one in result.trials] == [TrialState.INTERRUPTED]
    assert result.cut_trials == (0, 12)
    assert len(result.pairs) == n_prompts
    # Seven prompts decide against it.
    assert (result.cut_race is None) == bool(n_prompts)
    assert result.took_s <= 1.5 * 100.0 + 1 + on_s


class Waiting(Drafts, Engine):  # type: ignore[misc] # a part of it
    """Asks within a prompt whether there is time for it."""

    waited_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.check = lambda: None


@pytest.mark.parametrize(("n_quick", "n_pairs"), [(0, 0), (33, 16)])
def test_what_takes_far_longer_than_estimated_ends_within_a_prompt(
    tmp_path: Path, n_quick: int, n_pairs: int
) -> None:
    """Another program takes the cores behind ``n_quick`` prompts."""
    engine = Waiting()

    class Slow(Timed):
        def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
            if self.n_runs >= n_quick:
                self.now_s += 1e4
                engine.check()
            return super().decode(item, speculation)

    measurer = Slow(off_s=0.5)
    result = run(open_study(tmp_path), measurer, n_trials=1, engine=engine, time_budget_s=100.0)
    assert (result.interrupted, result.error) == (False, None)
    assert len(result.pairs) == n_pairs // 2
    assert measurer.now_s < 2e4
    if not n_pairs:
        assert "allow more time" in result.verdict.reason


def test_a_recording_that_takes_longer_than_estimated_is_told_to_end(tmp_path: Path) -> None:
    measurer = Timed(off_s=1.0)
    slow = ScriptedForecaster(measurer=measurer)
    result = run(open_study(tmp_path), measurer, time_budget_s=100.0, forecaster=slow)
    assert result.outlook.forecasts
    assert result.speedup is not None
    assert result.took_s <= 1.5 * 100.0


@pytest.mark.parametrize(
    ("n_given", "n_recorded", "times_others"),
    [(16, 2, True), (16, 5, True), (9, 5, False), (4, 4, False)],
)
def test_where_hardly_anything_was_recorded_other_prompts_are_timed(
    tmp_path: Path, n_given: int, n_recorded: int, *, times_others: bool
) -> None:
    measurer = ScriptedMeasurer(gain=1.5)
    few = ScriptedForecaster(measurer=measurer)
    few.n_prompts = n_recorded
    result = run(open_study(tmp_path), measurer, n_trials=1, n_prompts=n_given, forecaster=few)
    timed = [pair.item.id for pair in result.pairs]
    recorded = {name for name, _category in few.prompts}
    assert timed
    assert recorded.isdisjoint(timed) is times_others
    # Recorded prompts are timed again where there are no others.
    assert (len(timed) == len(set(timed))) is times_others
    assert result.verdict.use_speculation


def test_a_gain_is_found_and_confirmed(tmp_path: Path) -> None:
    result = run(open_study(tmp_path), ScriptedMeasurer(peak=6, gain=1.4), n_trials=25)
    assert result.verdict.use_speculation
    assert abs(known(known(result.best).speculation).own.longest - 6) <= 1
    assert known(known(result.speedup).low) > 1.2
    # No prompt that chose judges.
    chose = {score.prompt_id for record in result.trials for score in record.prompts}
    judged = {pair.item.id for pair in result.pairs}
    assert (len(chose), len(judged)) == (8, 8)
    assert not chose & judged
    assert result.verdict.basis is Basis.UNSEEN


@pytest.mark.parametrize(
    ("gain", "min_gain", "said"), [(0.7, 0.02, "Turn it off"), (1.04, 0.1, "")]
)
def test_a_loss_and_a_gain_below_the_margin_are_called_off(
    tmp_path: Path, gain: float, min_gain: float, said: str
) -> None:
    result = run(open_study(tmp_path), ScriptedMeasurer(gain=gain), min_gain=min_gain)
    assert not result.verdict.use_speculation
    assert said in result.verdict.reason


def test_drift_of_the_machine_does_not_choose_the_winner(tmp_path: Path) -> None:
    # Each run is half a per cent slower: late trials would look 80 % worse by themselves.
    measurer = ScriptedMeasurer(peak=6, gain=1.4, drift_per_run=0.005)
    result = run(open_study(tmp_path), measurer, n_trials=20)
    for record in result.trials:
        expected = measurer.speedup(known(record.arm.speculation))
        assert record.speedup == pytest.approx(expected, rel=0.02)
    assert result.verdict.use_speculation


def test_time_that_others_have_the_engine_is_no_work(tmp_path: Path) -> None:
    def searched(name: str, pause_s: float) -> tuple[int, list[float | None]]:
        engine, told = Drafts(), list[float | None]()

        class Paused(Timed):
            def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
                self.now_s += pause_s
                engine.waited_s += pause_s
                return super().decode(item, speculation)

        def on_event(event: TuneEvent) -> None:
            if isinstance(event, StepDone):
                told.append(event.seconds_left)

        study = open_study(tmp_path, name=name)
        result = run(study, Paused(), engine=engine, on_event=on_event, time_budget_s=120)
        return len(result.trials), told

    n_trials, told = searched("alone", 0)
    # A trial takes 32 s, and to race the eight prompts that no trial has as long.
    assert n_trials == 2
    assert searched("interrupted", 1000) == (n_trials, told)


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", "b"))
    measurer = ScriptedMeasurer()
    measurer.interrupt_at = 16 * 3 + 4  # in the fourth trial
    result = run(open_study(tmp_path, space=space), measurer)
    assert result.interrupted
    states = [record.state for record in result.trials]
    assert states == [TrialState.COMPLETE] * 3 + [TrialState.INTERRUPTED]
    assert best_trial(result.trials) is not None
    assert not result.verdict.use_speculation

    # The same drafts in another order are the same study.
    turned = SearchSpace(drafts=("b", "a"))
    measurer = ScriptedMeasurer()
    resumed = run(open_study(tmp_path, space=turned), measurer, n_trials=5)
    assert sum(r.state is TrialState.COMPLETE for r in resumed.trials) == 5
    assert measurer.n_runs == 2 * 16 + 16  # two trials of 8 pairs, 8 pairs that decide


def test_an_interrupted_forecast_ends_the_search_and_measures_nothing(tmp_path: Path) -> None:
    forecaster = ScriptedForecaster(interrupted=True)
    result = run(open_study(tmp_path), ScriptedMeasurer(), forecaster=forecaster)
    assert result.interrupted
    assert (result.trials, result.finalists) == ((), ())


@pytest.mark.parametrize("error", [DoesNotFitError("the memory is full"), KeyboardInterrupt()])
def test_a_confirmation_that_ends_is_reported_with_what_was_measured(
    tmp_path: Path, error: BaseException
) -> None:
    class Breaks(ScriptedMeasurer):
        def pair(self, item: WorkItem, speculation: Speculation | None, turn: int) -> Pair:
            if turn == 7 and self.n_runs >= 3 * 16:  # behind the trials
                raise error
            return super().pair(item, speculation, turn)

    result = run(open_study(tmp_path), Breaks(), n_trials=3)
    assert (result.error is error) is not result.interrupted
    assert len(result.pairs) == 7
    assert result.best is not None
    assert known(result.speedup).n_prompts == 7


def test_a_changed_output_is_found_in_the_confirmation(tmp_path: Path) -> None:
    division = divide(Workload(items=items(16), n_predict=33, sampling=SamplingConfig(temp=0.0)))

    class Changes(ScriptedMeasurer):
        changed = division.unseen[1].tokens[-1]

        def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
            done = super().decode(item, speculation)
            if speculation is None or item.tokens[-1] != self.changed:
                return done
            return replace(done, tokens=(*done.tokens[:5], -1, *done.tokens[6:]))

    result = run(open_study(tmp_path), Changes(), n_trials=3)
    assert not known(result.lossless).lossless
    divergence = known(result.lossless).divergence
    assert (known(divergence).prompt_id, known(divergence).position) == (division.unseen[1].id, 5)


def test_where_nothing_is_left_to_judge_on_nothing_is_recommended(tmp_path: Path) -> None:
    result = run(open_study(tmp_path), ScriptedMeasurer(gain=1.8), n_trials=3, n_prompts=6)
    assert known(result.speedup).estimate > 1.4
    assert len(result.pairs) == 6
    assert not result.verdict.use_speculation
    assert result.verdict.answer is Answer.UNDECIDED
    assert result.verdict.basis is Basis.SAME
    assert "give more prompts" in result.verdict.reason
    again = run(open_study(tmp_path), ScriptedMeasurer(gain=1.8), n_trials=3)
    assert again.verdict.use_speculation


class Mistaken(ScriptedForecaster):
    """Says that an n-gram drafter gains more than the draft, and the draft so much."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self._gain = gain

    def _outlook(self) -> Outlook:
        model = self._forecast(Speculation(DraftSimple(draft_max=6)))
        ngram = self._forecast(Speculation(NgramSimple()))
        said = [
            replace(model, speedup=self._gain, answers=slower(model, self._gain)),
            replace(ngram, arm=replace(ngram.arm, draft=None), answers=slower(ngram, 1.2)),
        ]
        return Outlook(forecasts=tuple(sorted(said, key=lambda one: -one.speedup)))


def slower(one: Forecast, speedup: float) -> Answers:
    """The answers of a forecast, all of which gain the same."""
    answers = one.answers
    return answers._replace(on_s=answers.off_s / speedup)


@pytest.mark.parametrize(
    ("said", "budget_s", "drafts", "n_runs"),
    [(1.05, None, "good", 2 * 2 * 4), (0.7, None, None, 0), (1.05, 45.0, None, 0)],
    ids=["near", "far", "no-time"],
)
def test_a_few_timed_prompts_choose_between_drafts(
    tmp_path: Path, said: float, budget_s: float | None, drafts: str | None, n_runs: int
) -> None:
    """While the draft was measured, the machine was busy."""
    measurer, notices = ScriptedMeasurer(peak=6, gain=1.4), list[str]()
    result = run(
        open_study(tmp_path),
        measurer,
        n_trials=None,
        n_prompts=8,
        forecaster=Mistaken(said),
        time_budget_s=budget_s,
        on_event=lambda event: notices.append(event.text) if isinstance(event, Notice) else None,
    )
    assert known(result.best).draft == drafts
    assert measurer.n_runs == n_runs + 2 * len(result.pairs)
    assert any("timed prompts" in one for one in notices) == bool(n_runs)


def test_forecasts_choose_without_trials(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    forecaster = ScriptedForecaster(tuple(range(1, 17)), measurer)
    result = run(open_study(tmp_path), measurer, n_trials=None, n_prompts=8, forecaster=forecaster)
    assert known(known(result.best).speculation).own.longest == 6
    assert (result.verdict.answer, result.verdict.basis) == (Answer.USE, Basis.THESE)
    assert (result.trials, result.cut_trials) == ((), None)
    # Every prompt was recorded, and all of so few are timed.
    assert {pair.item.id for pair in result.pairs} == {item.id for item in items(8)}


def test_a_setting_of_the_users_is_counted_or_tried(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    own = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=2)))
    expected = pytest.approx(measurer.speedup(known(own.speculation)), rel=0.02)
    for lengths, is_tried in (((6, 5, 2), False), ((6, 5), True)):
        result = run(
            open_study(tmp_path, name=f"{is_tried}", space=replace(SPACE, present=own)),
            measurer,
            n_trials=None,
            forecaster=ScriptedForecaster(lengths, measurer),
        )
        assert [one.arm for one in result.trials] == [own] * is_tried
        assert all(one.speedup == expected for one in result.trials)
        counted = [(one.arm, known(one.speedup).n_timed) for one in result.finalists[1:]]
        assert counted == [(own, 0)] * (not is_tried)
        assert result.cut_trials is None


def test_a_setting_of_the_users_that_is_shown_to_be_faster_leads(tmp_path: Path) -> None:
    own = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=6)))
    measurer = ScriptedMeasurer(peak=6, gain=1.9)
    result = run(
        open_study(tmp_path, space=replace(SPACE, present=own)),
        measurer,
        n_trials=None,
        forecaster=ScriptedForecaster((16, 15), measurer),
    )
    assert result.best == own
    assert [one.arm for one in result.finalists] == [own]
    assert result.verdict.basis is Basis.UNSEEN


def test_where_nothing_is_drafted_there_is_nothing_to_race(tmp_path: Path) -> None:
    class Silent(ScriptedForecaster):
        def _forecast(self, speculation: Speculation) -> Forecast:
            return replace(super()._forecast(speculation), n_drafted=0, n_accepted=0)

    result = run(open_study(tmp_path), ScriptedMeasurer(), n_trials=None, forecaster=Silent())
    assert result.finalists == ()
    assert "no setting drafts anything on the recorded text" in result.verdict.reason


def test_a_race_without_time_is_told_as_that(tmp_path: Path) -> None:
    now_s = [0.0]

    def on_event(event: TuneEvent) -> None:
        if isinstance(event, ForecastMade):
            now_s[0] = 200.0

    result = run(
        open_study(tmp_path),
        ScriptedMeasurer(),
        n_trials=None,
        time_budget_s=50.0,
        forecaster=ScriptedForecaster(),
        on_event=on_event,
        clock=lambda: now_s[0],
    )
    assert result.outlook.forecasts
    assert result.speedup is None
    assert "there was no time to measure a setting" in result.verdict.reason


def test_of_many_recorded_prompts_some_are_timed(tmp_path: Path) -> None:
    class Many(ScriptedForecaster):
        n_prompts = 30

    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    forecaster = Many(tuple(range(1, 17)), measurer)
    result = run(open_study(tmp_path), measurer, n_trials=None, n_prompts=30, forecaster=forecaster)
    speedup = known(result.speedup)
    assert (result.verdict.answer, result.verdict.basis) == (Answer.USE, Basis.CROSSED)
    assert (speedup.n_prompts, speedup.n_timed) == (30, 8)
    assert speedup.estimate == pytest.approx(1.4, rel=0.01)
    assert "30 prompts, 8 of them timed" in result.verdict.reason


@pytest.mark.parametrize("n", [1, 2, 4])
def test_of_a_few_prompts_the_answer_is_for_just_these(tmp_path: Path, n: int) -> None:
    class Few(ScriptedForecaster):
        n_prompts = n

    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    result = run(
        open_study(tmp_path),
        measurer,
        n_trials=None,
        n_prompts=n,
        forecaster=Few(tuple(range(1, 17)), measurer),
    )
    speedup = known(result.speedup)
    assert (result.verdict.answer, result.verdict.basis) == (Answer.USE, Basis.THESE)
    assert (speedup.n_prompts, speedup.n_timed) == (n, n)
    assert len(result.pairs) >= 6
    assert f"{counted(n, 'prompt')} cannot tell what others gain." in result.verdict.reason


def test_a_draft_that_fails_is_a_failed_trial_and_the_search_goes_on(tmp_path: Path) -> None:
    events: list[TuneEvent] = []
    engine, space = Drafts(), SearchSpace(drafts=("broken", "good"))
    study = open_study(tmp_path, space=space)
    result = run(study, ScriptedMeasurer(), n_trials=8, on_event=events.append, engine=engine)
    failed = [record for record in result.trials if record.state is TrialState.FAIL]
    assert failed
    assert all(record.error == "broken.gguf cannot be loaded" for record in failed)
    assert all(record.tokens_per_s is None for record in failed)
    assert known(result.best).draft == "good"
    finished = [event.record for event in events if isinstance(event, TrialFinished)]
    assert finished == list(result.trials)
    alone = open_study(tmp_path, name="alone", space=SearchSpace(drafts=("broken",)))
    verdict = run(alone, ScriptedMeasurer(), n_trials=2).verdict
    assert not verdict.use_speculation
    assert "broken.gguf cannot be loaded" in verdict.reason


DIED = EngineDiedError("its process was killed", ("ggml_backend: out of memory",))


def test_an_arm_whose_process_ended_is_tried_no_more(tmp_path: Path) -> None:
    with open_study(tmp_path) as study:
        arm = study.space.defaults[0]
        study.enqueue([arm])
        study.fail(study.ask(), DIED)
    with open_study(tmp_path) as resumed:
        assert [one.log for one in resumed.records()] == [DIED.log]
        resumed.enqueue([arm])
        assert resumed.ask().arm != arm


def test_failures_of_earlier_runs_do_not_end_a_search(tmp_path: Path) -> None:
    with open_study(tmp_path) as study:
        for arm in study.space.defaults[:3]:
            study.enqueue([arm])
            study.fail(study.ask(), DIED)
    # As a fourth it would be one too many.
    result = run(open_study(tmp_path), Mortal(2, 4))
    assert sum(one.state is TrialState.FAIL for one in result.trials) == 4
    assert result.error is None


DEFECT = SpectuiError("TypeError: on purpose")
DEFECT.add_note("Traceback")


class Fails(ScriptedMeasurer):
    """With every setting."""

    def __init__(self, error: SpectuiError) -> None:
        super().__init__()
        self._error = error

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        done = super().decode(item, speculation)
        if speculation is not None:
            raise self._error
        return done


@pytest.mark.parametrize(
    ("error", "states"),
    [
        (DIED, [TrialState.FAIL] * 3),
        (DEFECT, [TrialState.FAIL]),
    ],
    ids=["died", "defect"],
)
def test_what_ends_a_search_leaves_a_study_that_goes_on(
    tmp_path: Path, error: SpectuiError, states: list[TrialState]
) -> None:
    result = run(open_study(tmp_path), Fails(error))
    assert result.error is error
    assert [one.state for one in result.trials] == states
    assert result.verdict.answer is not Answer.USE
    assert run(open_study(tmp_path), ScriptedMeasurer()).verdict.answer is Answer.USE


def test_the_targets_own_layers_draft_as_far_as_they_reach(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", MTP_KIND), mtp_layers={MTP_KIND: 2})
    first = space.defaults
    assert [arm.drafter for arm in first] == ["a", MTP_KIND, "a", "ngram-simple"]
    assert first[1].speculation == Speculation(DraftMtp(draft_max=2))
    own = Speculation(DraftMtp(draft_max=1, draft_min=1, draft_p_min=0.35))
    queued = [Arm(draft=MTP_KIND, speculation=setting) for setting in (own, own.after(AHEAD[-1:]))]
    with open_study(tmp_path, space=space) as study:
        begin(study)
        study.enqueue(queued)
        asked = [study.ask().arm for _ in range(30)]
    assert asked[: len(first) + 2] == [*first, *queued]
    for arm in asked:
        is_own = arm.draft == MTP_KIND
        assert arm.speculation is None or arm.speculation.is_mtp is is_own
        if is_own and arm.speculation is not None:
            assert 1 <= arm.speculation.own.longest <= 2
            assert arm.speculation.own.check() is None
    assert sum(arm.draft == MTP_KIND for arm in asked) > len(queued) + 1


def test_a_study_without_a_draft_tries_ngrams(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=10)
    measurer.ngram_gain = 1.3
    study = open_study(tmp_path, space=SearchSpace(drafts=()))
    result = run(study, measurer, n_trials=20)
    kinds = {record.arm.drafter for record in result.trials}
    assert {"ngram-simple"} < kinds <= {*NGRAM_KINDS}
    assert abs(known(known(result.best).speculation).own.longest - 10) <= 3
    assert result.verdict.use_speculation
    with open_study(tmp_path, space=SearchSpace(drafts=())) as again:
        assert again.records() == result.trials


@pytest.mark.parametrize("drafts", [("a", "b"), ()])
def test_an_arm_that_is_queued_is_the_arm_that_is_asked_for(
    tmp_path: Path, drafts: tuple[str, ...]
) -> None:
    space = SearchSpace(drafts=drafts)
    ngrams = (*space.ngrams()[::4], Speculation(FIRST_NGRAM))
    arms = [Arm(draft=None, speculation=speculation) for speculation in ngrams]
    model = Speculation(DraftSimple(draft_max=7, draft_min=2, draft_p_min=0.35))
    arms += [
        Arm(draft=draft, speculation=one)
        for one in (model, model.after(AHEAD[-1:]))
        for draft in drafts
    ]
    first = space.defaults
    with open_study(tmp_path, space=space) as study:
        begin(study)
        study.enqueue(arms)
        study.enqueue(arms)
        new = [arm for arm in arms if arm not in first]
        assert [study.ask().arm for _ in (*first, *new)] == [*first, *new]


def test_both_kinds_are_searched_and_ngrams_leave_the_models_parameters_alone(
    tmp_path: Path,
) -> None:
    result = run(open_study(tmp_path), ScriptedMeasurer(), n_trials=20, n_prompts=8)
    arms = [record.arm for record in result.trials]
    assert sum(arm.speculation is not None and arm.draft is None for arm in arms) > 1
    for config in (arm.speculation for arm in arms if arm.speculation is not None):
        if config.model is None:
            assert 2 <= config.longest <= 16
        else:
            assert 1 <= config.model.draft_max <= 16
            assert 0 <= config.model.draft_min <= min(4, config.model.draft_max)
            assert 0 <= config.model.draft_p_min <= 0.95


def test_what_is_both_promising_and_a_default_is_tried_once(tmp_path: Path) -> None:
    default = Arm(draft="good", speculation=Speculation(SERVER_DEFAULTS))
    with open_study(tmp_path) as study:
        begin(study, [forecast_of(default, 1.5)])
        asked = [study.ask().arm for _ in range(20)]
    assert asked[0] == default
    assert asked[1:4].count(default) == 0
    # Drafters ahead of a model are forecast, and not sampled.
    assert not any(arm.speculation and arm.speculation.ahead for arm in asked)
