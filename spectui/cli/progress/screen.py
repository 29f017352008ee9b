"""Progress as a live display.

It is repainted by events and at most once a second: a thread that repaints would take a core from
the models, and what is measured would be wrong.
"""

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectui.cli.progress import Progress, words
from spectui.demo import DemoProgress
from spectui.engine.events import (
    Event,
    LoadProgress,
    LoadWarned,
    MemoryPaused,
    RoundFinished,
    TokenEmitted,
)
from spectui.format import left_text, percent_text, rate_text, times_text
from spectui.interrupts import interrupts
from spectui.measure.measurer import Run
from spectui.speculative.counters import Counters, count
from spectui.tune.events import (
    ForecastMade,
    PromptMeasured,
    RaceDecided,
    RunsStarted,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.trials import TrialRecord, best_trial, speedup_estimate

_REPAINT_S = 1.0
_SHOWN_TRIALS = 12


class Screen(Progress):
    """A live display of the search."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw on ``console``, which is a terminal."""
        super().__init__()
        self._clock = clock
        self._painted = 0.0
        self._records: list[TrialRecord] = []
        self._task = ""
        """The current step of the search, which loading a model interrupts."""
        self._status = "starting"
        self._n_done = self._n_prompts = 0
        self._ends_s: float | None = None
        """Time on the clock at which the search ends at the latest, by its last estimate."""
        self._n_recorded = self._n_runs = 0
        self._live_counters = Counters()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def on_demo(self, progress: DemoProgress) -> None:
        """Show which model is built."""
        if progress.fraction < 1:
            self.say(f"building the demo model {progress.model}: {percent_text(progress.fraction)}")

    def on_engine(self, event: Event) -> None:
        """Show loading, and what the current rounds accept."""
        match event:
            case LoadWarned(warning=warning):
                self.warn(warning)
            case MemoryPaused():
                self.announce(event.text)
            case LoadProgress(role=role, path=path, fraction=fraction):
                loading = f"loading the {role} {path.name}: {percent_text(fraction)}"
                self._status = loading if fraction < 1 or not self._task else self._task
                self._paint()
            case RoundFinished(round=finished):
                self._live_counters += count((finished,))
                self._paint()
            case TokenEmitted():
                # Without a draft there are no rounds, and the time left goes on.
                self._paint()
            case _:
                pass

    def on_tune(self, event: TuneEvent) -> None:
        """Show trials as they come."""
        match event:
            case StudyResumed(records=records):
                self._records.extend(records)
                self._status = words.resumed(event)
            case TraceProgress():
                self._trace(event)
            case ForecastMade(forecasts=forecasts):
                self._status = words.forecast(forecasts)
            case TrialStarted(number=number, arm=arm):
                self._begin(f"trial {number}: {arm.label}", event.n_prompts)
            case TrialFinished(record=record):
                self._records.append(record)
            case RaceDecided(text=text):
                self._status = text
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
        self._paint(force=not isinstance(event, PromptMeasured | TraceProgress))

    def _begin(self, task: str, n_prompts: int) -> None:
        self._live_counters = Counters()
        self._status = self._task = task
        self._n_done, self._n_prompts = 0, n_prompts

    def _trace(self, event: TraceProgress) -> None:
        if event.step is None:
            self._n_recorded = 0
            self._status = "recording, to replay every setting"
        else:
            self._n_recorded += 1
            done = f"recording {self._n_recorded}/{event.n_steps}"
            self._status = f"{done} · {words.traced(event.step)}"

    def on_run(self, run: Run) -> None:
        """Show which prompt was measured."""
        self._n_runs += 1
        self._status = f"{self._n_runs} measured · {words.measured(run)}"
        self._paint(force=True)

    def say(self, text: str) -> None:
        """Show ``text`` as the current step."""
        self._status = text
        self._paint()

    def announce(self, text: str) -> None:
        """Print ``text`` above the display, where it stays."""
        with interrupts.deferred():
            self._live.console.print(Text(text))

    def close(self) -> None:
        """Remove the display."""
        with interrupts.deferred():
            self._live.stop()

    def _paint(self, *, force: bool = False) -> None:
        now = self._clock()
        if force or now - self._painted >= _REPAINT_S:
            self._painted = now
            with interrupts.deferred():
                self._live.update(self._render(), refresh=True)

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [self._headline()]
        if self._records:
            parts.append(_table(self._records))
        panel = Panel(Group(*parts), title="spectui", title_align="left", border_style="dim")
        # The ^C of a terminal goes to the empty line: behind the panel's edge it would begin
        # another one, and what is removed would be a line too low.
        return Group(panel, Text())

    def _headline(self) -> Text:
        text = Text(self._status, style="bold", no_wrap=True, overflow="ellipsis")
        text.append("\n")
        facts = []
        rate = self._live_counters.acceptance_rate
        if self._records or rate is not None:
            facts.append(f"acceptance now {percent_text(rate)}")
        if self._ends_s is not None:
            facts.append(left_text(self._ends_s - self._clock()))
        best = _leader(self._records)
        if best is not None:
            gain = speedup_estimate(best, self._records)
            facts.append(f"best so far {times_text(gain)} ({best.arm.label})")
        elif best_trial(self._records) is not None:
            facts.append("nothing beats off yet")
        text.append(" · ".join(facts), style="not bold")
        return text


def _leader(records: list[TrialRecord]) -> TrialRecord | None:
    """The fastest trial, unless off is faster."""
    best = best_trial(records)
    gain = None if best is None else speedup_estimate(best, records)
    return None if gain is not None and gain <= 1 else best


def _table(records: list[TrialRecord]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("trial", "tokens/s", "speedup", "acceptance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("setting", no_wrap=True, overflow="ellipsis", ratio=1)
    best = _leader(records)
    for record in records[-_SHOWN_TRIALS:]:
        style = "bold green" if record is best else "dim" if record.arm.is_off else ""
        table.add_row(
            str(record.number),
            rate_text(record.tokens_per_s),
            times_text(speedup_estimate(record, records)),
            percent_text(record.acceptance_rate),
            Text(words.setting(record, is_best=record is best)),
            style=style,
        )
    return table
