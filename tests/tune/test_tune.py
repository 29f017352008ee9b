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
from spectui.measure.arm import OFF, Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.verdict import Answer, Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import (
    MTP_KIND,
    NGRAM_KINDS,
    DraftMtp,
    DraftSimple,
    ModelDrafter,
)
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.decoder import Stop
from spectui.tune.candidates import Candidate
from spectui.tune.division import divide
from spectui.tune.events import (
    DraftRecorded,
    ForecastMade,
    Notice,
    PromptMeasured,
    TraceProgress,
    TracingEvent,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Answers, Forecast, Outlook, in_order
from spectui.tune.forecaster import Forecaster
from spectui.tune.loading import Loader
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.space import (
    AHEAD,
    FIRST_NGRAM,
    SERVER_DEFAULTS,
    Parameter,
    SearchSpace,
)
from spectui.tune.studies.study import TuningStudy
from spectui.tune.tracing import Deadlines
from spectui.tune.trials import (
    TrialState,
    best_trial,
    off_level,
    speedup_estimate,
)
from tests.support.search import (
    OFF_TOKENS_PER_S,
    SPACE,
    Mortal,
    ScriptedMeasurer,
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
        self.n_interruptions = 0
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
        on_event: Callable[[TracingEvent], None],
        until: Deadlines,
    ) -> Outlook:
        self.in_time.append((until.has_time(), until.may_write()))
        self.recorded.append((n_prompts, n_tokens))
        if self._interrupted:
            raise KeyboardInterrupt
        on_event(DraftRecorded(prompt_id="p0", draft="good", n_tokens=33, seconds=1.0))
        while isinstance(self._measurer, Timed) and not until.is_late():
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


def begin(study: TuningStudy, forecasts: Sequence[Forecast] = (), *, chains: bool = True) -> None:
    """As a search does, whose recording comes between off and the rest."""
    study.begin()
    study.follow(in_order(forecasts, study.space.defaults), chains=chains)


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
        division=divide(workload, 8, {p.prompt_id for r in study.records() for p in r.prompts}),
        n_ctx=4096,
        measurer=cast("Measurer", measurer),
        loader=Loader(driver, candidates),
        limits=Limits(n_trials=n_trials, time_budget_s=time_budget_s),
        min_gain=min_gain,
        on_event=on_event,
    )
    own_clock = measurer.clock if isinstance(measurer, Timed) else time.monotonic
    search = Search(
        setup, forecaster=cast("Forecaster | None", forecaster), clock=clock or own_clock
    )
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


