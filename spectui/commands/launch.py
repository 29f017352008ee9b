"""Makes a command of llama-server, from a setup or from an existing command.

A setup is written in any dialect; an existing command in today's options of its own dialect.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spectui.commands.arguments import server_arguments
from spectui.commands.command import LAYERS, ServerCommand, Start
from spectui.commands.finding import Finding, Severity
from spectui.commands.items import Item, divide, words_of
from spectui.commands.lint.checking import check, check_certain
from spectui.commands.programs import recognise, started_by
from spectui.commands.reader import Reader
from spectui.commands.renames import SERVED
from spectui.commands.rewriting import is_stage_option, unknown_note
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.options import placement
from spectui.options.drafters import NGRAMS, DraftSimple, numbers_of
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, ModelOptions, Setup

_ALWAYS = frozenset(
    {
        *("model", "model-draft", "spec-type"),
        # Unset where they are the server's own number.
        *("threads", "threads-batch"),
        *(one.option for one in numbers_of(DraftSimple)),
        # Written only where the dialect would take the target's instead.
        *("cache-type-k-draft", "cache-type-v-draft"),
    }
)
"""Options that are always written, even at their defaults, which changed between versions."""
_FITTING = frozenset({"gpu-layers", *(option.name for option in placement.FITTING)})
_ONCE = LAYERS | _FITTING
"""Options that are not written where the user's own arguments have them, with auto perhaps."""
_LOADING = frozenset(option.name for option in placement.LOADING)
_STANDS_FOR: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(_LOADING, _LOADING),
    "override-tensor": frozenset({"n-cpu-moe", "n-cpu-ffn"}),
}
"""Options of a command that are written as another one, in some dialect or in all of them."""
_NGRAM_DEFAULTS = {
    one.option: one.argument(one.default) for drafter in NGRAMS for one in numbers_of(drafter)
}
OFF = "speculation off: no speculative flag is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command of llama-server, written for one reader."""

    name: str
    """Name for formats that hold several models."""
    command: ServerCommand
    reader: Reader
    comments: tuple[str, ...] = ()
    """Remarks for readers of the export, one line each."""
    notes: tuple[str, ...] = ()
    """Differences from the user's command, to be shown beside the export."""


def slug(name: str) -> str:
    """The name in characters that every format accepts."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"


def commented(lines: tuple[str, ...], mark: str = "#") -> str:
    """Lines as comments, each ended; an empty text for none."""
    # A line may contain characters that some programs read as a line's end.
    return "".join(f"{mark} {printable(part)}\n" for line in lines for part in line.splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSetup(Setup):
    """The setup of one llama-server to start.

    Without ``speculation`` nothing speculative is written, whatever ``draft`` and ``extra`` are.
    """

    name: str
    """Name for formats that hold several models."""
    start: Start = field(default_factory=Start)
    """The words before the arguments."""
    given: frozenset[str] | None = None
    """Names of options that a command gave: others are left out at their defaults. None for all."""

    def launch(self, dialect: Dialect, named: Reader | None = None) -> Launch:
        """The launch of a llama-server of that dialect with this setup.

        Args:
            dialect: the llama-server's.
            named: the one that is started; None for that of ``start``, whatever it is.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        extra = tuple(divide(self.extra))
        comments: list[str] = []
        if self.speculation is None:
            drafting = " ".join(one.flag for one in extra if one.is_speculative)
            comments.append(OFF)
            comments += [f"left out of your own arguments: {drafting}"] if drafting else []
            extra = tuple(one for one in extra if not one.is_speculative)
        own = self._setup_options(extra, dialect)
        if dialect is not Dialect.LLAMA_CPP:
            # In other dialects auto is the default, and has no word.
            extra = tuple(one for one in extra if one.name not in LAYERS or one.value != "auto")
        items = (*own, *extra)
        reader = named or Reader(dialect=dialect)
        report = check(ServerCommand(items=items), reader)
        if named is not None:
            check_certain(report)
        lacking = [items[one.at] for one in report.findings if one.edits.get(one.at) == ()]
        if lacking:
            flags = " ".join(item.flag for item in lacking)
            comments.append(f"left out, since {dialect} has no such option: {flags}")
        start = self.start.running(reader.program)
        return Launch(
            name=self.name,
            command=replace(report.corrected, start=start),
            reader=reader,
            comments=(*map(printable, comments), *unknown_note(report.corrected.items, reader)),
        )

    def _setup_options(self, extra: Sequence[Item], dialect: Dialect) -> list[Item]:
        """The setup's options that are wanted beside the user's own."""
        setup = (self.target, self.draft, self.context, self.speculation)
        words = server_arguments(*setup, dialect=dialect)
        # A value that is no number, such as auto, remains in ``extra``.
        own = {item.name for item in extra} & _ONCE
        return [one for one in divide(words) if one.name not in own and self._is_wanted(one)]

    def _is_wanted(self, written: Item) -> bool:
        name = written.name
        if self.given is None or name in _ALWAYS:
            return True
        # Values that differ from the server's own defaults are needed as well.
        is_other = written.value != _NGRAM_DEFAULTS.get(name, written.value)
        return is_other or not self.given.isdisjoint({name, *_STANDS_FOR.get(name, ())})


