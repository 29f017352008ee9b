"""Interface of progress displays, and the display that shows nothing."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spectui.demo import DemoProgress
    from spectui.engine.events import Event
    from spectui.measure.measurer import Run
    from spectui.presets.plan import PullEvent
    from spectui.tune.events import TuneEvent


class Progress(Protocol):
    """Receives a command's progress."""

    def on_demo(self, progress: "DemoProgress") -> None:
        """Report that a demo model is being built."""
        ...

    def on_pull(self, event: "PullEvent") -> None:
        """Report that a file of a preset is being fetched, or waited for."""
        ...

    def on_engine(self, event: "Event") -> None:
        """Report an event of the engine."""
        ...

    def on_tune(self, event: "TuneEvent") -> None:
        """Report an event of the search."""
        ...

    def on_run(self, run: "Run") -> None:
        """Report that a prompt was measured."""
        ...

    def say(self, text: str) -> None:
        """Report that a step has begun."""
        ...

    def announce(self, text: str) -> None:
        """Show a line that stays in sight while steps come and go."""
        ...

    def close(self) -> None:
        """Restore the terminal."""
        ...


class Silent:
    """Shows nothing (``--quiet``)."""

    def on_demo(self, progress: "DemoProgress") -> None:
        """Do nothing."""

    def on_pull(self, event: "PullEvent") -> None:
        """Do nothing."""

    def on_engine(self, event: "Event") -> None:
        """Do nothing."""

    def on_tune(self, event: "TuneEvent") -> None:
        """Do nothing."""

    def on_run(self, run: "Run") -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def announce(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
