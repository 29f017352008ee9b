"""Reads a llama-server command for a shell of Windows: a batch file, or lines of PowerShell.

Simple lines are understood: continuations, quotes, ``set`` and ``$env:``, and commands that change
nothing for the server. All that decides or changes what is run is refused by its line. Backslashes
are parts of paths.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from spectui.commands.command import ServerCommand
from spectui.commands.programs import names_server
from spectui.commands.sources.files import Replacement, SeveralError
from spectui.commands.sources.refusals import INSTEAD, PLACEHOLDER, shown
from spectui.commands.sources.source import OF_LLAMA, command_of, left_out
from spectui.errors import BadInputError

_CONTINUED = re.compile(r"[ \t]([\^`])[ \t]*\r?\n(?=[ \t]*[^ \t\r\n])")
_SIGNS = re.compile(
    r"(?im)^[ \t]*@?(?:echo[ \t]+off\b|set[ \t]+\"?\w+=)|^[ \t]*(?:PS )?[A-Za-z]:\\[^\n>\"]*>"
    r"|%[A-Za-z_]\w*%|\$env:|^[ \t]*\$\w+[ \t]*="
    r"|(?:^|[ \t\"'=])(?:[A-Za-z]:\\|\.{1,2}\\)[^ \t\n]"
)
_OF_POWERSHELL = re.compile(r"[ \t]`[ \t]*\r?\n|\$env:|(?m:^[ \t]*(?:PS |&[ \t]|\$\w+[ \t]*=))")
_OF_POSIX = re.compile(r"\\\r?\n|\A#!|(?m:^[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*=)")
_PROMPT = re.compile(r"(?:PS )?(?:[A-Za-z]:\\[^\n>]*)?>[ \t]*")
_ASIDE = re.compile(
    r"(?i)@?(?:rem|echo|title|pause|cd|chdir|chcp|timeout|setlocal|endlocal|color|mode|cls|exit"
    r"|set-location|write-host|start-sleep|clear-host|\w:)(?=$|[ \t/.])|::|#|:\w+"
)
"""Lines that change nothing for the server."""
_SET = re.compile(
    r"(?i)@?set[ \t]+(?P<quote>\"?)(?P<name>\w+)=(?P<value>.*?)(?P=quote)[ \t]*"
    r"|\$(?P<env>env:)?(?P<own>\w+)[ \t]*=[ \t]*(?P<text>\"[^\"]*\"|'[^']*'|[\w./\\:-]+)[ \t]*"
)
_BETWEEN = {
    False: re.compile(r"((?:\"[^\"]*\"|\^.|>&|[^\"&^]|[\"^])*)(?:&&?|\Z)"),
    True: re.compile(r"((?:\"[^\"]*\"|'[^']*'|`.|[^\"';`]|[\"'`])*)(?:;|\Z)"),
}
"""A command of a line, in cmd and in PowerShell."""
_REDIRECTION = re.compile(r"[012*]?>>?(?:&[12]|[ \t]*[^ \t<>|&;()]+)")
_OF_POWERSHELLS_OWN = (
    (re.compile(r"\$\w+[ \t]*=.*"), "a value that only PowerShell works out"),
    (re.compile(r"@[({].*"), "a list of PowerShell"),
    (re.compile(r"@[A-Za-z_]\w*"), "a list of PowerShell in place of arguments"),
)
_STARTING = re.compile(
    r"(?i)@?(?:call[ \t]+|start[ \t]+(?:\"[^\"]*\"[ \t]+)?(?:/\w+[ \t]+)*|&[ \t]*)"
)
_VARIABLE = re.compile(r"%(?P<percent>[A-Za-z_]\w*)%|\$(?:env:)?(?P<dollar>[A-Za-z_]\w*)")
_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)|\"(?P<double>(?:\\\"|[^\"])*)\"|(?P<special>[<>|&();])"
    r"|(?P<text>[^ \t\"<>|&();]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    number: int
    text: str


class _Start(NamedTuple):
    """A command that may start the server."""

    words: list[str]
    environment: dict[str, str]
    beside: list[str]
    """Its redirections."""


def is_of_windows(text: str) -> bool:
    """Whether a text is for a shell of Windows."""
    if _OF_POSIX.search(text) is not None:
        return False
    return _CONTINUED.search(text) is not None or _SIGNS.search(text) is not None


def read_windows(text: str, *, script: Path | None, wanted: str | None) -> ServerCommand:
    """Read a command, or a batch file with one that starts llama-server.

    Args:
        text: typed, or out of a file.
        script: the file that it stands in; None for what is typed.
        wanted: the line on which the command starts, of several; None for the only one.

    Raises:
        BadInputError: it has none or several such commands, or a line that decides what is run.
    """
    origin = "" if script is None else f"{script}, "
    is_powershell = _OF_POWERSHELL.search(text) is not None
    variables = _Variables(is_powershell=is_powershell)
    found: dict[str, _Start] = {}
    for line in _lines(text, is_powershell=is_powershell):
        place = f"{origin}line {line.number}"
        if variables.take(line, place) or _ASIDE.match(line.text) is not None:
            continue
        if is_powershell:
            _check_value(line.text, place)
        start = _STARTING.match(line.text)
        rest = line.text if start is None else line.text[start.end() :]
        own = variables.expanded(rest, line, place)
        words, beside = _words(own, place, is_powershell=is_powershell)
        if not names_server(words[:1]) and not words[:1][0].startswith("-"):
            raise BadInputError(f"{place}: {words[0]!r} may change what is run; {INSTEAD}")
        found[str(line.number)] = _Start(words, dict(variables.exported), beside)
    one = _chosen(found, origin, wanted)
    left = tuple(map(left_out, filter(None, [" ".join(one.beside)])))
    return replace(command_of(one.words, one.environment), remarks=left)


class _Variables:
    """Variables that the lines set."""

    def __init__(self, *, is_powershell: bool) -> None:
        """Start without any."""
        self.exported: dict[str, str] = {}
        """Those that reach the server."""
        self._values: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._is_powershell = is_powershell
        self._bounded = Replacement()

    def take(self, line: _Line, place: str) -> bool:
        """Set the variable that a line sets; return whether it sets one.

        Raises:
            BadInputError: as ``expanded``.
        """
        assigned = _SET.fullmatch(line.text)
        if assigned is None:
            return False
        name = (assigned["name"] or assigned["own"]).upper()
        value = assigned["value"] or (assigned["text"] or "").strip("\"'")
        self._values[name] = self.expanded(value, line, place)
        self._lines[name] = line.number
        if (assigned["name"] or assigned["env"]) and name.startswith(OF_LLAMA):
            self.exported[name] = self._values[name]
        return True

    def expanded(self, text: str, line: _Line, place: str) -> str:
        """The text with the values of its variables.

        Raises:
            BadInputError: one is not set by a line, or by the same one.
        """

        def value(match: re.Match[str]) -> str:
            name = (match["percent"] or match["dollar"]).upper()
            if name not in self._values:
                raise BadInputError(
                    f"{place}: {match[0]} is not set in it, and spectui takes nothing from its own "
                    "environment; write its value there"
                )
            if not self._is_powershell and self._lines[name] == line.number:
                raise BadInputError(
                    f"{place}: {match[0]} is set on the same line, where cmd still takes what it "
                    "was before; set it on a line before"
                )
            return self._bounded.of(self._values[name])

        return _VARIABLE.sub(value, text)


def _lines(text: str, *, is_powershell: bool) -> Iterator[_Line]:
    """Yield the commands of the lines, joined where they go on, without prompts."""
    number = 1
    for part in re.split(r"\r?\n", _CONTINUED.sub("\0 ", text)):
        begun = _PROMPT.match(part.strip())
        own = part.strip() if begun is None else part.strip()[begun.end() :]
        joined = own.replace("\0", "")
        for command in _BETWEEN[is_powershell].findall(joined) if joined.strip() else ():
            if command.strip():
                yield _Line(number=number, text=command.strip())
        number += 1 + part.count("\0")


def _words(text: str, place: str, *, is_powershell: bool) -> tuple[list[str], list[str]]:
    """Words of a line, and its redirections; a backslash is a part of a word."""
    if is_powershell:
        # It alone knows these quotes.
        text = re.sub(r"'([^'\"]*)'", r'"\1"', text)
    words, beside, is_open, at = list[str](), list[str](), False, 0
    while at < len(text):
        redirection = None if is_open else _REDIRECTION.match(text, at)
        if redirection is not None:
            beside.append(redirection[0])
            at = redirection.end()
            continue
        if is_powershell and not is_open:
            _check_value(text[at:], place)
        token = _TOKEN.match(text, at)
        if token is None or token["special"]:
            raise BadInputError(f"{place}: {_special(text, at)}")
        at = token.end()
        if token["blank"]:
            is_open = False
            continue
        part = token["text"]
        part = (
            token["double"].replace('\\"', '"')
            if part is None
            else _plain(part, is_powershell=is_powershell)
        )
        words = [*words[:-1], words[-1] + part] if is_open else [*words, part]
        is_open = True
    return words, beside


def _special(text: str, at: int) -> str:
    """What a sign between words is, and what to do."""
    placeholder = PLACEHOLDER.match(text, at)
    if placeholder is not None:
        return f"{placeholder[0]!r} is a placeholder; put there what it stands for"
    if text[at] == "|":
        return f"{shown(text[at:])} is a pipe; {INSTEAD}"
    return (
        f"{text[at]!r} is a sign that means something to a shell of Windows; put the word in quotes"
    )


def _check_value(text: str, place: str) -> None:
    """Refuse what PowerShell works out, at the beginning of a command or of a word.

    Raises:
        BadInputError: it begins with that.
    """
    for pattern, what in _OF_POWERSHELLS_OWN:
        found = pattern.match(text)
        if found is not None:
            raise BadInputError(f"{place}: {shown(found[0])} is {what}; {INSTEAD}")


def _plain(text: str, *, is_powershell: bool) -> str:
    """Text outside quotes, without the sign that takes the meaning of the next one away."""
    return re.sub(r"`(.)" if is_powershell else r"\^(.)", r"\1", text)


def _chosen(found: Mapping[str, _Start], origin: str, wanted: str | None) -> _Start:
    lines = ", ".join(found)
    if not found:
        raise BadInputError("none of its lines starts llama-server; give the command that does")
    if wanted is not None and wanted not in found:
        raise BadInputError(
            f"{origin}no command that starts llama-server begins on line {wanted}; such lines are "
            f"{lines}"
        )
    if wanted is None and len(found) > 1:
        which = f"as FILE:LINE, with {lines}" if origin else "without the others"
        raise SeveralError(
            list(found) if origin else [],
            f"{origin}{len(found)} commands may start llama-server, on the lines {lines}; give the "
            f"one that is meant {which}",
        )
    return found[next(iter(found)) if wanted is None else wanted]
