"""An existing command as the llama-server of its dialect takes it today."""

from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.launch import Launch
from spectui.commands.lint.checking import check, check_certain
from spectui.commands.programs import started_by
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.renames import SERVED
from spectui.commands.rewriting import passed_on
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.options.dialect import Dialect


def translated(
    command: ServerCommand, reader: Reader, *, program: str | None = None
) -> Launch:
    """The command in today's words of its dialect, for the llama-server that will read it.

    Args:
        command: the command.
        reader: the llama-server.
        program: program to start instead of the command's own.

    Raises:
        BadInputError: it is of another dialect, or the reader stops at it.
    """
    _check_dialect(command, reader)
    remarks = tuple(one for one in command.remarks if one.replacement is None)
    # An ik_llama.cpp that runs a command is left with it as it is.
    report = check(replace(command, remarks=remarks), reader, always=reader.is_current)
    check_certain(report, reader)
    # ik_llama.cpp reads its variables behind the arguments.
    is_ik = reader.dialect is Dialect.IK
    placed = sorted(report.corrected.items, key=lambda item: is_ik and item.variable is not None)
    items = tuple(replace(item, variable=None) for item in placed)
    findings = [one for one in report.findings if one not in remarks]
    return Launch(
        name=_name(command),
        command=replace(report.corrected, items=items),
        start=report.corrected.start.running(program),
        reader=reader,
        notes=(
            *map(_of_source, command.remarks),
            *(printable(_change(one, command)) for one in findings if _is_told(one, command)),
            *passed_on(items, reader),
        ),
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


def _of_source(remark: Finding) -> str:
    """A note on what the reader of the command's file has remarked."""
    ahead = "" if remark.severity is Severity.NOTE else "note: "
    now = f"; it is {remark.replacement} now" if remark.replacement else ""
    return f"{ahead}{remark.what}: {remark.why}{now}"


def _is_told(finding: Finding, command: ServerCommand) -> bool:
    """Whether an export tells of a finding: what it writes anew, and what the reader misreads."""
    is_of_program = finding.flag == started_by(command)
    return is_of_program or bool(finding.edits) or finding.is_misread


def _change(finding: Finding, command: ServerCommand) -> str:
    """A note on what is written anew or left out, or read otherwise than it looks."""
    item = command.items[finding.at] if finding.at in finding.edits else None
    own = finding.flag if item is None or item.variable is not None else item.text
    meant = finding.replacement
    if not finding.edits or finding.at not in finding.edits:
        does = f"write {meant}" if not finding.edits else f"{meant} is written out"
        return f"note: {finding.what}: {finding.why}{f'; {does}' if meant else ''}"
    if not meant:
        return f"left out, since {finding.what}: {own}"
    becomes = "is now" if finding.edits[finding.at] else "goes into"
    return f"changed, since {finding.what}: {own} {becomes} {meant}"


def _name(command: ServerCommand) -> str:
    """Name of the served model, for formats that hold several."""
    if command.known_as is not None:
        return command.known_as
    value = next((v for name in SERVED if (v := command.value(name))), "model")
    path = Path(value.partition(":")[0])
    return path.stem if path.suffix in {".gguf", ".ini"} else path.name
