"""One start of llama-server in a dialect's words, as input of every format."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from spectui.commands.arguments import server_arguments
from spectui.commands.command import Command, Item
from spectui.commands.items import Given, divide
from spectui.commands.reader import Accepted, Reader
from spectui.commands.rewriting import Rewritten, rewritten
from spectui.commands.server_options import canonical
from spectui.commands.sources.source import Entry, Start
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import NGRAMS, DrafterSetting, DraftSimple, numbers_of
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation

_LISTENING = ("--host", "--port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program, its environment and its arguments."""

    name: str
    """Name for formats that hold several models."""
    arguments: tuple[str, ...]
    dialect: Dialect
    program: tuple[str, ...] = ("llama-server",)
    """Words that start the program, including wrappers."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command sets, without those that stand for options."""
    comments: tuple[str, ...] = ()
    """Remarks for readers of the export, one line each."""
    accepted: Accepted | None = None
    """Options that the program takes; None for all of its dialect."""
    has_gpu: bool = True
    """Whether llama.cpp has a GPU on this machine."""
    entries: tuple[Entry, ...] = ()
    """The file entries that the command was taken from."""
    document: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the JSON format."""

    def check(self) -> None:
        """Make sure that files can hold it.

        Raises:
            BadInputError: a word is not valid UTF-8.
        """
        words = (*self.program, *(w for pair in self.environment for w in pair), *self.arguments)
        for word in words:
            if not _is_text(word):
                raise BadInputError(
                    f"{word!r} is not valid UTF-8, which export files are; rename the file"
                )

    @property
    def command(self) -> str:
        """One line for a POSIX shell."""
        return f"{self.assignments}{shlex.join([*self.program, *self.arguments])}"

    @property
    def assignments(self) -> str:
        """The variables before a command; empty without any."""
        return "".join(f"{name}={shlex.quote(value)} " for name, value in self.environment)

    def elsewhere(self, who: str) -> "Launch":
        """The launch without its listening address, which ``who`` chooses; a comment keeps it."""
        given = [one for one in divide(self.arguments) if canonical(one.flag) in _LISTENING]
        if not given:
            return self
        words = [word for one in given for word in one.words]
        kept = (w for one in divide(self.arguments) if one not in given for w in one.words)
        told = f"left out, since {who} chooses it: {printable(shlex.join(words))}"
        return replace(self, arguments=tuple(kept), comments=(*self.comments, told))

    @property
    def known_as(self) -> str | None:
        """The name that clients know from the command's own file; None without one."""
        return next((entry.name for entry in self.entries if entry.name), None)

    def entry(self, format_: str) -> Entry | None:
        """The entry of the command's own file of that kind; None if it was in none."""
        return next((entry for entry in self.entries if entry.format == format_), None)

    def value(self, name: str) -> str | None:
        """The last value of an option, by its name without dashes; None if it is not given."""
        found = [
            given.values[-1]
            for given in divide(self.arguments)
            if given.option is not None and given.option.name == name and given.values
        ]
        return found[-1] if found else None


class Launchable(Protocol):
    """A setup that can be exported."""

    @property
    def name(self) -> str:
        """Name for formats that hold several models."""

    def launch(self, dialect: Dialect) -> Launch:
        """The launch of a llama-server of that dialect with this setup.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """


def commented(lines: tuple[str, ...], mark: str = "#") -> str:
    """Lines as comments, each ended; an empty text for none."""
    # A line can hold what some reader takes for a line's end.
    return "".join(f"{mark} {part}\n" for line in lines for part in line.splitlines())


def slug(name: str) -> str:
    """The name in characters that every format accepts."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"


def printable(text: str) -> str:
    """The text on one line, without what a terminal or an editor would act on."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


_ALWAYS = frozenset(
    {
        *("model", "model-draft", "spec-type"),
        *(one.option for one in numbers_of(DraftSimple)),
        # Written only where the dialect would take the target's instead.
        *("cache-type-k-draft", "cache-type-v-draft"),
    }
)
"""Options that are always written, since their defaults changed between versions."""
_STANDS_FOR = {"load-mode": "no-mmap", "override-tensor": "n-cpu-moe"}
"""Options that a dialect uses in place of one that it lacks."""
_NGRAM_DEFAULTS = {
    one.option: one.argument(one.default) for drafter in NGRAMS for one in numbers_of(drafter)
}
_LAYERS = frozenset({"gpu-layers", "gpu-layers-draft"})
"""Options that remain in the user's own arguments for a value that is no number: ``auto``."""