def test_off_and_the_defaults_of_every_drafter_are_tried_first(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", "b"))
    result = run(open_study(tmp_path, space=space), ScriptedMeasurer(), n_trials=5)
    assert [record.arm.label for record in result.trials] == [
        "off",
        "a: max 3, min 0, p_min 0.00",
        "b: max 3, min 0, p_min 0.00",
        "a: max 16, min 0, p_min 0.75",
        "ngram-simple: n 4, m 8",
    ]


def test_the_best_forecast_comes_right_after_off_and_the_others_before_the_sampler(
    tmp_path: Path,
) -> None:
    events: list[TuneEvent] = []
    forecaster = ScriptedForecaster()
    result = run(
        open_study(tmp_path),
        ScriptedMeasurer(),
        n_trials=7,
        forecaster=forecaster,
        on_event=events.append,
    )
    longest = [r.arm.speculation.own.longest for r in result.trials[1:6] if r.arm.speculation]
    assert longest == [7, 3, 16, FIRST_NGRAM.longest, 5]
    assert [one.arm.speculation for one in result.outlook.forecasts] == [
        Speculation(DraftSimple(draft_max=7)),
        Speculation(DraftSimple(draft_max=5)),
    ]
    told = [type(event) for event in events if not isinstance(event, PromptMeasured)]
    assert told[:4] == [TraceProgress, TraceProgress, ForecastMade, TrialStarted]


@pytest.mark.parametrize(
    ("seconds_per_prompt", "extent"),
    # Rather less of each answer than fewer than six prompts, and one at least.
    [(1.0, (8, 33)), (8.0, (6, 33)), (13.0, (7, 16)), (1000.0, (1, 16))],
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
        if isinstance(event, TraceProgress):
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
    longest = [r.arm.speculation.own.longest for r in result.trials[1:] if r.arm.speculation]
    assert longest == [*([7, 3] if keeps else [3, 7]), 16, FIRST_NGRAM.longest, 5]


def test_where_time_is_too_short_for_a_trial_the_defaults_are_raced(tmp_path: Path) -> None:
    result = run(open_study(tmp_path), Timed(), time_budget_s=30.0)
    assert [record.arm for record in result.trials] == [OFF]
    assert result.spent.ended_trials
    assert (result.spent.n_tried, result.spent.n_trials) == (1, 12)
    assert 30.0 < result.spent.took_s <= 1.5 * 30.0 + 4
    assert result.best == Arm(draft="good", speculation=Speculation(SERVER_DEFAULTS))
    assert result.verdict.use_speculation


def test_a_budget_ends_the_target_alone_within_a_prompt(tmp_path: Path) -> None:
    result = run(open_study(tmp_path), Timed(off_s=10.0), time_budget_s=35.0)
    assert [record.state for record in result.trials] == [TrialState.INTERRUPTED]
    assert result.spent.took_s == 40.0
    assert result.spent.ended_trials
    assert not result.interrupted
    assert "only the target alone was tried; allow more" in result.verdict.reason
    # What was begun is tried again.
    again = run(open_study(tmp_path), Timed(), n_trials=2)
    assert [record.state for record in again.trials][1:] == [TrialState.COMPLETE] * 2


@pytest.mark.parametrize(("on_s", "n_prompts"), [(20.0, 5), (200.0, 1)])
def test_a_long_trial_gives_way_to_the_race_which_ends_soon_after_the_budget(
    tmp_path: Path, on_s: float, n_prompts: int
) -> None:
    measurer = Timed(off_s=1.0, on_s=on_s)
    result = run(open_study(tmp_path), measurer, time_budget_s=100.0)
    assert result.trials[1].state is TrialState.INTERRUPTED
    assert result.spent.ended_trials
    assert measurer.measured[8 : 8 + n_prompts] == [Speculation(SERVER_DEFAULTS)] * n_prompts
    assert measurer.measured[8 + n_prompts :][:1] in ([None], [])
    assert result.spent.took_s <= 1.5 * 100.0 + 1 + on_s


def test_a_recording_that_takes_longer_than_estimated_is_told_to_end(tmp_path: Path) -> None:
    measurer = Timed(off_s=1.0)
    slow = ScriptedForecaster(measurer=measurer)
    result = run(open_study(tmp_path), measurer, time_budget_s=100.0, forecaster=slow)
    assert result.outlook.forecasts
    assert result.speedup is not None
    assert result.spent.took_s <= 1.5 * 100.0


def test_what_the_dialect_cannot_say_is_no_finalist(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=10, gain=1.1)
    measurer.ngram_gain = 2.0
    run(open_study(tmp_path), measurer, n_trials=6)
    plain = SearchSpace(drafts=("good",), with_ngrams=False)
    assert plain.ngrams() == ()
    result = run(open_study(tmp_path, space=plain), measurer, n_trials=12)
    assert {record.arm.drafter for record in result.trials[6:]} == {"good"}
    assert known(result.best).draft == "good"


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
    # Each run is half a per cent slower: late trials would look 50 % worse without anchors.
    measurer = ScriptedMeasurer(peak=6, gain=1.4, drift_per_run=0.005)
    result = run(open_study(tmp_path), measurer, n_trials=20)
    levels = [record.relative for record in result.trials if record.arm == OFF]
    assert all(level == pytest.approx(1.0, rel=0.03) for level in levels)
    assert result.verdict.use_speculation
    # A trial between anchors that disagree is repeated and marked.
    measurer = ScriptedMeasurer(drift_per_run=0.05)
    result = run(open_study(tmp_path, name="fast"), measurer, n_trials=1)
    assert result.trials[0].noisy
    assert measurer.n_runs == 2 * 8


class Disturbed(ScriptedMeasurer):
    """On a machine that is slow during the second half of its first trial of 4 prompts."""

    def _machine(self) -> float:
        return 0.2 if 3 <= self.n_runs <= 4 else 1.0


def test_anchors_stand_in_for_off_where_its_only_trial_is_noisy(tmp_path: Path) -> None:
    """A quarter of its speed there would make every setting look twice as fast as it is."""
    study = open_study(tmp_path)
    first = run(study, Disturbed(gain=0.8), n_trials=1, n_prompts=8, time_budget_s=1e6)
    [noisy] = first.trials
    assert noisy.noisy
    assert known(noisy.relative) < 0.8
    assert off_level(first.trials) == 1.0
    found = run(open_study(tmp_path), ScriptedMeasurer(gain=0.8), n_trials=6, n_prompts=8)
    assert [one.arm.is_off for one in found.trials] == [True, *[False] * 5]
    assert all(
        (one or 2) < 1
        for one in (speedup_estimate(record, found.trials) for record in found.trials[1:])
    )


@pytest.mark.parametrize(
    ("when", "n_anchors"),
    # One ends each trial, and one more begins the first and what follows an interruption.
    [("never", 4), ("between", 5), ("in each anchor", 2 * 3)],
)
def test_an_anchor_from_before_an_interruption_begins_no_trial(
    tmp_path: Path, when: str, n_anchors: int
) -> None:
    engine = Drafts()

    class Changing(ScriptedMeasurer):
        is_slow = False
        n_anchors = 0

        def anchor(self) -> float:
            self.n_anchors += 1
            engine.n_interruptions += when == "in each anchor"
            return super().anchor()

        def _machine(self) -> float:
            return 0.5 if self.is_slow else 1.0

    def on_event(event: TuneEvent) -> None:
        if when == "between" and isinstance(event, TrialFinished) and event.record.number == 0:
            engine.n_interruptions += 1
            measurer.is_slow = True

    measurer, study = Changing(), open_study(tmp_path)
    result = run(study, measurer, n_trials=3, n_prompts=8, on_event=on_event, engine=engine)
    later = OFF_TOKENS_PER_S / (2 if measurer.is_slow else 1)
    anchors = [record.anchor_tokens_per_s for record in result.trials]
    assert anchors == [OFF_TOKENS_PER_S, later, later]
    assert measurer.n_anchors == n_anchors
    # No trial was repeated: three of 4 prompts, and 8 pairs.
    assert measurer.n_runs == 3 * 4 + 2 * 8


def test_time_that_others_have_the_engine_is_no_work(tmp_path: Path) -> None:
    def searched(name: str, pause_s: float) -> tuple[int, list[float | None]]:
        engine, told = Drafts(), list[float | None]()

        class Paused(Timed):
            def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
                self.now_s += pause_s
                engine.waited_s += pause_s
                return super().decode(item, speculation)

        def on_event(event: TuneEvent) -> None:
            if isinstance(event, PromptMeasured):
                told.append(event.seconds_left)

        study = open_study(tmp_path, name=name)
        result = run(study, Paused(), engine=engine, on_event=on_event, time_budget_s=120)
        return len(result.trials), told

    n_trials, told = searched("alone", 0)
    # A trial takes 16 s, and to race the eight prompts that no trial has some 30.
    assert n_trials == 5
    assert searched("interrupted", 1000) == (n_trials, told)


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", "b"))
    measurer = ScriptedMeasurer()
    measurer.interrupt_at = 8 * 3 + 4  # in the fourth trial
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
    assert measurer.n_runs == 2 * 8 + 2 * 8  # two trials of 8 prompts, 8 pairs that decide


@pytest.mark.parametrize(
    ("ended", "state"), [(2, TrialState.INTERRUPTED), (0, TrialState.FAIL)], ids=["user", "process"]
)
def test_off_is_tried_again_where_it_ended(tmp_path: Path, ended: int, state: TrialState) -> None:
    measurer = ScriptedMeasurer() if ended else Mortal(1)
    measurer.interrupt_at = ended or None
    assert run(open_study(tmp_path), measurer).interrupted is bool(ended)
    result = run(open_study(tmp_path), ScriptedMeasurer())
    off = [one.state for one in result.trials if one.arm.is_off]
    assert off[:2] == [state, TrialState.COMPLETE]
    assert (result.error, result.verdict.answer) == (None, Answer.USE)


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
            if turn == 7:
                raise error
            return super().pair(item, speculation, turn)

    result = run(open_study(tmp_path), Breaks(), n_trials=3)
    assert (result.error is error) is not result.interrupted
    assert len(result.pairs) == 7
    assert result.best is not None
    assert known(result.speedup).n_prompts == 7


def test_a_changed_output_is_found_in_the_confirmation(tmp_path: Path) -> None:
    division = divide(Workload(items=items(16), n_predict=33, sampling=SamplingConfig(temp=0.0)), 8)

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


def test_few_prompts_are_judged_by_what_follows_their_answers(tmp_path: Path) -> None:
    result = run(open_study(tmp_path), ScriptedMeasurer(gain=1.8), n_trials=3, n_prompts=8)
    plain = {item.id: item.tokens for item in items(8)}
    assert len(result.pairs) == 8
    chose = {score.prompt_id for score in result.trials[0].prompts}
    assert len(chose) == 4
    for pair in result.pairs:
        # Of a prompt that chose, what follows the 33 tokens that the target wrote in the off trial.
        written = range(33) if pair.item.id in chose else ()
        assert pair.item.tokens == (*plain[pair.item.id], *written)
    assert result.verdict.use_speculation
    assert result.verdict.basis is Basis.LATER
    assert "8 prompts, continued behind the answers that chose it" in result.verdict.reason
    assert known(result.speedup).level == 0.95
    # A study that goes on judges by the same text.
    measurer = ScriptedMeasurer()
    again = run(open_study(tmp_path), measurer, n_trials=3, n_prompts=8)
    assert [one.item for one in again.pairs] == [one.item for one in result.pairs]
    assert measurer.n_runs == 4 + 2 * 8  # four answers once more, and 8 pairs


def test_where_nothing_is_left_to_judge_on_nothing_is_recommended(tmp_path: Path) -> None:
    class Brief(ScriptedMeasurer):
        """Its answers end of themselves."""

        def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
            return replace(super().decode(item, speculation), stop=Stop.END_OF_GENERATION)

    result = run(open_study(tmp_path), Brief(gain=1.8), n_trials=3, n_prompts=8)
    assert known(result.speedup).estimate > 1.4
    assert not result.verdict.use_speculation
    assert result.verdict.answer is Answer.UNDECIDED
    assert result.verdict.basis is Basis.SAME
    assert "give more prompts" in result.verdict.reason
    assert run(open_study(tmp_path), Brief(gain=1.8), n_trials=3).verdict.use_speculation


def test_forecasts_choose_without_trials(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    forecaster = ScriptedForecaster(tuple(range(1, 17)), measurer)
    result = run(open_study(tmp_path), measurer, n_trials=None, n_prompts=8, forecaster=forecaster)
    assert known(known(result.best).speculation).own.longest == 6
    assert (result.verdict.answer, result.verdict.basis) == (Answer.USE, Basis.THESE)
    assert (result.trials, result.spent.n_tried, result.spent.n_trials) == ((), 0, 0)
    # Every prompt was recorded, and all of so few are timed.
    assert {pair.item.id for pair in result.pairs} == {item.id for item in items(8)}


def test_a_setting_of_the_users_is_counted_or_raced(tmp_path: Path) -> None:
    measurer = ScriptedMeasurer(peak=6, gain=1.4)
    own = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=2)))
    for lengths, is_raced in (((6, 5, 2), False), ((6, 5), True)):
        result = run(
            open_study(tmp_path, name=f"{is_raced}", space=replace(SPACE, present=own)),
            measurer,
            n_trials=None,
            forecaster=ScriptedForecaster(lengths, measurer),
        )
        (standing,) = result.finalists[1:]
        assert (standing.arm, standing.n_pairs > 0) == (own, is_raced)
        assert (known(standing.speedup).n_timed == 0) is not is_raced
        expected = measurer.speedup(known(own.speculation))
        assert known(standing.speedup).estimate == pytest.approx(expected, rel=0.02)


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
    assert [known(one.arm.speculation).own.longest for one in result.finalists] == [6, 15]


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
    assert "there was no time to measure the best forecast" in result.verdict.reason


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
    these = "this prompt does" if n == 1 else f"these {n} prompts do"
    assert f"What other prompts gain, {these} not tell." in result.verdict.reason


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
    verdict = run(alone, ScriptedMeasurer(), n_trials=3).verdict
    assert not verdict.use_speculation
    assert "broken.gguf cannot be loaded" in verdict.reason


