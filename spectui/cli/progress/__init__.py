"""Progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing."""

from typing import TextIO, cast

from rich.console import Console

from spectui.cli.progress import words
from spectui.cli.progress.base import Progress, Silent
from spectui.cli.progress.lines import Lines
from spectui.cli.progress.screen import Screen
from spectui.cli.progress.stream import LastingStderr

__all__ = ["Lines", "Progress", "Screen", "Silent", "open_progress", "words"]


def open_progress(*, quiet: bool, verbose: bool) -> Progress:
    """Choose a display for stderr. llama.cpp's log would tear a live one."""
    if quiet:
        return Silent()
    console = Console(file=cast("TextIO", LastingStderr()))
    return Screen(console) if console.is_terminal and not verbose else Lines(console)
