"""Runs ``spectui report`` with parsed options."""

from collections.abc import Sequence
from pathlib import Path

from spectui.cli.output import check_writable, complain, say_exactly
from spectui.cli.tune import command as tune_command
from spectui.commands.launch import slug
from spectui.errors import BadInputError
from spectui.format import bytes_text
from spectui.report.content import Content, content_of
from spectui.tune.studies.content import StoredStudy, exported_study, stored_study
from spectui.writing import write_file, write_new_file

_STDOUT = Path("-")
_LONGEST_NAME = 80


def run_report(
    names: Sequence[str | None], storage: str | None, *, format_: str, out: Path | None, force: bool
) -> None:
    """Read the studies, and write their report.

    Args:
        names: names or files of one or two studies; None for the latest study.
        storage: storage of the studies that are named.
        format_: ``html``, ``md`` or ``json``.
        out: where it goes; None for the usual place.
        force: whether a file that exists may be replaced.

    Raises:
        BadInputError: the storage or a file cannot be used, or the report's file exists.
        UsageError: there is no such study, or more than one.
    """
    studies = [_read(name, storage) for name in names]
    place = _place(studies, format_) if out is None else out
    if place != _STDOUT:
        _check_free(place, names, force=force)
    text = _render([_content(study) for study in studies], format_)
    if place == _STDOUT:
        say_exactly(text.removesuffix("\n"))
    else:
        _write(text, place, force=force)


def _read(name: str | None, storage: str | None) -> StoredStudy:
    if name is not None and Path(name).is_file():
        return exported_study(Path(name))
    return stored_study(storage, name)


def _content(study: StoredStudy) -> Content:
    return content_of(study, searched_by=tune_command.words(study.arguments))


def _place(studies: Sequence[StoredStudy], format_: str) -> Path:
    if format_ != "html":
        return _STDOUT
    names = "-beside-".join(slug(study.name)[:_LONGEST_NAME] for study in studies)
    return Path(f"spectui-report-{names}.html")


def _render(contents: Sequence[Content], format_: str) -> str:
    # Each loads what it needs alone.
    if format_ == "html":
        from spectui.report.page import render_page

        return render_page(contents)
    if format_ == "md":
        from spectui.report.markdown import render_markdown

        return render_markdown(contents)
    from spectui.report.card import render_card

    return render_card(contents)


def _check_free(place: Path, names: Sequence[str | None], *, force: bool) -> None:
    inputs = [Path(name) for name in names if name is not None]
    check_writable(str(place), inputs, option="--out", must_be_file=True)
    if place.exists() and not force:
        raise _taken(place)


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
