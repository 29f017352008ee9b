"""Progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing."""

from typing import TextIO, cast

from spectui.cli.progress.base import Progress

__all__ = ["Progress", "open_progress"]


def open_progress(*, quiet: bool, verbose: bool) -> Progress:
    """Choose a display for stderr. llama.cpp's log would tear a live one."""
    if quiet:
        return Progress()
    # They know all that can be told of, which takes time to load.
    from rich.console import Console

    from spectui.cli.progress.lines import Lines
    from spectui.cli.progress.screen import Screen
    from spectui.cli.progress.stream import LastingStderr

    console = Console(file=cast("TextIO", LastingStderr()))
    return Screen(console) if console.is_terminal and not verbose else Lines(console)
