"""An existing command in other words, with every option in its place."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.commands.arguments import speculation_arguments
from spectui.commands.command import ServerCommand
from spectui.commands.drafting import (
    NEW_LENGTHS,
    OLD_LENGTHS,
    assumed_lengths,
    kind_by_name,
    told_of_length,
)
from spectui.commands.finding import Finding, Topic
from spectui.commands.items import Item, divide, words_of
from spectui.commands.launch import Launch, told
from spectui.commands.lint.checking import check, lint
from spectui.commands.programs import as_server, started_by
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.renames import (
    BY_LAYERS,
    BY_SWITCH,
    DRAFTS,
    IK_KINDS,
    MODEL_FLAGS,
    SERVED,
)
from spectui.commands.rewriting import passed_on
from spectui.commands.takeover import names_model, prints_and_ends, taken_options
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    NgramSimple,
    number_of,
    numbers_of,
)
from spectui.options.reading import read_speculation
from spectui.options.speculation import Speculation
from spectui.severity import Severity

_SETTINGS = frozenset(
    {
        *("spec-type", "spec-default", BY_SWITCH),
        *SHARED_BY_NGRAMS,
        *(one.option for drafter in (DraftSimple, *NGRAMS) for one in numbers_of(drafter)),
    }
)
"""Options that configure drafting, except the model and its placement."""
_OURS = frozenset({MODEL_KIND, IK_KINDS[MODEL_KIND], *BY_LAYERS, *NGRAM_KINDS})
"""Drafters whose settings spectui knows."""
_NOTHING = "nothing drafts"
_SIZE_M = number_of(NgramSimple, "size_m").option
_NO_FILE = "the command names no file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """A command whose drafting means the same to its new reader."""

    command: ServerCommand
    speculation: Speculation | None = None
    reason: str = _NOTHING
    """Reason why there is no ``speculation``."""
    notes: tuple[str, ...] = ()
    """Sentences about changes to the drafting."""


def drafting_of(command: ServerCommand, reader: Reader) -> Drafting:
    """Write out the drafters and their settings, as far as spectui knows them.

    Args:
        command: the command, in the reader's dialect.
        reader: the llama-server that will read it.
    """
    kinds = {kind.partition(":")[0] for kind in command.kinds}
    if _depends_on_file(command, reader):
        kinds = {MTP_KIND}
        command = command.edited({None: ("--spec-type", MTP_KIND)})
    if not kinds and (command.has("spec-type") or not command.has_draft):
        return Drafting(command=command)
    if not reader.is_current:
        # Numbers that are left out are others there.
        return Drafting(command=command, reason=f"its settings are {reader.dialect}'s own")
    if not kinds <= _OURS or (not kinds and kind_by_name(command)):
        shown = ", ".join(sorted(kinds - _OURS)) or "a draft that llama-server knows by its file"
        return Drafting(command=command, reason=f"{shown}: llama-server alone knows how it drafts")
    taken = _options(command)
    assumed = {n: v for n, v in assumed_lengths(command, reader).items() if n not in taken}
    options = {**{name: (value,) for name, value in assumed.items()}, **taken}
    try:
        speculation = read_speculation(options)
    except UsageError as error:
        # What spectui would not measure its server may take all the same.
        return Drafting(command=command, reason=f"spectui cannot draft so: {error}")
    written = divide(speculation_arguments(speculation, reader.dialect))
    wanted = (item for item in written if _is_wanted(item, options))
    return Drafting(
        command=_settled(command, words_of(wanted)),
        speculation=speculation,
        notes=(
            *_notes(assumed),
            *_longer(command, taken),
            *_reordered(command, speculation),
        ),
    )


def _depends_on_file(command: ServerCommand, reader: Reader) -> bool:
    """Whether llama-server drafts with MTP layers, as the draft's name has it, if it knows them."""
    is_named = command.has("spec-type", "spec-default", BY_SWITCH)
    return reader.is_current and not is_named and kind_by_name(command) == MTP_KIND


def _options(command: ServerCommand) -> dict[str, tuple[str, ...]]:
    """The settings by spectui's names."""
    settings = (item for item in command.items if item.name in _SETTINGS - {BY_SWITCH})
    options, _others = taken_options(settings)
    if not BY_LAYERS.isdisjoint(command.kinds):
        named = (MTP_KIND if kind in BY_LAYERS else kind for kind in command.kinds)
        options["spec-type"] = (",".join(named),)
    return options


