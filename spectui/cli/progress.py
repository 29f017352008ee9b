"""Progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing.

The live display is repainted by events and at most once a second: a thread that repaints would
take a core from the models, and what is measured would be wrong.
"""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectui.demo import DemoProgress
from spectui.engine.events import Event, LoadProgress, RoundFinished
from spectui.speculative.counters import Counters, count
from spectui.tune.events import (
    ConfirmationStarted,
    ForecastMade,
    PromptMeasured,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Forecast
from spectui.tune.measurement import Pair
from spectui.tune.tracing import CostsMeasured, DraftRecorded, OutputRecorded, TracingEvent
from spectui.tune.trials import OFF, TrialRecord, TrialState, best_trial, speedup_estimate

_REPAINT_S = 1.0
_SHOWN_TRIALS = 12


class Progress(Protocol):
    """What a command tells about its work."""

    def on_demo(self, progress: DemoProgress) -> None:
        """A demo model is being built."""
        ...

    def on_engine(self, event: Event) -> None:
        """The engine did something."""
        ...

    def on_tune(self, event: TuneEvent) -> None:
        """The search did something."""
        ...

    def on_pair(self, pair: Pair) -> None:
        """A prompt was measured with and without speculation."""
        ...

    def say(self, text: str) -> None:
        """A step has begun."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was found."""
        ...


class Silent:
    """Shows nothing (``--quiet``)."""

    def on_demo(self, progress: DemoProgress) -> None:
        """Nothing."""

    def on_engine(self, event: Event) -> None:
        """Nothing."""

    def on_tune(self, event: TuneEvent) -> None:
        """Nothing."""

    def on_pair(self, pair: Pair) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Lines(Silent):
    """Plain lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        """Write to ``console``."""
        self._console = console
        self._records: list[TrialRecord] = []
        self._building: str | None = None

    def on_demo(self, progress: DemoProgress) -> None:
        """One line per model."""
        # A model that was built before reports only that it is complete.
        if progress.fraction < 1 and self._building != progress.model:
            self._building = str(progress.model)
            self.say(f"building the demo model {progress.model}")

    def on_tune(self, event: TuneEvent) -> None:
        """One line per trial."""
        match event:
            case StudyResumed(records=records):
                self._records.extend(records)
                self.say(f"resuming a study with {len(records)} trials")
            case TrialFinished(record=record):
                self._records.append(record)
                self.say(_line(record, self._records))
            case TraceProgress(step=None):
                self.say("recording the prompts, to replay every setting on them")
            case ForecastMade(forecasts=forecasts):
                self.say(_forecast(forecasts))
            case ConfirmationStarted(arm=arm, n_prompts=n):
                self.say(f"confirming {arm.label} against off on {n} prompts")
            case _:
                pass

    def on_pair(self, pair: Pair) -> None:
        """One line per prompt."""
        off, on = pair.baseline.tokens_per_s, pair.speculative.tokens_per_s
        rate = pair.speculative.counters.acceptance_rate
        self.say(
            f"{pair.item.id}: off {_rate(off)}, on {_rate(on)} tokens/s, "
            f"acceptance {_percent(rate)}"
        )

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Screen(Silent):
    """A live display of the search."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw on ``console``, which is a terminal."""
        self._clock = clock
        self._painted = 0.0
        self._records: list[TrialRecord] = []
        self._task = ""
        """What the search is at; loading a model interrupts it."""
        self._status = "starting"
        self._left_s: float | None = None
        self._live_counters = Counters()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def on_demo(self, progress: DemoProgress) -> None:
        """Show which model is built."""
        if progress.fraction < 1:
            self.say(f"building the demo model {progress.model}: {progress.fraction:.0%}")

    def on_engine(self, event: Event) -> None:
        """Show loading, and what the current rounds accept."""
        match event:
            case LoadProgress(role=role, path=path, fraction=fraction):
                self._status = f"loading the {role} {path.name}: {fraction:.0%}"
                self._paint()
            case RoundFinished(round=finished):
                self._live_counters += count((finished,))
                self._paint()
            case _:
                pass

    def on_tune(self, event: TuneEvent) -> None:
        """Show trials as they come."""
        match event:
            case StudyResumed(records=records):
                self._records.extend(records)
            case TraceProgress(step=step):
                self._status = "recording, to replay every setting"
                if step is not None:
                    self._status += f" · {_step(step)}"
            case ForecastMade(forecasts=forecasts):
                self._status = _forecast(forecasts)
            case TrialStarted(number=number, arm=arm):
                self._live_counters = Counters()
                self._status = self._task = f"trial {number}: {arm.label}"
            case TrialFinished(record=record):
                self._records.append(record)
            case ConfirmationStarted(arm=arm, n_prompts=n):
                self._live_counters = Counters()
                self._status = self._task = f"confirming {arm.label} against off on {n} prompts"
            case PromptMeasured(prompt_id=prompt, result=result, seconds_left=left):
                rate = _rate(result.tokens_per_s)
                self._status = f"{self._task} · {prompt}: {rate} tokens/s"
                self._left_s = left
        self._paint(force=not isinstance(event, PromptMeasured | TraceProgress))

    def on_pair(self, pair: Pair) -> None:
        """Show which prompt was measured."""
        off, on = pair.baseline.tokens_per_s, pair.speculative.tokens_per_s
        self._status = f"{pair.item.id}: off {_rate(off)}, on {_rate(on)} tokens/s"
        self._paint(force=True)

    def say(self, text: str) -> None:
        """Show ``text`` as the current step."""
        self._status = text
        self._paint()

    def close(self) -> None:
        """Take the display away."""
        self._live.stop()

    def _paint(self, *, force: bool = False) -> None:
        now = self._clock()
        if force or now - self._painted >= _REPAINT_S:
            self._painted = now
            self._live.update(self._render(), refresh=True)

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [self._headline()]
        if self._records:
            parts.append(_table(self._records))
        return Panel(Group(*parts), title="spectui", title_align="left", border_style="dim")

    def _headline(self) -> Text:
        text = Text(self._status, style="bold", no_wrap=True, overflow="ellipsis")
        text.append("\n")
        facts = [f"acceptance now {_percent(self._live_counters.acceptance_rate)}"]
        if self._left_s is not None:
            facts.append(f"about {_duration(self._left_s)} left")
        best = best_trial(self._records)
        if best is not None:
            gain = speedup_estimate(best, self._records)
            facts.append(f"best so far {_times(gain)} ({best.arm.label})")
        text.append(" · ".join(facts), style="not bold")
        return text


def open_progress(*, quiet: bool, verbose: bool) -> Progress:
    """Choose a display for stderr. llama.cpp's log would tear a live one."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    return Screen(console) if console.is_terminal and not verbose else Lines(console)


def _table(records: list[TrialRecord]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("trial", "tokens/s", "speedup", "acceptance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("setting", no_wrap=True, overflow="ellipsis", ratio=1)
    best = best_trial(records)
    for record in records[-_SHOWN_TRIALS:]:
        style = "bold green" if record is best else "dim" if record.arm == OFF else ""
        table.add_row(
            str(record.number),
            _rate(record.tokens_per_s),
            _times(speedup_estimate(record, records)),
            _percent(record.acceptance_rate),
            Text(_setting(record, is_best=record is best)),
            style=style,
        )
    return table


def _setting(record: TrialRecord, *, is_best: bool) -> str:
    # The mark comes first: a long name may be cut off.
    marks = ["* best:"] if is_best else []
    marks.append(record.arm.label)
    if record.noisy:
        marks.append("(noisy)")
    if record.state is not TrialState.COMPLETE:
        marks.append(f"failed: {record.error}")
    return " ".join(marks)


def _line(record: TrialRecord, records: list[TrialRecord]) -> str:
    gain = speedup_estimate(record, records)
    return (
        f"trial {record.number}: {_rate(record.tokens_per_s)} tokens/s, {_times(gain)}, "
        f"acceptance {_percent(record.acceptance_rate)}, {_setting(record, is_best=False)}"
    )


def _forecast(forecasts: tuple[Forecast, ...]) -> str:
    if not forecasts:
        return "nothing could be replayed: the answers ended at once"
    best = forecasts[0]
    return (
        f"replayed {len(forecasts)} settings; predicted best {_times(best.speedup)} "
        f"({best.arm.label})"
    )


def _step(step: TracingEvent) -> str:
    match step:
        case OutputRecorded():
            return f"{step.prompt_id}: {len(step.result.tokens)} tokens of the target"
        case DraftRecorded():
            return f"{step.prompt_id}: {step.draft}"
        case CostsMeasured():
            return f"costs of {step.draft}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
