"""``spectui report``: a study as something to show to others."""

from pathlib import Path
from typing import Any

import click

from spectui.cli.click_options import argument, option, request, request_command, switch
from spectui.cli.completion import studies
from spectui.cli.options import STORAGE
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


_EXAMPLES = (
    ("The latest study as a page", "spectui report"),
    ("For an issue", "spectui report my-study --format md"),
    ("For a table of many studies", "spectui report my-study --format row"),
)


@request
class Report:
    """Write a report of STUDY: one file that needs no network.

    STUDY is a study's name, or a part of one, or a file that spectui studies export wrote; without
    it, the latest study with a verdict.
    """

    studies: tuple[str, ...] = argument(nargs=-1, metavar="[STUDY]", shell_complete=studies)
    format: str = option(
        "--format",
        default="html",
        type=_Format(),
        help=(
            "A page for a browser; Markdown for an issue; or a row for a shared table in Markdown, "
            "without paths, prompts, and names of machines or people."
        ),
    )
    out: Path | None = option(
        "-o",
        "--out",
        type=click.Path(path_type=Path, allow_dash=True),
        metavar="FILE",
        help=(
            "Write it to FILE; - for stdout (default: a page goes to spectui-report-STUDY.html in "
            "this folder, the others to stdout)."
        ),
    )
    force: bool = switch("--force", help="Let it take the place of a file that exists.")
    storage: str | None = STORAGE


command = request_command(Report, "report", "run_report:report", examples=_EXAMPLES)
