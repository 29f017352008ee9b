"""How the interactive screen was started."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectui.demo import DemoModel
from spectui.live.setup import LiveSetup
from spectui.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two files; without a draft the target runs alone."""

    target: Path
    draft: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What the command line asks for."""

    make_setup: Callable[[Pair], LiveSetup]
    """Applies the given options to a pair, which may be chosen only on the screen."""
    with_preset: Callable[[str], "Launch"]
    """The same start with a preset's models and options."""
    settings: Settings
    n_ctx: int
    """Context size, for what a draft's cache will take."""
    pair: Pair | None = None
    demo: DemoModel | None = None
    """A demo target, to be built if it is not there; instead of ``pair``."""
    monitor_replay: Path | None = None
    notice: str | None = None
    """What the user should know of the options."""
    theme: str | None = None
    ascii: bool = False
