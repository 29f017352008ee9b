"""Runs ``spectui report`` with parsed options."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectui.cli.output import NewFile, complain, say_exactly
from spectui.cli.removed import reason_of
from spectui.cli.report import Report
from spectui.cli.tune import command as tune_command
from spectui.commands.launch import slug
from spectui.errors import UsageError
from spectui.format import bytes_text
from spectui.report.content import Content, content_of
from spectui.tune.studies.listing import stored_study
from spectui.tune.studies.transfer import read_exported

_STDOUT = Path("-")
_LONGEST_NAME = 80


def report(request: Report) -> None:
    """Read a study, and write its report.

    Raises:
        BadInputError: the storage or a file cannot be used, or the report's file exists.
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
    file = None if name is None else Path(name)
    is_exported = file is not None and file.is_file()
    study = read_exported(file) if file and is_exported else stored_study(request.storage, name)
    page = Path(f"spectui-report-{slug(study.name)[:_LONGEST_NAME]}.html")
    place = request.out or (page if request.format == "html" else _STDOUT)
    new_file = NewFile(
        path=place, force=request.force, name=str(place), remedy="give another file with -o"
    )
    if place != _STDOUT:
        new_file.check([] if file is None else [file])
    searched_by = tune_command.words(study.arguments or {})
    text = _rendered(content_of(study, searched_by=searched_by), request.format)
    if place == _STDOUT:
        say_exactly(text.removesuffix("\n"))
    else:
        content = text.encode()
        new_file.write(content, is_private=True)
        complain(f"written to {place} ({bytes_text(len(content))})")


def _rendered(content: Content, format_: str) -> str:
    # Each loads what it needs alone.
    if format_ == "html":
        from spectui.report.page import render_page

        return render_page(content)
    from spectui.report.markdown import render_markdown, render_row

    return render_markdown(content) if format_ == "md" else render_row(content)
