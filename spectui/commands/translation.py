"""An existing command as the llama-server of its dialect takes it today."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import old_lengths
from spectui.commands.finding import Finding, Severity, Topic
from spectui.commands.items import Item, words_of
from spectui.commands.launch import Launch, told
from spectui.commands.lint.checking import check, lint
from spectui.commands.programs import as_server, started_by
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.renames import SERVED
from spectui.commands.rewriting import passed_on, spelled
from spectui.commands.server_options import canonical, flags_of
from spectui.commands.takeover import names_model, prints_and_ends, taken_options
from spectui.documents import or_reason
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.options.dialect import Dialect
from spectui.options.reading import read_speculation

_FILES = {"target": ("model", "-m"), "draft": ("model-draft", "-md")}


def translated(
    command: ServerCommand, reader: Reader, *, program: str | None = None, has_gpu: bool = True
) -> Launch:
    """The command in today's words of its dialect, for the llama-server that will read it.

    Args:
        command: the command.
        reader: the llama-server.
        program: program to start instead of the command's own.
        has_gpu: whether llama.cpp has a GPU on this machine.

    Raises:
        BadInputError: it is of another dialect, or the reader stops at it.
    """
    _check_dialect(command, reader)
    own_program, command = started_by(command), as_server(command)
    findings = lint(replace(command, remarks=()), reader)
    overruled = _left_out(findings, reader)
    # An ik_llama.cpp that runs a command is left with it as it is.
    corrects = reader.is_current or any(one.severity is Severity.ERROR for one in findings)
    written = _corrected(_without(command, overruled), reader, always=corrects)
    items = written.items
    if reader.accepted is not None:
        items = spelled(items, reader.accepted)
    return Launch(
        name=_name(command),
        command=replace(written, items=items),
        start=command.start.running(program),
        reader=reader,
        has_gpu=has_gpu,
        notes=(
            *_of_program(command, own_program, reader),
            *map(_of_source, command.remarks),
            *map(printable, _changes(command, findings, overruled, reader, corrects=corrects)),
            *passed_on(items, reader),
        ),
        document=_document(command, written),
    )


def _check_dialect(command: ServerCommand, reader: Reader) -> None:
    """Make sure that the reader is of the command's dialect.

    Raises:
        BadInputError: it is of another one.
    """
    own = recognise(command)
    is_own = own.dialect is reader.dialect or own.is_open
    if reader.dialect is Dialect.LEGACY or not is_own:
        raise BadInputError(
            f"spectui does not translate whole commands to {reader.dialect}; leave out what asks "
            f"for it, and let spectui lint --dialect {reader.dialect} tell what stops there"
        )


def _left_out(findings: Sequence[Finding], reader: Reader) -> dict[int, Finding]:
    """Options that others overrule and that cannot stay, with the findings that say so."""
    refused = {one.at for one in findings if one.severity is Severity.ERROR}
    # ik_llama.cpp's variables overrule its arguments; written as arguments they would not.
    is_ik = reader.dialect is Dialect.IK
    return {
        one.at: one
        for one in findings
        if one.topic is Topic.OVERRULED and (is_ik or one.at in refused)
    }


def _without(command: ServerCommand, overruled: dict[int, Finding]) -> ServerCommand:
    """The command with its variables as arguments, and without what others overrule."""
    items = (one for at, one in enumerate(command.items) if at not in overruled)
    return replace(
        command,
        items=tuple(replace(one, variable=None) for one in items),
        remarks=tuple(one for one in command.remarks if one.replacement is None),
    )


def _corrected(command: ServerCommand, reader: Reader, *, always: bool) -> ServerCommand:
    """The command with what the reader takes, where it is certain what is meant.

    Raises:
        BadInputError: the reader would stop at it all the same.
    """
    report = check(command, reader, always=always)
    refused = (one for one in report.findings if not _is_certain(one, reader))
    for finding in (*refused, *report.left):
        if finding.severity is Severity.ERROR:
            instead = f"write {finding.replacement}" if finding.replacement else "take it out"
            raise BadInputError(printable(f"{finding.what}: {finding.why}; {instead}"))
    return report.corrected


def _is_certain(finding: Finding, reader: Reader) -> bool:
    """Whether an export may correct what a finding is about."""
    if finding.topic is Topic.CONTRADICTION:
        return False
    # What a binary lacks of its dialect is not left out, but refused.
    is_of_dialect = canonical(finding.flag) in flags_of(reader.dialect)
    is_lacking = is_of_dialect and reader.takes(finding.flag) is False
    return any(finding.edits.values()) or not (finding.edits and is_lacking)


def _of_program(command: ServerCommand, own: str | None, reader: Reader) -> Iterator[str]:
    """Yield notes on the program, and on a missing model."""
    if own is not None:
        yield f"note: {printable(own)} is written as {command.start.program[-1]}"
    if names_model(command.items) or command.is_section or prints_and_ends(command.items):
        return
    does = "starts as a router" if reader.is_current else "does not start without one"
    yield f"note: no model is named: {reader.name} {does}"


def _of_source(remark: Finding) -> str:
    """A note on what the reader of the command's file has remarked."""
    ahead = "" if remark.severity is Severity.NOTE else "note: "
    now = f"; it is {remark.replacement} now" if remark.replacement else ""
    return f"{ahead}{remark.what}: {remark.why}{now}"


