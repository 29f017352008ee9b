"""Progress as plain lines, for logs and pipes."""

from rich.console import Console

from spectui.cli.progress import words
from spectui.cli.progress.base import Silent
from spectui.demo import DemoProgress
from spectui.presets.plan import PullEvent, PullProgress, Step
from spectui.tune.events import (
    ConfirmationStarted,
    ForecastMade,
    SearchDecided,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TuneEvent,
)
from spectui.tune.measurement import Pair
from spectui.tune.trials import TrialRecord


class Lines(Silent):
    """Plain lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        """Write to ``console``."""
        self._console = console
        self._records: list[TrialRecord] = []
        self._building: str | None = None
        self._pulled: tuple[str, Step, int] | None = None

    def on_demo(self, progress: DemoProgress) -> None:
        """One line per model."""
        # A model that was built before reports only that it is complete.
        if progress.fraction < 1 and self._building != progress.model:
            self._building = str(progress.model)
            self.say(f"building the demo model {progress.model}")

    def on_pull(self, event: PullEvent) -> None:
        """One line per file and step, per tenth of its size, and per pause."""
        if isinstance(event, PullProgress):
            tenth = 10 * event.done_bytes // max(1, event.size_bytes)
            told = (event.file, event.step, tenth)
            if self._pulled == told:
                return
            self._pulled = told
        self.say(words.pulling(event))

    def on_tune(self, event: TuneEvent) -> None:
        """One line per trial."""
        match event:
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
            case SearchDecided():
                self.say(words.decided(event))
            case ConfirmationStarted():
                self.say(words.confirming(event))
            case _:
                pass

    def on_pair(self, pair: Pair) -> None:
        """One line per prompt."""
        off, on = pair.baseline.tokens_per_s, pair.speculative.tokens_per_s
        rate = pair.speculative.counters.acceptance_rate
        self.say(
            f"{pair.item.id}: off {words.rate(off)}, on {words.rate(on)} tokens/s, "
            f"acceptance {words.percent(rate)}"
        )

    def announce(self, text: str) -> None:
        """One line."""
        self.say(text)

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
