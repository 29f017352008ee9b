"""``spectui report``: a study as something to show to others."""

from pathlib import Path

import click

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.options import STORAGE
from spectui.cli.output import check_writable, complain, say_exactly, write_given
from spectui.format import bytes_text

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

    study: str | None = argument(required=False)
    format: str = option(
        "--format",
        default="html",
        type=click.Choice(["html", "md", "row"]),
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
    storage: str | None = STORAGE


command = request_command(Report, "report", "report:report", examples=_EXAMPLES)


def report(request: Report) -> None:
    """Read a study, and write its report.

    Raises:
        BadInputError: the storage or a file cannot be used, there is no such study or more than
            one, or it has no verdict.
    """
    # They load Optuna.
    from spectui.commands.launch import slug
    from spectui.report.content import content_of
    from spectui.report.formats import render_markdown, render_page, render_row
    from spectui.tune.studies.listing import find_study, list_studies

    study = find_study(list_studies(request.storage), request.study)
    page = Path(f"spectui-report-{slug(study.name)[:_LONGEST_NAME]}.html")
    place = request.out or (page if request.format == "html" else _STDOUT)
    check_writable(str(place), (), option="--out", must_be_file=True)
    renders = {"html": render_page, "md": render_markdown, "row": render_row}
    text = renders[request.format](content_of(study))
    if place == _STDOUT:
        say_exactly(text.removesuffix("\n"))
    else:
        encoded = text.encode()
        write_given(place, encoded, is_private=True)
        complain(f"written to {place} ({bytes_text(len(encoded))})")