def _changes(
    command: ServerCommand,
    findings: Sequence[Finding],
    overruled: dict[int, Finding],
    reader: Reader,
    *,
    corrects: bool,
) -> Iterator[str]:
    """Yield a note on all that is written anew or left out, or read otherwise than it looks."""
    lacking: list[Item] = []
    for one in findings:
        item = command.items[one.at] if one.at >= 0 else None
        own = one.flag if item is None else item.text
        meant = one.replacement
        if one.at in overruled:
            if one is overruled[one.at]:
                yield f"of no effect, since {one.what}: {own}"
        elif one.severity is not Severity.ERROR:
            yield from _beside_errors(one, corrects=corrects)
        elif meant:
            yield f"changed, since {one.what}: {own} is now {meant}"
        elif meant is not None and item is not None and reader.takes(one.flag) is False:
            lacking.append(item)
        elif meant is not None:
            yield f"left out, since {one.what}: {own}"
    if lacking:
        left_out = shlex.join(words_of(lacking))
        yield f"left out, since {reader.name} has no such option: {left_out}"


def _beside_errors(finding: Finding, *, corrects: bool) -> Iterator[str]:
    """Yield a note on what is written out, and on what the reader ignores or misreads."""
    told = f"note: {finding.what}: {finding.why}"
    if finding.edits and finding.replacement:
        if finding.at in finding.edits:
            yield f"{told}; it is {finding.replacement} now, which counts"
        elif corrects:
            yield f"{told}; {finding.replacement} is written out"
    elif finding.topic is Topic.MISREAD and not finding.edits:
        yield f"{told}; write {finding.replacement} for it" if finding.replacement else told


def _name(command: ServerCommand) -> str:
    """Name of the served model, for formats that hold several."""
    if command.known_as is not None:
        return command.known_as
    value = next((v for name in SERVED if (v := command.value(name))), "model")
    path = Path(value.partition(":")[0])
    return path.stem if path.suffix in {".gguf", ".ini"} else path.name


def _document(command: ServerCommand, written: ServerCommand) -> dict[str, object]:
    """The models' files and how the written command drafts, or why spectui cannot tell."""
    document: dict[str, object] = {}
    for key, (name, flag) in _FILES.items():
        missing = f"the command names no file with {flag}"
        document |= or_reason(key, command.value(name), missing)
    speculation, reason = None, "nothing drafts"
    try:
        if written.kinds:
            options, _extra = taken_options(written.items)
            lengths = {name: (value,) for name, value in old_lengths(written).items()}
            speculation = told(read_speculation(lengths | options))
    except (BadInputError, UsageError) as error:
        # What spectui would not measure its server may take all the same.
        reason = f"spectui cannot draft so: {error}"
    return document | or_reason("speculation", speculation, reason)