def test_untuned_parameters_stay_at_the_servers_defaults(tmp_path: Path) -> None:
    study = open_study(tmp_path, space=replace(SPACE, tuned=frozenset({Parameter.DRAFT_MAX})))
    engine = Drafts()
    result = run(study, ScriptedMeasurer(), n_trials=10, engine=engine)
    owns = {r.arm.speculation.own for r in result.trials if r.arm.speculation}
    configs = [own for own in owns if isinstance(own, ModelDrafter)]
    assert {(c.draft_min, c.draft_p_min) for c in configs} == {(0, 0.0)}
    assert len({c.draft_max for c in configs}) > 1
    # A draft is loaded only when it changes.
    assert engine.loaded == ["good"]


def test_sizes_of_ngrams_vary_only_where_lengths_are_tuned(tmp_path: Path) -> None:
    tuned = frozenset({Parameter.DRAFT_P_MIN})
    assert SearchSpace(drafts=("good",), tuned=tuned).ngrams() == (Speculation(FIRST_NGRAM),)
    with open_study(tmp_path, space=replace(SPACE, tuned=tuned)) as study:
        begin(study)
        asked = [study.ask().arm for _ in range(12)]
    ngrams = [arm.speculation for arm in asked if arm.drafter == "ngram-simple"]
    assert len(ngrams) > 1
    assert set(ngrams) == {Speculation(FIRST_NGRAM)}


