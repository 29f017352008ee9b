"""Reads the ``[Service]`` of a systemd unit: ``ExecStart=`` and its environment.

The rules are those of systemd.service(5), systemd.exec(5) and systemd.syntax(7).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.home import HOME, own_path, path_of
from spectui.commands.programs import names_server
from spectui.commands.sources.files import Replacement, assignments, chosen, text_of_file
from spectui.commands.sources.shell import unwrapped
from spectui.commands.sources.source import below
from spectui.errors import BadInputError

_SECTION = re.compile(r"(?m)^[ \t]*\[Service\][ \t]*$")
_FIRST = re.compile(r"(?:[ \t]*(?:[#;][^\n]*)?\n)*[ \t]*\[")
"""Start of every unit: a section, after comments. A script may write one."""
_FOLDERS = tuple(
    Path(folder, "systemd/system")
    for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Folders where systemd looks for units, the first of which takes precedence."""
_PREFIXES = "@-:+!|"
_ESCAPES = dict(zip("abfnrtv\\\"'s", "\a\b\f\n\r\t\v\\\"' ", strict=True))
_TOKEN = re.compile(
    r"[ \t]|['\"]|\\(?:[abfnrtv\\\"'s]|x[0-9A-Fa-f]{2}|[0-7]{3}|u[0-9A-Fa-f]{4}|U000[0-9A-Fa-f]{5})"
    r"|\\|[^ \t'\"\\]+"
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONE_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_END = "\0"
"""Marks an unquoted semicolon between commands; no other word is this character alone."""
_SPECIFIER = re.compile(r"%(.)")


def is_unit(text: str) -> bool:
    """Whether the text is a service unit."""
    return _FIRST.match(text) is not None and _SECTION.search(text) is not None


@dataclass(slots=True)
class _Service:
    """Settings of a unit and its drop-ins that concern its command."""

    commands: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)
    folder: str | None = None

    def take(self, key: str, value: str, path: Path) -> None:
        """Apply one setting; an empty value resets those before it."""
        match key:
            case "ExecStart":
                self.commands = _added(self.commands, [value], value)
            case "Environment":
                found = map(ASSIGNMENT.fullmatch, _words(_specified(value, path)))
                self.environment = self.environment if value else {}
                self.environment.update((one[1], one[2]) for one in found if one is not None)
            case "EnvironmentFile":
                self.files = _added(self.files, [_specified(value, path)], value)
            case "UnsetEnvironment":
                self.unset = _added(self.unset, _words(_specified(value, path)), value)
            case "WorkingDirectory":
                self.folder = _specified(value.removeprefix("-"), path) or None

    def variables(self) -> dict[str, str]:
        """The environment; files override the unit's own variables.

        Raises:
            BadInputError: a file cannot be read.
        """
        found = {**self.environment}
        bounded = Replacement()
        for file in self.files:
            found |= assignments(bounded.of(_environment_file(file)))
        unset = set(self.unset)
        return {n: v for n, v in found.items() if unset.isdisjoint((n, f"{n}={v}"))}


def _added(held: list[str], more: list[str], value: str) -> list[str]:
    """The list with the value appended; empty for an empty value."""
    held.extend(more)
    return held if value else []


def read_unit(text: str, path: Path, wanted: str | None) -> ServerCommand:
    """Read the command of a unit, with the changes from its drop-in folder.

    Args:
        text: text of the unit.
        path: path of the unit.
        wanted: the number of one of several commands, from 1.

    Raises:
        BadInputError: it has none or several and none was named, quotes are not balanced, or it
            uses what only systemd knows.
    """
    service = _Service()
    for part in (text, *_drop_ins(path)):
        for key, value in _settings(part):
            service.take(key, value, path)
    numbers = {str(n): command for n, command in enumerate(service.commands, 1)}
    servers = [n for n, command in numbers.items() if wanted == n or _is_server(command)]
    command = numbers[chosen(servers or numbers, wanted, path, "ExecStart")]
    environment = service.variables()
    words = _command(_specified(command.lstrip(_PREFIXES), path), environment, command)
    found = unwrapped(words, environment)
    if service.folder is None:
        return found
    return below(found, service.folder if service.folder == "~" else path_of(service.folder))


