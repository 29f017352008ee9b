"""What the user asks for on the tune screen. Handlers are named ``on_tune_screen_...``."""

from pathlib import Path

from textual.message import Message

from spectui.tui.tune.source import PromptSource
from spectui.tune.trials import Arm


class Started(Message, namespace="tune_screen"):
    """Start a search, or go on with the study that the same settings gave before."""

    def __init__(self, source: PromptSource, path: Path | None, n_trials: int) -> None:
        """Ask for it.

        Args:
            source: where the prompts come from.
            path: of the prompts, where they are files.
            n_trials: trials in all, earlier ones of the same study included.
        """
        super().__init__()
        self.source = source
        self.path = path
        self.n_trials = n_trials


class PauseToggled(Message, namespace="tune_screen"):
    """Pause the search, or resume it."""


class Stopped(Message, namespace="tune_screen"):
    """End the search with what it has found."""


class Applied(Message, namespace="tune_screen"):
    """Use a setting in the live session."""

    def __init__(self, arm: Arm) -> None:
        """Ask for ``arm``, which may be off."""
        super().__init__()
        self.arm = arm


class ExportRequested(Message, namespace="tune_screen"):
    """Show the flags of the best setting."""