DIED = EngineDiedError("its process was killed", ("ggml_backend: out of memory",))


def died_twice(study: TuningStudy) -> Arm:
    """An arm whose process has ended twice: once may have been chance."""
    arm = study.space.defaults[0]
    for _ in range(2):
        study.enqueue([arm])
        proposal = study.ask()
        assert proposal.arm == arm
        study.fail(proposal, DIED)
    return arm


def test_an_arm_whose_process_ended_twice_is_tried_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_study(tmp_path) as study:
        arm = died_twice(study)
    with open_study(tmp_path) as resumed:
        assert {one.log for one in resumed.records()} == {DIED.log}
        resumed.enqueue([arm])
        assert all(resumed.ask().arm != arm for _ in range(12))
        monkeypatch.setattr("spectui.tune.studies.study.suggest_arm", lambda *_, **__: arm)
        with pytest.raises(EngineDiedError, match="would try has ended its process twice"):
            resumed.ask()


def test_failures_of_earlier_runs_do_not_end_a_search(tmp_path: Path) -> None:
    with open_study(tmp_path) as study:
        for arm in study.space.defaults[:3]:
            study.enqueue([arm])
            study.fail(study.ask(), DIED)
    # As a fourth it would be one too many.
    result = run(open_study(tmp_path), Fails(DIED, on=True, once=True))
    assert sum(one.died for one in result.trials) == 4
    assert result.error is None


