"""``spectui report``: a study as something to show to others."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from spectui.cli.completing import studies as complete_studies
from spectui.cli.help import Command
from spectui.cli.options_common import STORAGE
from spectui.cli.removed import reason_of
from spectui.errors import UsageError


class _Format(click.Choice[str]):
    """Format of a report."""

    def __init__(self) -> None:
        super().__init__(("html", "md", "row"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a format that there is."""
        if (reason := reason_of("report", f"--format {value}")) is not None:
            raise UsageError(reason)
        return super().convert(value, param, ctx)


@click.command(
    name="report",
    cls=Command,
    examples=(
        ("The latest study as a page", "spectui report"),
        ("For an issue", "spectui report my-study --format md"),
        ("For a table of many studies", "spectui report my-study --format row"),
    ),
)
@click.argument("studies", nargs=-1, metavar="[STUDY]", shell_complete=complete_studies)
@click.option(
    "--format",
    "format_",
    type=_Format(),
    default="html",
    show_default=True,
    help=(
        "A page for a browser; Markdown for an issue; or a row for a shared table in Markdown, "
        "without paths, prompts, and names of machines or people."
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
    studies: tuple[str, ...],
    format_: str,
    out: Path | None,
    force: bool,
    storage: str | None,
) -> None:
    """Write a report of STUDY: one file that needs no network.

    STUDY is a study's name, or a part of one, or a file that spectui studies export wrote; without
    it, the latest study with a verdict.
    """
    if len(studies) > 1:
        raise UsageError(reason_of("report", "OTHER") or "")
    with _nothing_collected():
        from spectui.cli.run_report import run_report

        run_report(studies[0] if studies else None, storage, format_=format_, out=out, force=force)


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