def placement_text(setup: Setup) -> str:
    """llama-server's options for the target's placement and threads, without defaults."""
    # The length of the context is no place.
    usual = _places(ModelOptions(path=Path("m")), ContextOptions(ctx_size=setup.context.ctx_size))
    return " ".join(one for one in _places(setup.target, setup.context) if one not in usual)


def _places(target: ModelOptions, context: ContextOptions) -> list[str]:
    words = server_arguments(target, None, context, None, dialect=Dialect.LLAMA_CPP)
    kept = [one for one in divide(words) if not one.is_path and one.flag != "--rpc"]
    return [shlex.join(words_of([one])) for one in kept]


def translated(command: ServerCommand, reader: Reader) -> Launch:
    """The command in today's words of its dialect, for the llama-server that will read it.

    Raises:
        BadInputError: it is of another dialect, or the reader stops at it.
    """
    _check_dialect(command, reader)
    remarks = tuple(one for one in command.remarks if one.replacement is None)
    # An ik_llama.cpp that runs a command is left with it as it is.
    report = check(replace(command, remarks=remarks), reader, always=reader.is_current)
    check_certain(report)
    # ik_llama.cpp reads its variables behind the arguments.
    is_ik = reader.dialect is Dialect.IK
    placed = sorted(report.corrected.items, key=lambda item: is_ik and item.variable is not None)
    items = tuple(replace(item, variable=None) for item in placed)
    start = report.corrected.start.running(reader.program)
    findings = [one for one in report.findings if one not in remarks]
    return Launch(
        name=_model_name(command),
        command=replace(report.corrected, items=items, start=start),
        reader=reader,
        notes=(
            *map(_remark_note, command.remarks),
            *(printable(_change_note(one, command)) for one in findings if _is_noted(one, command)),
            *unknown_note(items, reader),
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


def _remark_note(remark: Finding) -> str:
    """A note on what the reader of the command's file has remarked."""
    ahead = "" if remark.severity is Severity.NOTE else "note: "
    now = f"; it is {remark.replacement} now" if remark.replacement else ""
    return f"{ahead}{remark.what}: {remark.why}{now}"


def _is_noted(finding: Finding, command: ServerCommand) -> bool:
    """Whether an export tells of a finding: what it writes anew, and what the reader misreads."""
    is_of_program = finding.flag == started_by(command)
    return is_of_program or bool(finding.edits) or finding.is_misread


def _change_note(finding: Finding, command: ServerCommand) -> str:
    """A note on what is written anew or left out, or read otherwise than it looks."""
    item = command.items[finding.at] if finding.at in finding.edits else None
    own = finding.flag if item is None or item.variable is not None else item.text
    meant = finding.replacement
    if not finding.edits or finding.at not in finding.edits:
        does = f"write {meant}" if not finding.edits else f"{meant} is written out"
        return f"note: {finding.what}: {finding.why}{f'; {does}' if meant else ''}"
    goes = not finding.edits[finding.at]
    is_number = item is not None and is_stage_option(item) and item.name != "spec-type"
    # Not every drafter reads every number.
    if not meant or (goes and is_number and f"={own.rpartition(' ')[2]}" not in meant):
        return f"left out, since {finding.what}: {own}"
    becomes = "goes into" if goes else "is now"
    return f"changed, since {finding.what}: {own} {becomes} {meant}"


def _model_name(command: ServerCommand) -> str:
    """Name of the served model, for formats that hold several."""
    if command.known_as is not None:
        return command.known_as
    value = next((v for name in SERVED if (v := command.value(name))), "model")
    path = Path(value.partition(":")[0])
    return path.stem if path.suffix in {".gguf", ".ini"} else path.name
