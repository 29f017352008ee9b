"""Progress as plain lines, for logs and pipes."""

import time
from collections.abc import Callable

from rich.console import Console

from spectui.cli.progress import Progress, words
from spectui.demo import DemoProgress
from spectui.engine.events import Event, LoadProgress, LoadWarned, MemoryPaused
from spectui.format import percent_text, rate_text
from spectui.measure.measurer import Run
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
from spectui.tune.trials import TrialRecord

_SILENT_S = 15.0
"""Seconds without a line after which the next small step is reported as well."""


class Lines(Progress):
    """Plain lines, for logs and pipes: one for each thing that is done, more where that is slow."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to ``console``."""
        super().__init__()
        self._console = console
        self._clock = clock
        self._said_s = clock()
        self._task = ""
        """Purpose of the current measurement."""
        self._records: list[TrialRecord] = []
        self._building: str | None = None

    def on_demo(self, progress: DemoProgress) -> None:
        """Print one line per model."""
        # A model that was built before reports only that it is complete.
        if progress.fraction < 1 and self._building != progress.model:
            self._building = str(progress.model)
            self.say(f"building the demo model {progress.model}")

    def on_engine(self, event: Event) -> None:
        """Print the progress of slow loads, and warnings."""
        if isinstance(event, LoadWarned):
            self.warn(event.warning)
        if isinstance(event, MemoryPaused):
            self.say(event.text)
        if isinstance(event, LoadProgress):
            self._murmur(
                f"loading the {event.role} {event.path.name}: {percent_text(event.fraction)}"
            )

    def on_tune(self, event: TuneEvent) -> None:
        """Print one line per trial, and its progress if it is slow."""
        match event:
            case TrialStarted():
                self._task = f"trial {event.number}"
                if event.arm.is_off:
                    self.say(words.measuring_off(event))
            case StudyResumed(records=records):
                self._records.extend(records)
                self.say(words.resumed(event))
            case TrialFinished(record=record):
                self._records.append(record)
                self.say(words.line(record, self._records))
            case TraceProgress(step=None):
                self.say("recording the prompts, to replay every setting on them")
            case ForecastMade(forecasts=forecasts):
                self.say(words.forecast(forecasts))
            case RaceDecided(text=text):
                self.say(text)
            case RunsStarted(text=text):
                self._task = "confirming"
                self.say(text)
            case _:
                self._on_small_step(event)

    def _on_small_step(self, event: TuneEvent) -> None:
        match event:
            case PromptMeasured(prompt_id=prompt, result=result):
                rate = rate_text(result.tokens_per_s)
                self._murmur(f"{prompt}: {rate} tokens/s ({self._task})")
            case TraceProgress(step=step) if step is not None:
                self._murmur(words.traced(step))
            case _:
                pass

    def on_run(self, run: Run) -> None:
        """Print one line per prompt."""
        self.say(words.measured(run))

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
