"""Reads a llama-server command for a shell of Windows: a batch file, or lines of PowerShell.

Simple lines are understood: continuations, quotes, ``set`` and ``$env:``, and commands that change
nothing for the server. All that decides or changes what is run is refused by its line. Backslashes
are parts of paths.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.programs import names_server
from spectui.commands.sources.files import Replacement, SeveralError
from spectui.commands.sources.source import OF_LLAMA, command_of
from spectui.errors import BadInputError

_CONTINUED = re.compile(r"[ \t]([\^`])[ \t]*\r?\n(?=[ \t]*[^ \t\r\n])")
_SIGNS = re.compile(
    r"(?im)^[ \t]*@?echo[ \t]+off\b|^[ \t]*(?:PS )?[A-Za-z]:\\[^\n>\"]*>|%[A-Za-z_]\w*%|\$env:"
    r"|(?:^|[ \t\"'=])(?:[A-Za-z]:\\|\.{1,2}\\)[^ \t\n]"
)
_OF_POWERSHELL = re.compile(r"[ \t]`[ \t]*\r?\n|\$env:|(?m:^[ \t]*(?:PS |&[ \t]))")
_OF_POSIX = re.compile(r"\\\r?\n|^#!")
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
_STARTING = re.compile(
    r"(?i)@?(?:call[ \t]+|start[ \t]+(?:\"[^\"]*\"[ \t]+)?(?:/\w+[ \t]+)*|&[ \t]*)"
)
_VARIABLE = re.compile(r"%(?P<percent>[A-Za-z_]\w*)%|\$(?:env:)?(?P<dollar>[A-Za-z_]\w*)")
_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)|\"(?P<double>(?:\\\"|[^\"])*)\"|(?P<special>[<>|&();])"
    r"|(?P<text>[^ \t\"<>|&();]+)"
)
_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    number: int
    text: str


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
    variables: dict[str, str] = {}
    exported: dict[str, str] = {}
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    bounded = Replacement()
    for line in _lines(text):
        place = f"{origin}line {line.number}"
        assigned = _SET.fullmatch(line.text)
        if assigned is not None:
            name = (assigned["name"] or assigned["own"]).upper()
            value = assigned["value"] or (assigned["text"] or "").strip("\"'")
            variables[name] = _expanded(value, variables, bounded, place)
            if (assigned["name"] or assigned["env"]) and name.startswith(OF_LLAMA):
                exported[name] = variables[name]
        elif _ASIDE.match(line.text) is None:
            start = _STARTING.match(line.text)
            rest = line.text if start is None else line.text[start.end() :]
            words = _words(
                _expanded(rest, variables, bounded, place), place, is_powershell=is_powershell
            )
            if not names_server(words[:1]) and not words[:1][0].startswith("-"):
                raise BadInputError(
                    f"{place}: {words[0]!r} may change what is run, and spectui does not interpret "
                    "that; give the line that starts llama-server alone"
                )
            found[str(line.number)] = (words, dict(exported))
    words, environment = _chosen(found, origin, wanted)
    return command_of(words, environment)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines that are not empty, joined where they go on, without prompts."""
    number = 1
    for part in re.split(r"\r?\n", _CONTINUED.sub("\0 ", text)):
        begun = _PROMPT.match(part.strip())
        own = part.strip() if begun is None else part.strip()[begun.end() :]
        joined = own.replace("\0", "")
        if joined.strip():
            yield _Line(number=number, text=joined.strip())
        number += 1 + part.count("\0")


def _expanded(text: str, variables: Mapping[str, str], bounded: Replacement, place: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match["percent"] or match["dollar"]
        if name.upper() not in variables:
            raise BadInputError(
                f"{place}: {match[0]} is not set in it; put there what it stands for"
            )
        return bounded.of(variables[name.upper()])

    return _VARIABLE.sub(value, text)


def _words(text: str, place: str, *, is_powershell: bool) -> list[str]:
    """Words of a line; a backslash is a part of a word."""
    if is_powershell:
        # It alone knows these quotes.
        text = re.sub(r"'([^'\"]*)'", r'"\1"', text)
    words, is_open, at = list[str](), False, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token["special"]:
            placeholder = _PLACEHOLDER.match(text, at)
            shown, what = (text[at], "a sign that means something to a shell of Windows")
            if placeholder is not None:
                shown, what = placeholder[0], "a placeholder"
            raise BadInputError(
                f"{place}: {shown!r} is {what}; "
                f"{'put there what it stands for' if placeholder else 'put the word in quotes'}"
            )
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
    return words


def _plain(text: str, *, is_powershell: bool) -> str:
    """Text outside quotes, without the sign that takes the meaning of the next one away."""
    return re.sub(r"`(.)" if is_powershell else r"\^(.)", r"\1", text)


def _chosen(
    found: Mapping[str, tuple[list[str], dict[str, str]]], origin: str, wanted: str | None
) -> tuple[list[str], dict[str, str]]:
    lines = ", ".join(found)
    if not found:
        raise BadInputError("none of its lines starts llama-server; give the command that does")
    if wanted is not None and wanted not in found:
        raise BadInputError(
            f"{origin}no command that starts llama-server begins on line {wanted}; such lines are "
            f"{lines}"
        )
    if wanted is None and len(found) > 1:
        how = f"FILE:LINE, with {lines}" if origin else "alone"
        raise SeveralError(
            list(found) if origin else [],
            f"{origin}{len(found)} commands may start llama-server, on the lines {lines}; give the "
            f"one that is meant as {how}",
        )
    return found[next(iter(found)) if wanted is None else wanted]
