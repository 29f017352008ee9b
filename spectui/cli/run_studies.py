"""Runs ``spectui studies`` with parsed options."""

import sys
from collections.abc import Sequence

import click

from spectui.cli import studies
from spectui.cli.output import check_writable, say
from spectui.cli.page import is_terminal, write_result
from spectui.documents import Json, head, or_reason
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.format import counted, times_text
from spectui.interrupts import interrupts
from spectui.measure.verdict import Answer
from spectui.page import Paragraph, Part, Table, Words
from spectui.tune.page import machines_page
from spectui.tune.result import Outcome
from spectui.tune.studies.listing import (
    StoredStudy,
    delete_studies,
    find_study,
    list_studies,
    machines_of,
)
from spectui.tune.studies.storage import file_of
from spectui.tune.trials import n_measured

_NOTHING = "Nothing has been tuned yet: spectui tune makes a study."
_WORDS = {
    Answer.USE: "use it",
    Answer.OFF: "off",
    Answer.NO_DIFFERENCE: "no difference",
    Answer.UNDECIDED: "undecided",
}
_UNKNOWN = "the search ended early, or an older spectui made the study"


def list_all(request: studies.List) -> None:
    """Print all studies.

    Raises:
        BadInputError: the storage cannot be used.
    """
    every = _studies(request)
    document = {
        **head("studies"),
        "studies": list(map(_row_document, every)),
    }
    problems = [one.problem for one in every if one.problem is not None]
    notes = (Paragraph(f"note: {one}") for one in problems)
    write_result(document, [_table(every) if every else _NOTHING, *notes], request.json_path)


def _studies(request: studies.List | studies.Show) -> tuple[StoredStudy, ...]:
    """All studies, once it is sure that what is written is not their own file."""
    check_writable(request.json_path, (file_of(request.storage),))
    return list_studies(request.storage)


def _row_document(study: StoredStudy) -> Json:
    verdict = None if study.outcome is None else study.outcome.verdict.document()
    return {
        "name": study.name,
        "state": str(study.state),
        "problem": study.problem,
        "n_trials": n_measured(study.trials),
        **or_reason("verdict", verdict, study.problem or _UNKNOWN),
        **or_reason("target", study.target, "the study does not say"),
        "changed": study.changed.isoformat(),
    }


def _table(every: Sequence[StoredStudy]) -> Table:
    # In a pipe a name stays in one piece: other commands take it whole.
    longest = 0 if is_terminal() else max(len(study.name) for study in every)
    columns = (
        Words(head="study", width=longest),
        Words(head="state", is_whole=True),
        Words(head="verdict", is_whole=True),
        "prompts",
        Words(head="model"),
        Words(head="changed", is_whole=True),
    )
    cells = (
        (
            study.name,
            str(study.state),
            _verdict(study.outcome),
            _prompts(study.outcome),
            study.target or "-",
            f"{study.changed.astimezone():%Y-%m-%d %H:%M}" if study.changed.year > _EPOCH else "-",
        )
        for study in every
    )
    return Table(columns, list(cells))


_EPOCH = 1970


def _verdict(outcome: Outcome | None) -> str:
    if outcome is None:
        return "none"
    answer = outcome.verdict.answer
    word = _WORDS[answer] if answer else "use it" if outcome.verdict.use_speculation else "off"
    return f"{word}, {times_text(outcome.gain.speedup)}" if outcome.gain else word


def _prompts(outcome: Outcome | None) -> str:
    """Number of prompts that a verdict is on."""
    return "-" if outcome is None or outcome.gain is None else str(outcome.gain.n_prompts)


def show(request: studies.Show) -> None:
    """Print what ``tune`` printed, or how far a study without that has come.

    Raises:
        BadInputError: the storage cannot be used, or a newer spectui made the study.
        UsageError: there is no such study.
    """
    every = _studies(request)
    study = find_study(every, request.study)
    report = study.report
    document = _bare_document(study) if report is None else report.document
    machines = machines_page(machines_of(study.name, every))
    page = _bare_page(study)
    if report is not None and (report.page or report.text):
        page = [part[0] if isinstance(part, tuple) else part for part in report.page]
        page = page or [report.text]
    write_result(document, [*machines, *page], request.json_path)


def _bare_document(study: StoredStudy) -> Json:
    """``spectui.tune/1`` of a study without a report, as far as the study keeps it."""
    outcome = study.outcome
    return {
        **head("tune"),
        "study": study.name,
        **or_reason("target", study.target and {"file": study.target}, "the study does not say"),
        "trials": [record.document() for record in study.trials],
        **or_reason("verdict", outcome and outcome.verdict.document(), _UNKNOWN),
        "interrupted": outcome is None or outcome.interrupted,
    }


def _bare_page(study: StoredStudy) -> list[Part]:
    if study.outcome is not None:
        return [Paragraph(study.outcome.verdict.reason), Paragraph(f"Study {study.name}.")]
    n = counted(n_measured(study.trials), "measured trial")
    return [
        Paragraph(
            f"The study {study.name} has no verdict yet, with {n}; the same spectui tune command "
            "goes on from there."
        )
    ]


def delete(request: studies.Delete) -> None:
    """Delete studies, once the user is sure.

    Raises:
        BadInputError: the storage cannot be used, or there is no such study.
        CancelledError: the user is not.
        UsageError: a process works on it, or nobody can be asked.
    """
    known = {one.name for one in list_studies(request.storage)}
    names = tuple(dict.fromkeys(request.studies))
    for name in names:
        if name not in known:
            raise BadInputError(
                f"there is no study {name}; give whole names, as spectui studies list prints them"
            )
    if not request.yes:
        if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
            raise UsageError("nobody can be asked here whether to delete; add --yes")
        if not click.confirm(f"Delete {', '.join(names)} with all trials?", err=True):
            raise CancelledError("nothing was deleted")
    interrupts.hold()
    delete_studies(request.storage, names)
    say("\n".join(f"deleted {name}" for name in names))
