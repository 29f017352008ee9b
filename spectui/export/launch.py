"""One start of llama-server in a dialect's words, as input of every format."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from spectui.errors import BadInputError
from spectui.export.accepted import Accepted
from spectui.export.entry import Entry
from spectui.export.words import canonical, divide
from spectui.options.dialect import Dialect

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


def printable(text: str) -> str:
    """The text on one line, without what a terminal or an editor would act on."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
