"""Displays of progress: lines for logs and pipes; on a terminal, below them, what is at work."""

import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from spectui.cli.progress import Progress
from spectui.demo import DemoProgress
from spectui.engine.events import Event, LoadProgress, LoadWarned
from spectui.format import (
    counted,
    left_text,
    percent_text,
    printable,
    rate_text,
    time_text,
    times_text,
)
from spectui.interrupts import interrupts
from spectui.measure.measurer import NOTHING_DRAFTED, Pair
from spectui.measure.speedup import gain_text
from spectui.tune.progress import (
    ForecastMade,
    Looked,
    Phase,
    PhaseStarted,
    StepDone,
    StudyOpened,
    TrialFinished,
    TuneEvent,
)
from spectui.tune.trials import TrialRecord, TrialState, best_trial, n_measured

_SILENT_S = 15.0
"""Seconds without a line after which a log gets the next small step as well."""
_REPAINT_S = 1.0


class Lines(Progress):
    """Plain lines, for logs and pipes: one for each thing that is done, more where that is slow."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to ``console``."""
        super().__init__()
        self._console = console
        self._clock = clock
        self._said_s = clock()
        self._task = ""
        """The current step of the search, which loading a model interrupts."""
        self._n_done = self._n_planned = 0
        self._ends_s: float | None = None
        """Time on the clock at which the search ends at the latest, by its last estimate."""
        self._records: list[TrialRecord] = []

    def on_demo(self, progress: DemoProgress) -> None:
        """Show which model is built."""
        if progress.fraction < 1:
            done = percent_text(progress.fraction)
            self.step(f"building the demo model {progress.model}: {done}")

    def on_engine(self, event: Event) -> None:
        """Show warnings, and the progress of loads."""
        match event:
            case LoadWarned(warning=warning):
                self.warn(warning)
            case LoadProgress(role=role, path=path, fraction=fraction):
                text = f"loading the {role} {path.name}: {percent_text(fraction)}"
                self.step(self._task if fraction >= 1 and self._task else text)

    def on_tune(self, event: TuneEvent) -> None:
        """Show what a search does."""
        match event:
            case StudyOpened(records=records, earlier=earlier) if records:
                self._records.extend(records)
                self.say(f"resuming a study with {counted(n_measured(records), 'trial')}")
                if earlier is not None:
                    self.say(f"its verdict so far: {earlier}")
            case PhaseStarted():
                self._begin(event)
            case StepDone():
                self._count(event)
            case TrialFinished(record=record):
                self._records.append(record)
                self.announce(_finished(record))
            case ForecastMade(forecasts=forecasts):
                self.say(f"replayed {counted(len(forecasts), 'setting')}")
            case Looked(speedup=speedup):
                on = f"on {counted(speedup.n_prompts, 'prompt')}"
                self.announce(f"so far {gain_text(speedup)}, {on}")

    def _begin(self, event: PhaseStarted) -> None:
        # Of a recording each step says for itself what it is.
        self._task = "" if event.phase is Phase.RECORDING else event.text
        self._n_done, self._n_planned = 0, event.n_steps
        # Trials are many, and have a line when they are done.
        tell = self.step if event.phase is Phase.SEARCHING else self.say
        tell(event.text)

    def _count(self, event: StepDone) -> None:
        self._n_done += 1
        left = event.seconds_left
        self._ends_s = None if left is None else self._clock() + left
        # A race that goes faster than planned takes more prompts. The count comes first: a narrow
        # terminal cuts the end.
        done = f"{self._n_done} of {max(self._n_done, self._n_planned)}"
        self.step(" · ".join(filter(None, (done, self._task, event.text))))

    def on_pair(self, pair: Pair) -> None:
        """Show a prompt that was measured."""
        self.say(_measured(pair))

    def announce(self, text: str) -> None:
        """Print one line."""
        self._said_s = self._clock()
        # Of a terminal the console knows the width, and breaks at blanks.
        is_log = not self._console.is_terminal
        with interrupts.deferred():
            self._console.print(Text(printable(text, keep="\n")), soft_wrap=is_log)

    say = announce

    def step(self, text: str) -> None:
        """Print a small step where nothing was printed for a while."""
        if self._clock() - self._said_s >= _SILENT_S:
            self.announce(text)


class Screen(Lines):
    """The work, the leading setting and the time left, below the lines that stay.

    It is repainted by events and at most once a second: a thread that repaints would take a core
    from the models, and what is measured would be wrong.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw on ``console``, which is a terminal."""
        super().__init__(console, clock)
        self._painted_s = 0.0
        self._status = "starting"
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def on_engine(self, event: Event) -> None:
        """Show loads; the time left goes on with every token."""
        super().on_engine(event)
        self._paint()

    def on_tune(self, event: TuneEvent) -> None:
        """Show what a search does."""
        super().on_tune(event)
        self._paint(force=not isinstance(event, StepDone))

    def say(self, text: str) -> None:
        """Show ``text`` as the current step."""
        self._status = text
        self._paint()

    step = say

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

    def _drawn(self) -> Group:
        facts = [] if self._ends_s is None else [left_text(self._ends_s - self._clock())]
        best = best_trial(self._records)
        if best is not None and (best.speedup or 0) > 1:
            facts.append(f"best so far {times_text(best.speedup)} ({best.arm.label})")
        # The ^C of a terminal goes to the empty line: behind a full one it would begin another,
        # and what is removed would be a line too low.
        return Group(_line(self._status, "bold"), _line(" · ".join(facts)), Text())


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style, no_wrap=True, overflow="ellipsis")


def _finished(record: TrialRecord) -> str:
    """A trial that is over, with a remark where it did not end as planned."""
    remark = ""
    if record.state is TrialState.INTERRUPTED:
        remark = " (not finished)"
    elif record.state is not TrialState.COMPLETE:
        remark = f" failed: {record.error}"
    return (
        f"trial {record.number}: {rate_text(record.tokens_per_s)} tokens/s, "
        f"{times_text(record.speedup)}, acceptance {percent_text(record.acceptance_rate)}, "
        f"{record.arm.label}{remark}"
    )


def _measured(pair: Pair) -> str:
    """The seconds that a prompt took: rates are told in the end, of all prompts together."""
    if not pair.has_decoded:
        return f"{pair.item.id}: ended at once"
    off, on = time_text(pair.baseline.decode_s), time_text(pair.speculative.decode_s)
    counters = pair.speculative.counters
    accepted = f"acceptance {percent_text(counters.acceptance_rate)}"
    return (
        f"{pair.item.id}: {off} off, {on} on, {accepted if counters.n_drafted else NOTHING_DRAFTED}"
    )