def _is_server(command: str) -> bool:
    return names_server(re.split(r"[\s'\"]+", command.lstrip(_PREFIXES)))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield keys and values of ``[Service]``, with continued lines joined."""
    section, parts = "", list[str]()
    for raw in text.splitlines():
        line = raw.rstrip()
        if line.lstrip().startswith(("#", ";")):
            continue
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        whole, parts = " ".join(parts).strip(), []
        if whole.startswith("["):
            section = whole
        elif section == "[Service]" and "=" in whole:
            key, _, value = whole.partition("=")
            yield key.strip(), value.strip()


def _specified(value: str, path: Path) -> str:
    def replaced(match: re.Match[str]) -> str:
        known = {"%": "%", "h": HOME, "n": path.name, "N": path.stem}
        if match[1] not in known:
            raise BadInputError(
                f"{path} uses {match[0]}, which only systemd knows; put there what it stands for"
            )
        return known[match[1]]

    return _SPECIFIER.sub(replaced, value)


def _command(value: str, environment: Mapping[str, str], raw: str) -> list[str]:
    prefix = raw[: len(raw) - len(raw.lstrip(_PREFIXES))]
    words = _words(value)
    if "@" in prefix:
        # The second word is the name that the program sees.
        words = [*words[:1], *words[2:]]
    if _END in words:
        raise BadInputError("ExecStart holds several commands; give one that starts llama-server")
    if ":" in prefix:
        return words
    bounded = Replacement()

    def replaced(match: re.Match[str]) -> str:
        # systemd itself sets this one.
        return bounded.of(environment.get(match[1], HOME if match[1] == "HOME" else ""))

    substituted: list[str] = []
    for word in words:
        lone = _LONE_VARIABLE.fullmatch(word)
        if lone is not None:
            # Such a word alone is split at blanks.
            substituted += replaced(lone).split()
        else:
            parts = word.split("$$")
            substituted.append("$".join(_VARIABLE.sub(replaced, part) for part in parts))
    return substituted


def _words(value: str) -> list[str]:
    """Split at blanks outside quotes, with C's escapes everywhere.

    Raises:
        BadInputError: quotes are not balanced.
    """
    words: list[str] = []
    pieces: list[str] | None = None
    quote, start = "", 0
    for token in _TOKEN.finditer(f"{value} "):
        text = token[0]
        if not quote and text in " \t":
            if pieces is not None:
                words.append(_END if value[start : token.start()] == ";" else "".join(pieces))
            pieces, start = None, token.end()
            continue
        pieces = pieces or [""]
        if text == quote:
            quote = ""
        elif not quote and text in {"'", '"'}:
            quote = text
        else:
            pieces.append(_unescaped(text) if text.startswith("\\") else text)
    if quote:
        raise BadInputError("the unit cannot be read (no closing quotation); check its quotes")
    return words


def _unescaped(text: str) -> str:
    """The character of an escape; systemd keeps unknown escapes as they are."""
    if text[1:] in _ESCAPES:
        return _ESCAPES[text[1:]]
    digits = text[1:].lstrip("xuU")
    return chr(int(digits, 8 if digits == text[1:] else 16)) if digits else text


def _environment_file(value: str) -> str:
    """Text of an ``EnvironmentFile=``; a dash before it lets it be missing.

    Raises:
        BadInputError: it cannot be read.
    """
    path = Path(own_path(path_of(value.removeprefix("-"))))
    is_left_out = value.startswith("-") and not path.exists()
    return "" if is_left_out else text_of_file(path, f"EnvironmentFile {path}")


def _drop_ins(path: Path) -> Iterator[str]:
    """Yield the files that change a unit (systemd.unit(5)), in the order in which they count.

    They are beside the unit, or wherever systemd looks if the unit is in one of those folders.

    Raises:
        BadInputError: one cannot be read.
    """
    folders = _FOLDERS if path.absolute().parent in _FOLDERS else (path.parent,)
    template, at, _instance = path.stem.partition("@")
    parts = path.stem.split("-")
    stems = [
        *(path.stem, *([f"{template}@"] if at else [])),
        *(f"{'-'.join(parts[:n])}-" for n in range(len(parts) - 1, 0, -1)),
    ]
    names = [*(f"{stem}{path.suffix}.d" for stem in stems), f"{path.suffix.removeprefix('.')}.d"]
    found: dict[str, Path] = {}
    for folder in folders:
        for name in names:
            for file in (folder / name).glob("*.conf"):
                found.setdefault(file.name, file)
    for _name, file in sorted(found.items()):
        yield text_of_file(file, f"{file}, which changes {path.name},")
