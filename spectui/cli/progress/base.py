"""Base of progress displays, which shows nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectui.demo import DemoProgress
    from spectui.engine.events import Event
    from spectui.measure.measurer import Run
    from spectui.presets.plan import PullEvent
    from spectui.tune.events import TuneEvent


class Progress:
    """Receives a command's progress; this one shows nothing (``--quiet``)."""

    def on_demo(self, progress: "DemoProgress") -> None:
        """A demo model is being built."""

    def on_pull(self, event: "PullEvent") -> None:
        """A file of a preset is being fetched, or waited for."""

    def on_engine(self, event: "Event") -> None:
        """An event of the engine."""

    def on_tune(self, event: "TuneEvent") -> None:
        """An event of the search."""

    def on_run(self, run: "Run") -> None:
        """A prompt was measured."""

    def say(self, text: str) -> None:
        """A step has begun."""

    def announce(self, text: str) -> None:
        """Show a line that stays in sight while steps come and go."""

    def close(self) -> None:
        """Restore the terminal."""
