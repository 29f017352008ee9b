"""How the screen is started: options of the command line, and the pair that they name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.demo import DemoModel
from spectui.live.setup import LiveSetup
from spectui.settings import Settings

if TYPE_CHECKING:
    from spectui.server.watch.locator import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two files; without a draft the target runs alone."""

    target: Path
    draft: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Options of the command line."""

    make_setup: Callable[[Pair], LiveSetup]
    """Applies the given options to a pair, which may be chosen only on the screen."""
    with_preset: Callable[[str], "Launch"]
    """Start with a preset's models and options."""
    with_command: Callable[[str], "Launch"]
    """Start with the models and options of a llama-server command, given as ``--from`` takes it."""
    settings: Settings
    n_ctx: int
    """Context size, for what a draft's cache will take."""
    pair: Pair | None = None
    demo: DemoModel | None = None
    """A demo target, to be built if it is not there; instead of ``pair``."""
    watched: "Address | None" = None
    """A server that is watched; nothing is loaded before its models are taken over."""
    look_s: float = 0.0
    """Seconds from one request to the server to the next."""
    notice: str | None = None
    """Notice to the user about the options."""
    from_disk: bool = False
    """Whether pairs are loaded unasked even if weights are read from disk again and again."""