OFF = "speculation off: no speculative flag is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSetup(Setup):
    """The setup of one llama-server to start.

    Without ``speculation`` nothing speculative is written, whatever ``draft`` and ``extra`` are.
    """

    name: str
    """Name for formats that hold several models."""
    has_gpu: bool = True
    """Whether llama.cpp has a GPU on this machine."""
    start: Start = field(default_factory=Start)
    """The words before the arguments."""
    program: str | None = None
    """Program to start instead of that of ``start``."""
    accepted: Accepted | None = None
    """Options that the program takes; None for all of its dialect."""
    given: frozenset[str] | None = None
    """Options that a command gave, by name: others stay unwritten at their defaults. None: all."""

    def launch(self, dialect: Dialect) -> Launch:
        """The launch of a llama-server of that dialect with this setup.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        start = self.start.running(self.program)
        return Launch(
            name=self.name,
            program=start.program,
            environment=start.environment,
            arguments=tuple(self.arguments(dialect)),
            comments=(*self.comments(), *self._missing(dialect)),
            dialect=dialect,
            accepted=self.accepted,
            has_gpu=self.has_gpu,
            document=self._document(),
        )

    def _document(self) -> dict[str, object]:
        target, draft = self.target, self.used_draft
        document: dict[str, object] = {
            "target": str(target.path),
            "draft": None if draft is None else str(draft.path),
            "speculation": None if self.speculation is None else told(self.speculation),
        }
        if self.speculation is None:
            document |= {"draft_reason": OFF, "speculation_reason": OFF}
        elif not self.speculation.needs_draft:
            document["draft_reason"] = f"{self.speculation.own.kind} needs no draft model"
        return document

    def arguments(self, dialect: Dialect) -> list[str]:
        """All arguments, without the program's name.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        own = server_arguments(
            self.target, self.draft, self.context, self.speculation, dialect=dialect
        )
        if self.given is not None:
            own = [w for given in divide(own) if _is_wanted(given, self.given) for w in given.words]
        said = {given.name for given in divide(self.kept_extra())} & _LAYERS
        own = [w for given in divide(own) if given.name not in said for w in given.words]
        words = self._rewritten(own, dialect).command.arguments
        return list(words) if self.accepted is None else self.accepted.spelled(words)

    def _rewritten(self, own: list[str], dialect: Dialect) -> Rewritten:
        """All arguments in the dialect's words, including the user's own."""
        flags = None if self.accepted is None else self.accepted.flags
        written, extra = list(divide(own)), divide(self.kept_extra())
        items = tuple(Item(given=given) for given in (*written, *extra))
        reader = Reader(dialect=dialect, accepted=flags)
        return rewritten(Command(items=items), reader, start=len(written))

    def _missing(self, dialect: Dialect) -> tuple[str, ...]:
        dropped = self._rewritten([], dialect).dropped
        left_out = printable(" ".join(item.given.flag for item in dropped))
        return (f"left out, since {dialect} has no such option: {left_out}",) if dropped else ()

    def kept_extra(self) -> tuple[str, ...]:
        """The user's own arguments; when speculation is off, without their drafting options."""
        dropped = self._dropped()
        return tuple(w for g in divide(self.extra) if g not in dropped for w in g.words)

    def comments(self) -> tuple[str, ...]:
        """Remarks for readers of the export, one printable line each."""
        if self.speculation is not None:
            return ()
        left_out = " ".join(given.flag for given in self._dropped())
        lines = [OFF, f"left out of your own arguments: {left_out}"] if left_out else [OFF]
        return tuple(map(printable, lines))

    def files(self) -> tuple[Path, ...]:
        """Files that the setup reads."""
        return tuple(options.path for options in self.models)

    def _dropped(self) -> tuple[Given, ...]:
        if self.speculation is not None:
            return ()
        return tuple(given for given in divide(self.extra) if given.is_speculative)


def _is_wanted(written: Given, given: frozenset[str]) -> bool:
    name = "" if written.option is None else written.option.name
    if name in _NGRAM_DEFAULTS and written.values != (_NGRAM_DEFAULTS[name],):
        # What the server would not do of itself.
        return True
    return not given.isdisjoint({name, _STANDS_FOR.get(name, name)}) or name in _ALWAYS


def told(speculation: Speculation) -> dict[str, object]:
    """A setting for the JSON of an export."""
    *ahead, own = map(_drafter, speculation.chain)
    return {**own, "ahead": ahead} if ahead else own


def _drafter(drafter: DrafterSetting) -> dict[str, object]:
    return {"kind": drafter.label, **drafter.numbers}
