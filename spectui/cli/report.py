"""``spectui report``: a study as something to show to others."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectui.cli.click_options import argument, option, request, request_command, switch
from spectui.cli.completion import studies
from spectui.cli.options import STORAGE
from spectui.cli.output import NewFile, complain, say_exactly
from spectui.cli.removed import Formats, reason_of
from spectui.errors import UsageError
from spectui.format import bytes_text

if TYPE_CHECKING:
    from spectui.report.content import Content


_STDOUT = Path("-")
_LONGEST_NAME = 80
_EXAMPLES = (
    ("The latest study as a page", "spectui report"),
    ("For an issue", "spectui report my-study --format md"),
    ("For a table of many studies", "spectui report my-study --format row"),
)


@request
class Report:
    """Write a report of STUDY: one file that needs no network.

    STUDY is a study's name, or a part of one; without it, the latest study with a verdict.
    """

    studies: tuple[str, ...] = argument(nargs=-1, metavar="[STUDY]", shell_complete=studies)
    format: str = option(
        "--format",
        default="html",
        type=Formats("report", ("html", "md", "row")),
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


command = request_command(Report, "report", "report:report", examples=_EXAMPLES)


def report(request: Report) -> None:
    """Read a study, and write its report.

    Raises:
        BadInputError: the storage cannot be used, or the report's file exists.
        UsageError: there is no such study, or more than one.
    """
    if len(request.studies) > 1:
        raise UsageError(reason_of("report", "OTHER") or "")
    with _nothing_collected():
        _write(request, next(iter(request.studies), None))


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


def _write(request: Report, name: str | None) -> None:
    # They load Optuna.
    from spectui.commands.launch import slug
    from spectui.report.content import content_of
    from spectui.tune.studies.listing import stored_study

    study = stored_study(request.storage, name)
    page = Path(f"spectui-report-{slug(study.name)[:_LONGEST_NAME]}.html")
    place = request.out or (page if request.format == "html" else _STDOUT)
    new_file = NewFile(
        path=place, force=request.force, name=str(place), remedy="give another file with -o"
    )
    if place != _STDOUT:
        new_file.check([])
    content = content_of(study)
    text = _rendered(content, request.format)
    if place == _STDOUT:
        say_exactly(text.removesuffix("\n"))
    else:
        encoded = text.encode()
        new_file.write(encoded, is_private=True)
        complain(f"written to {place} ({bytes_text(len(encoded))})")


def _rendered(content: "Content", format_: str) -> str:
    # Each loads what it needs alone.
    if format_ == "html":
        from spectui.report.page import render_page

        return render_page(content)
    from spectui.report.markdown import render_markdown, render_row

    return render_markdown(content) if format_ == "md" else render_row(content)
