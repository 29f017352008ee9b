"""Displays of progress: plain lines for logs and pipes, a live panel for a terminal."""

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectui.cli.progress import Progress
from spectui.demo import DemoProgress
from spectui.engine.events import (
    Event,
    LoadProgress,
    LoadWarned,
    RoundFinished,
    TokenEmitted,
)
from spectui.format import counted, left_text, percent_text, rate_text, times_text
from spectui.interrupts import interrupts
from spectui.measure.measurer import Run
from spectui.speculative.counters import Counters, count
from spectui.tune.events import (
    CostsMeasured,
    DraftLeftOut,
    DraftRecorded,
    ForecastMade,
    OutputRecorded,
    PromptMeasured,
    PromptProbed,
    RaceDecided,
    RunsStarted,
    StudyResumed,
    TraceProgress,
    TracingEvent,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Forecast
from spectui.tune.race import finalist
from spectui.tune.trials import TrialRecord, TrialState, best_trial, n_measured, speedup_estimate

_SILENT_S = 15.0
"""Seconds without a line after which the next small step is reported as well."""
_REPAINT_S = 1.0
_SHOWN_TRIALS = 12


class _Display(Progress):
    """A display of a search; shows what all displays have a line for."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__()
        self._console = console
        self._clock = clock
        self._task = ""
        """The current step of the search, which loading a model interrupts."""
        self._records: list[TrialRecord] = []

    def on_engine(self, event: Event) -> None:
        """Show warnings, and the progress of loads."""
        match event:
            case LoadWarned(warning=warning):
                self.warn(warning)
            case LoadProgress(role=role, path=path, fraction=fraction):
                text = f"loading the {role} {path.name}: {percent_text(fraction)}"
                self.on_load(text, is_done=fraction >= 1)
            case _:
                pass

    def on_load(self, text: str, *, is_done: bool) -> None:
        """A model is being loaded."""

    def on_tune(self, event: TuneEvent) -> None:
        """Show what every display has a line for."""
        match event:
            case StudyResumed(records=records):
                self._records.extend(records)
                self.say(f"resuming a study with {counted(n_measured(records), 'trial')}")
            case TrialFinished(record=record):
                self._records.append(record)
            case ForecastMade(forecasts=forecasts):
                self.say(_forecast(forecasts))
            case RaceDecided(text=text):
                self.say(text)
            case _:
                pass


class Lines(_Display):
    """Plain lines, for logs and pipes: one for each thing that is done, more where that is slow."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to ``console``."""
        super().__init__(console, clock)
        self._said_s = clock()
        self._building: str | None = None

    def on_demo(self, progress: DemoProgress) -> None:
        """Print one line per model."""
        # A model that was built before reports only that it is complete.
        if progress.fraction < 1 and self._building != progress.model:
            self._building = str(progress.model)
            self.say(f"building the demo model {progress.model}")

    def on_load(self, text: str, *, is_done: bool) -> None:  # noqa: ARG002 - the base's
        """Print the progress of slow loads."""
        self._murmur(text)

    def on_tune(self, event: TuneEvent) -> None:
        """Print one line per trial, and its progress if it is slow."""
        super().on_tune(event)
        match event:
            case TrialStarted(number=number, arm=arm, n_prompts=n_prompts):
                self._task = f"trial {number}"
                if arm.is_off:
                    self.say(f"measuring the target alone on {counted(n_prompts, 'prompt')}")
            case TrialFinished(record=record):
                self.say(_finished(record, self._records))
            case TraceProgress(step=None):
                self.say("recording the prompts, to replay every setting on them")
            case TraceProgress(step=step) if step is not None:
                self._murmur(traced(step))
            case RunsStarted(text=text):
                self._task = "confirming"
                self.say(text)
            case PromptMeasured(prompt_id=prompt, result=result):
                rate = rate_text(result.tokens_per_s)
                self._murmur(f"{prompt}: {rate} tokens/s ({self._task})")
            case _:
                pass

    def on_run(self, run: Run) -> None:
        """Print one line per prompt."""
        self.say(_measured(run))

    def announce(self, text: str) -> None:
        """Print one line."""
        self.say(text)

    def say(self, text: str) -> None:
        """Print one line."""
        self._said_s = self._clock()
        # Of a terminal the console knows the width, and breaks at blanks.
        is_log = not self._console.is_terminal
        self._console.print(text, markup=False, highlight=False, soft_wrap=is_log)

    def _murmur(self, text: str) -> None:
        if self._clock() - self._said_s >= _SILENT_S:
            self.say(text)


class Screen(_Display):
    """A live panel of the search.

    It is repainted by events and at most once a second: a thread that repaints would take a core
    from the models, and what is measured would be wrong.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw on ``console``, which is a terminal."""
        super().__init__(console, clock)
        self._painted_s = 0.0
        self._status = "starting"
        self._n_done = self._n_prompts = 0
        self._ends_s: float | None = None
        """Time on the clock at which the search ends at the latest, by its last estimate."""
        self._n_recorded = self._n_runs = 0
        self._counters = Counters()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def on_demo(self, progress: DemoProgress) -> None:
        """Show which model is built."""
        if progress.fraction < 1:
            self.say(f"building the demo model {progress.model}: {percent_text(progress.fraction)}")

    def on_load(self, text: str, *, is_done: bool) -> None:
        """Show it in place of the step that it interrupts."""
        self.say(self._task if is_done and self._task else text)

    def on_engine(self, event: Event) -> None:
        """Show loading, and what the current rounds accept."""
        super().on_engine(event)
        if isinstance(event, RoundFinished):
            self._counters += count((event.round,))
        # Without a draft there are no rounds, and the time left goes on.
        if isinstance(event, RoundFinished | TokenEmitted):
            self._paint()

    def on_tune(self, event: TuneEvent) -> None:
        """Show trials as they come."""
        super().on_tune(event)
        match event:
            case TraceProgress(step=None):
                self._n_recorded = 0
                self._status = "recording, to replay every setting"
            case TraceProgress(step=step, n_steps=n_steps) if step is not None:
                self._n_recorded += 1
                self._status = f"recording {self._n_recorded}/{n_steps} · {traced(step)}"
            case TrialStarted(number=number, arm=arm, n_prompts=n_prompts):
                self._begin(f"trial {number}: {arm.label}", n_prompts)
            case RunsStarted(text=text, n_runs=n_runs):
                self._begin(text, n_runs)
            case PromptMeasured(prompt_id=prompt, result=result, seconds_left=left):
                self._n_done += 1
                # A race that goes faster than planned takes more prompts. The count comes first: a
                # narrow terminal cuts the end.
                done = f"{self._n_done} of {max(self._n_done, self._n_prompts)}"
                rate = rate_text(result.tokens_per_s)
                self._status = f"{done} · {self._task} · {prompt}: {rate} tokens/s"
                self._ends_s = None if left is None else self._clock() + left
            case _:
                pass
        self._paint(force=not isinstance(event, PromptMeasured | TraceProgress))

    def _begin(self, task: str, n_prompts: int) -> None:
        self._counters = Counters()
        self._status = self._task = task
        self._n_done, self._n_prompts = 0, n_prompts

    def on_run(self, run: Run) -> None:
        """Show which prompt was measured."""
        self._n_runs += 1
        self._status = f"{self._n_runs} measured · {_measured(run)}"
        self._paint(force=True)

    def say(self, text: str) -> None:
        """Show ``text`` as the current step."""
        self._status = text
        self._paint()

    def announce(self, text: str) -> None:
        """Print ``text`` above the display, where it stays."""
        with interrupts.deferred():
            self._console.print(Text(text))

    def close(self) -> None:
        """Remove the display."""
        with interrupts.deferred():
            self._live.stop()

    def _paint(self, *, force: bool = False) -> None:
        now_s = self._clock()
        if force or now_s - self._painted_s >= _REPAINT_S:
            self._painted_s = now_s
            with interrupts.deferred():
                self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> RenderableType:
        best = best_trial(self._records)
        gain = None if best is None else speedup_estimate(best, self._records)
        # Off leads where it is faster than all others.
        leader = None if gain is not None and gain <= 1 else best
        parts: list[RenderableType] = [_line(self._status, "bold")]
        facts = []
        rate = self._counters.acceptance_rate
        if self._records or rate is not None:
            facts.append(f"acceptance now {percent_text(rate)}")
        if self._ends_s is not None:
            facts.append(left_text(self._ends_s - self._clock()))
        if leader is not None:
            facts.append(f"best so far {times_text(gain)} ({leader.arm.label})")
        elif best is not None:
            facts.append("nothing beats off yet")
        parts.append(_line(" · ".join(facts)))
        if self._records:
            parts.append(_trials(self._records, leader))
        panel = Panel(Group(*parts), title="spectui", title_align="left", border_style="dim")
        # The ^C of a terminal goes to the empty line: behind the panel's edge it would begin
        # another one, and what is removed would be a line too low.
        return Group(panel, Text())


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _trials(records: list[TrialRecord], leader: TrialRecord | None) -> Table:
    """The last trials."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("trial", "tokens/s", "speedup", "acceptance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("setting", no_wrap=True, overflow="ellipsis", ratio=1)
    for record in records[-_SHOWN_TRIALS:]:
        # The mark comes first: a long name may be cut off.
        mark, style = "", "dim" if record.arm.is_off else ""
        if record is leader:
            mark, style = "* best: ", "bold green"
        table.add_row(
            str(record.number),
            rate_text(record.tokens_per_s),
            times_text(speedup_estimate(record, records)),
            percent_text(record.acceptance_rate),
            Text(mark + _setting(record)),
            style=style,
        )
    return table


def _setting(record: TrialRecord) -> str:
    """Name of a trial's arm, with a remark if there is one."""
    remark = ""
    if record.state is TrialState.INTERRUPTED:
        remark = " (not finished)"
    elif record.state is not TrialState.COMPLETE:
        state = "pruned" if record.state is TrialState.PRUNED else "failed"
        remark = f" {state}: {record.error}"
    return f"{record.arm.label}{' (noisy)' if record.noisy else ''}{remark}"


def _finished(record: TrialRecord, records: list[TrialRecord]) -> str:
    gain = speedup_estimate(record, records)
    return (
        f"trial {record.number}: {rate_text(record.tokens_per_s)} tokens/s, {times_text(gain)}, "
        f"acceptance {percent_text(record.acceptance_rate)}, {_setting(record)}"
    )


def _measured(run: Run) -> str:
    """A prompt that was measured."""
    if not run.has_decoded:
        return f"{run.item.id}: ended at once"
    off = "" if run.baseline is None else f"off {rate_text(run.baseline.tokens_per_s)}, on "
    rate = percent_text(run.speculative.counters.acceptance_rate)
    on = rate_text(run.speculative.tokens_per_s)
    return f"{run.item.id}: {off}{on} tokens/s, acceptance {rate}"


def _forecast(forecasts: tuple[Forecast, ...]) -> str:
    if not forecasts:
        return "nothing could be replayed: the answers were too short to measure what rounds cost"
    chosen = finalist((), forecasts)
    best = next((one for one in forecasts if one.arm == chosen), forecasts[0])
    return (
        f"replayed {len(forecasts):,} settings; the forecast's choice: {best.arm.label}, "
        f"{times_text(best.speedup)}"
    )


def traced(event: TracingEvent) -> str:
    """A step of a recording."""
    match event:
        case DraftLeftOut(draft=draft, reason=reason):
            return f"left out {draft}: {reason}"
        case OutputRecorded(prompt_id=prompt, n_tokens=n):
            return f"{prompt}: {n} tokens of the target"
        case DraftRecorded(prompt_id=prompt, draft=draft, n_tokens=n, seconds=seconds):
            return f"{prompt}: {draft} along {n} tokens in {seconds:.1f} s"
        case PromptProbed(prompt_id=prompt, drafter=drafter):
            return f"{prompt}: measured rounds of every length with {drafter}"
        case CostsMeasured(draft=draft, costs=costs):
            spread = costs.spread
            unsteady = "" if spread is None else f", the machine unsteady by {percent_text(spread)}"
            return f"{draft}: measured what rounds cost{unsteady}"