DEFECT = SpectuiError("TypeError: on purpose")
DEFECT.add_note("Traceback")


class Fails(ScriptedMeasurer):
    """With or without speculation."""

    def __init__(self, error: SpectuiError, *, on: bool, once: bool = False) -> None:
        super().__init__()
        self._error, self._on, self._once = error, on, once

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        is_again = any(self.measured)
        done = super().decode(item, speculation)
        if (speculation is not None) is self._on and not (self._once and is_again):
            raise self._error
        return done


@pytest.mark.parametrize(
    ("error", "on", "states"),
    [
        (DIED, False, [TrialState.FAIL, *[TrialState.COMPLETE] * 3, TrialState.FAIL]),
        (DEFECT, True, [TrialState.COMPLETE, TrialState.FAIL]),
    ],
    ids=["off died twice", "defect"],
)
def test_what_ends_a_search_leaves_a_study_that_goes_on(
    tmp_path: Path, error: SpectuiError, *, on: bool, states: list[TrialState]
) -> None:
    result = run(open_study(tmp_path), Fails(error, on=on))
    assert result.error is error
    assert [one.state for one in result.trials] == states
    assert result.verdict.answer is not Answer.USE
    assert run(open_study(tmp_path), ScriptedMeasurer()).verdict.answer is Answer.USE


def test_the_targets_own_layers_draft_as_far_as_they_reach(tmp_path: Path) -> None:
    space = SearchSpace(drafts=("a", MTP_KIND), mtp_layers=2)
    first = space.first_arms()
    assert [arm.drafter for arm in first] == ["off", "a", MTP_KIND, "a", "ngram-simple"]
    assert first[2].speculation == Speculation(DraftMtp(draft_max=2))
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
    assert {"off", "ngram-simple"} < kinds <= {"off", *NGRAM_KINDS}
    assert result.trials[0].arm == OFF
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
    first = space.first_arms()
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


def test_drafters_ahead_are_tried_only_where_a_forecast_says_that_they_gain(
    tmp_path: Path,
) -> None:
    for chains in (False, True):
        with open_study(tmp_path, name=str(chains)) as study:
            begin(study, chains=chains)
            asked = [study.ask().arm for _ in range(20)]
        assert any(arm.speculation and arm.speculation.ahead for arm in asked) is chains
    # What is both promising and a default is tried once.
    default = Arm(draft="good", speculation=Speculation(SERVER_DEFAULTS))
    with open_study(tmp_path, name="promising") as study:
        begin(study, [Forecast(arm=default, speedup=1.5, n_drafted=9, n_accepted=5)])
        asked = [study.ask().arm for _ in range(4)]
    assert asked[:2] == [OFF, default]
    assert asked.count(default) == 1