def _is_wanted(written: Item, options: Mapping[str, object]) -> bool:
    """Whether the option was given, or its default changed between builds."""
    return written.name in options or not written.name.startswith("spec-ngram-")


def _settled(command: ServerCommand, words: tuple[str, ...]) -> ServerCommand:
    """The command with these words in place of its previous drafting options."""
    places = [at for at, item in enumerate(command.items) if item.name in _SETTINGS]
    behind = [at for at, item in enumerate(command.items) if _is_draft(item)]
    at = places[0] if places else (behind or [len(command.items) - 1])[-1]
    ahead = () if places else command.items[at].words
    return command.edited({**dict.fromkeys(places, ()), at: (*ahead, *words)})


def _is_draft(item: Item) -> bool:
    return item.name in DRAFTS


def _reordered(command: ServerCommand, speculation: Speculation) -> Iterator[str]:
    """Yield a note where the drafters are named in another order than before."""
    kinds = [one.kind for one in speculation.chain]
    named = [MTP_KIND if kind in BY_LAYERS else kind for kind in command.kinds]
    if named != kinds and set(named) == set(kinds):
        yield (
            f"mind that llama-server asks {', '.join(kinds)} in this order, whatever --spec-type "
            "says: it is written so"
        )


def _longer(command: ServerCommand, taken: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Reason why a different length is written than the given one."""
    longest, size_m = command.value("draft-max"), taken.get(_SIZE_M)
    is_own = command.has("spec-ngram-size-m", _SIZE_M)
    if longest is not None and size_m is not None and not is_own:
        told = told_of_length(longest, size_m[-1])
        if told is not None:
            yield f"mind that {told}: it is written for {longest}"


def _notes(assumed: Mapping[str, str]) -> Iterator[str]:
    for name, value in assumed.items():
        yield (
            f"mind that the command gives no --{name}, whose default was {OLD_LENGTHS[name]} until "
            f"spring 2026 and is {NEW_LENGTHS[name]} since: {MODEL_FLAGS[name]} {value} is written "
            "out"
        )


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
        BadInputError: it is of another dialect, the reader stops at it, or would find no model.
    """
    _check_dialect(command, reader)
    own_program, command = started_by(command), as_server(command)
    needs_model = not (command.is_section or prints_and_ends(command.items))
    drafting = drafting_of(command, reader)
    # Variables are written as arguments.
    items = tuple(replace(item, variable=None) for item in _by_precedence(drafting.command, reader))
    remarks = tuple(one for one in command.remarks if one.replacement is None)
    written = _corrected(replace(drafting.command, items=items, remarks=remarks), reader)
    items = written.items
    if needs_model and not reader.is_current:
        _check_model(items, reader)
    if reader.accepted is not None:
        items = reader.accepted.spelled(items)
    is_router = needs_model and not names_model(command.items)
    return Launch(
        name=_name(command),
        command=replace(written, items=items),
        start=command.start.running(program),
        reader=reader,
        has_gpu=has_gpu,
        notes=(
            *_of_program(command, own_program, is_router=is_router),
            *drafting.notes,
            *map(_told, command.remarks),
            *_changes(command, reader),
            *_unread(command, drafting.command, reader),
            *_added(command, written, reader),
            *passed_on(items, reader),
        ),
        document=_document(command, drafting),
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


def _check_model(items: tuple[Item, ...], reader: Reader) -> None:
    """Make sure that options name a model.

    Raises:
        BadInputError: none does.
    """
    if not names_model(items):
        raise BadInputError(
            f"the command names no model that {reader.name} can load, and it does not start "
            "without one; add -m FILE"
        )


def _of_program(command: ServerCommand, own: str | None, *, is_router: bool) -> Iterator[str]:
    """Yield notes on the program, and on a missing model."""
    if own is not None:
        yield f"mind that {printable(own)} is written as {command.start.program[-1]}"
    if is_router:
        yield "mind that no model is named: llama-server starts as a router"


def _told(remark: Finding) -> str:
    ahead = "" if remark.severity is Severity.NOTE else "mind that "
    now = f"; it is {remark.replacement} now" if remark.replacement else ""
    return f"{ahead}{remark.what}: {remark.why}{now}"


def _name(command: ServerCommand) -> str:
    """Name of the served model, for formats that hold several."""
    if command.known_as is not None:
        return command.known_as
    value = next((v for name in SERVED if (v := command.value(name))), "model")
    path = Path(value.partition(":")[0])
    return path.stem if path.suffix in {".gguf", ".ini"} else path.name


def _by_precedence(command: ServerCommand, reader: Reader) -> list[Item]:
    """The items, those that count last: variables in ik_llama.cpp, arguments elsewhere."""
    if reader.is_current:
        return list(command.items)
    return sorted(command.items, key=lambda item: item.variable is not None)


def _corrected(written: ServerCommand, reader: Reader) -> ServerCommand:
    """The command with what the reader takes, where it is certain what is meant.

    Raises:
        BadInputError: the reader would stop at it all the same.
    """
    report = check(written, reader)
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
    is_lacking = reader.accepted is not None and reader.takes(finding.flag) is False
    return any(finding.edits.values()) or not (finding.edits and is_lacking)


def _changes(command: ServerCommand, reader: Reader) -> Iterator[str]:
    """Yield a note on all that is written anew or left out, or read otherwise than it looks."""
    findings = lint(replace(command, remarks=()), reader)
    again = {one.at: one for one in findings if one.topic is Topic.OVERRULED}
    lacking: list[Item] = []
    for finding in findings:
        own = command.items[finding.at].text if finding.at >= 0 else finding.flag
        if finding.severity is not Severity.ERROR:
            yield from _misread(finding)
        elif finding.at in again:
            # Of two the reader's own rule takes one.
            yield printable(f"of no effect, since {again[finding.at].what}: {own}")
        elif finding.replacement:
            yield printable(f"changed, since {finding.what}: {own} is now {finding.replacement}")
        elif finding.replacement is not None and reader.takes(finding.flag) is False:
            lacking.append(command.items[finding.at])
        elif finding.replacement is not None:
            yield printable(f"left out, since {finding.what}: {own}")
    if lacking:
        left_out = shlex.join(words_of(lacking))
        yield printable(f"left out, since {reader.name} has no such option: {left_out}")


def _misread(finding: Finding) -> Iterator[str]:
    """Yield a note on what the reader ignores, or understands otherwise than it looks."""
    # A variable that nobody reads, and that stands for nothing today, is left out for good.
    if finding.topic is Topic.MISREAD and not (finding.edits and not finding.replacement):
        told = f"mind that {finding.what}: {finding.why}"
        if finding.edits:
            told += f"; it is {finding.replacement} now, which counts"
        elif finding.replacement:
            told += f"; write {finding.replacement} for it"
        yield printable(told)


def _unread(command: ServerCommand, drafting: ServerCommand, reader: Reader) -> Iterator[str]:
    """Yield a note on settings that nothing reads, and that are left out."""
    left = {item.name for item in drafting.items}
    for item in command.items:
        if item.name in _SETTINGS - left - {"spec-type"} and reader.takes(item.flag):
            yield printable(f"left out, since nothing reads it: {item.text}")


def _added(command: ServerCommand, written: ServerCommand, reader: Reader) -> Iterator[str]:
    """Yield a note on a drafter that is named now."""
    kinds = written.value("spec-type")
    if reader.is_current and kinds is not None and not command.has("spec-type", BY_SWITCH):
        why = "since spring 2026 nothing drafts without it"
        if _depends_on_file(command, reader):
            why = "whether the draft drafts without it depends on its file"
        yield f"mind that --spec-type {printable(kinds)} is written out: {why}"


def _document(command: ServerCommand, drafting: Drafting) -> dict[str, object]:
    document: dict[str, object] = {}
    for key, name in (("target", "model"), ("draft", "model-draft")):
        value = command.value(name)
        document[key] = value
        if value is None:
            document[f"{key}_reason"] = f"{_NO_FILE} with {'-m' if key == 'target' else '-md'}"
    if drafting.speculation is None:
        return document | {"speculation": None, "speculation_reason": drafting.reason}
    return document | {"speculation": told(drafting.speculation)}
