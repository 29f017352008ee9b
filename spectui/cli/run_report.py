"""Runs ``spectui report`` with parsed options."""

from pathlib import Path

from spectui.cli.output import check_writable, complain, say_exactly
from spectui.cli.tune import command as tune_command
from spectui.commands.launch import slug
from spectui.errors import BadInputError
from spectui.files import write_file, write_new_file
from spectui.format import bytes_text
from spectui.report.content import Content, content_of
from spectui.tune.studies.listing import stored_study
from spectui.tune.studies.transfer import exported_study

_STDOUT = Path("-")
_LONGEST_NAME = 80


def run_report(
    name: str | None, storage: str | None, *, format_: str, out: Path | None, force: bool
) -> None:
    """Read a study, and write its report.

    Args:
        name: name or file of the study; None for the latest one.
        storage: storage of a study that is named.
        format_: ``html``, ``md`` or ``row``.
        out: where the report goes; None for the usual place.
        force: whether a file that exists may be replaced.

    Raises:
        BadInputError: the storage or a file cannot be used, or the report's file exists.
        UsageError: there is no such study, or more than one.
    """
    file = None if name is None else Path(name)
    is_exported = file is not None and file.is_file()
    study = exported_study(file) if file and is_exported else stored_study(storage, name)
    page = Path(f"spectui-report-{slug(study.name)[:_LONGEST_NAME]}.html")
    place = out or (page if format_ == "html" else _STDOUT)
    if place != _STDOUT:
        check_writable(
            str(place), [] if file is None else [file], option="--out", must_be_file=True
        )
        if place.exists() and not force:
            raise _taken(place)
    searched_by = tune_command.words(study.arguments)
    text = _rendered(content_of(study, searched_by=searched_by), format_)
    if place == _STDOUT:
        say_exactly(text.removesuffix("\n"))
    else:
        _write(text, place, force=force)


def _rendered(content: Content, format_: str) -> str:
    # Each loads what it needs alone.
    if format_ == "html":
        from spectui.report.page import render_page

        return render_page(content)
    from spectui.report.markdown import render_markdown, render_row

    return render_markdown(content) if format_ == "md" else render_row(content)


def _taken(place: Path) -> BadInputError:
    return BadInputError(
        f"{place} exists; give another file with -o, or add --force to overwrite it"
    )


def _write(text: str, place: Path, *, force: bool) -> None:
    content = text.encode()
    try:
        (write_file if force else write_new_file)(place, content, is_private=True)
    except FileExistsError:
        raise _taken(place) from None
    except OSError as error:
        raise BadInputError(
            f"{place} cannot be written ({error.strerror}); give another file with -o"
        ) from error
    complain(f"written to {place} ({bytes_text(len(content))})")
