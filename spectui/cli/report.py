"""``spectui report``: a study as something to show to others."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from spectui.cli.completing import studies
from spectui.cli.help import Command
from spectui.cli.options_common import STORAGE

_FORMATS = ("html", "md", "json")


@click.command(
    name="report",
    cls=Command,
    examples=(
        ("The latest study as a page", "spectui report"),
        ("For an issue", "spectui report my-study --format md"),
        ("Before and after", "spectui report before after -o compared.html"),
    ),
)
@click.argument("study", required=False, shell_complete=studies)
@click.argument("other", required=False, shell_complete=studies)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="html",
    show_default=True,
    help=(
        "A page for a browser; Markdown for an issue; or a card for programs, without paths, "
        "prompts, and names of machines or people."
    ),
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help=(
        "Write it to FILE; - for stdout (default: a page goes to spectui-report-STUDY.html in this "
        "folder, the others to stdout)."
    ),
)
@click.option("--force", is_flag=True, help="Let it take the place of a file that exists.")
@STORAGE
def command(
    *,
    study: str | None,
    other: str | None,
    format_: str,
    out: Path | None,
    force: bool,
    storage: str | None,
) -> None:
    """Write a report of STUDY, or of STUDY and OTHER side by side: one file that needs no network.

    Each is a study's name, or a part of one, or a file that spectui studies export wrote; without
    it, the latest study with a verdict. Two show what another machine, model or version changes.
    """
    names = (study,) if other is None else (study, other)
    with _nothing_collected():
        from spectui.cli.run_report import run_report

        run_report(names, storage, format_=format_, out=out, force=force)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Let the garbage collector rest while all is read: nothing of it is garbage before the end.

    Of ten thousand trials it would take a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
