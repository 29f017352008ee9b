"""Renders one launch as a shell command, or as a file of a program that starts llama-server."""

import re
import shlex
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import yaml

from spectui.commands.arguments import puts_elsewhere
from spectui.commands.items import PLACING, Item
from spectui.commands.launch import Launch, commented, slug
from spectui.commands.reader import Reader
from spectui.commands.server_options import canonical
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECTION = re.compile(r"[^\]\s]([^\]]*[^\]\s])?")
_READS_IT = "--models-preset"
_CUTS = re.compile(r"[;#\r\n]|^[ \t]|[ \t]$")


class Format(StrEnum):
    """Format of the rendered flags."""

    LLAMA_SERVER = "llama-server"
    INI = "ini"
    LLAMA_SWAP = "llama-swap"


def render(launch: Launch, format_: Format) -> str:
    """The text of a file, ended by a newline.

    Raises:
        BadInputError: the format has no words for what the launch says.
    """
    launch.check()
    return _WRITERS[format_][0](launch)


def file_name(name: str, format_: Format) -> str:
    """A name for the file that holds the rendering of the model ``name``."""
    return f"{slug(name)}.{_WRITERS[format_][1]}"


def _unfit(why: str) -> BadInputError:
    """The error of a format that cannot hold a launch."""
    return BadInputError(f"{why}; choose another format")


def _command(launch: Launch) -> str:
    """The command on one line for a POSIX shell, below the comments."""
    return f"{commented(launch.comments)}{launch.text}\n"


def _check_placing(launch: Launch) -> None:
    """Refuse placements whose order matters: the router has one of its own.

    Raises:
        BadInputError: there are such placements.
    """
    servers = ((item, item.server) for item in launch.command.items)
    placing = [(one, own.long_flag) for one, own in servers if own and own.long_flag in PLACING]
    names = [name for _item, name in placing]
    moved = (item.value for item, name in placing if name == PLACING[0])
    if len(set(names)) > 1 and any(map(puts_elsewhere, moved)):
        flags = " and ".join(dict.fromkeys(item.flag for item, _name in placing))
        first = f"the first of {flags} that matches a tensor counts"
        raise _unfit(f"{first}, and a models preset file would not keep their order")


def _preset(launch: Launch) -> str:
    """A models preset file with this one model in it.

    Raises:
        BadInputError: the dialect reads no such file, or it cannot hold a value.
    """
    dialect, accepted = launch.reader.dialect, launch.reader.accepted
    if dialect is Dialect.IK:
        raise _unfit(f"{dialect} reads no models preset file")
    if accepted is not None and _READS_IT not in accepted.flags:
        raise _unfit(f"{accepted.program} reads no models preset file")
    own = launch.elsewhere("the router that reads the file")
    _check_placing(own)
    lines = "".join(f"{key} = {value}\n" for key, value in _entries(own).items())
    # The name that clients use, if the syntax can hold it.
    known_as = launch.command.known_as or ""
    is_name = _SECTION.fullmatch(known_as) and known_as.isprintable()
    name = known_as if is_name else slug(launch.name)
    start = f"start it with: {launch.start.text} {_READS_IT} FILE"
    comments = commented((*own.comments, start), ";")
    return f"{comments}version = 1\n\n[{name}]\n{lines}"


def _entries(launch: Launch) -> dict[str, str]:
    entries: dict[str, str] = {}
    names: set[str] = set()
    for item in launch.command.items:
        key, name = _key(item, launch.reader), item.name
        if name in names:
            what = f"{item.flag} is given twice"
            raise _unfit(f"{what}, but a models preset file holds each option once")
        names.add(name)
        entries[key] = _value(item)
    return entries


def _key(item: Item, reader: Reader) -> str:
    flag = item.flag
    if item.server is not None and not flag.startswith("--"):
        names = item.server.negations if flag in item.server.negations else item.server.flags
        long = (one for one in names if one.startswith("--"))
        flag = next(filter(reader.takes, long), flag)
    # A file's keys take no "_" for "-".
    key = canonical(flag).lstrip("-")
    if not flag.startswith("-") or not _KEY.fullmatch(key):
        raise _unfit(f"{item.flag!r} is no option that a models preset file can hold")
    return key


def _value(item: Item) -> str:
    if len(item.values) > 1:
        what = f"{item.flag} has {len(item.values)} values"
        raise _unfit(f"{what}, but a models preset file holds one per option")
    value = item.values[0] if item.values else "true"
    if _CUTS.search(value):
        what = "a models preset file cannot hold ';', '#', line ends, or blanks at either end"
        raise _unfit(f"{item.flag} {value!r}: {what}")
    return value


def _llama_swap(launch: Launch) -> str:
    """A model of llama-swap, which chooses the port itself.

    Raises:
        BadInputError: llama-swap would change a value.
    """
    own = launch.elsewhere("llama-swap")
    program, arguments = (
        shlex.join(map(_kept, words)) for words in (own.start.program, own.arguments)
    )
    model: dict[str, Any] = {"cmd": f"{program} --port ${{PORT}} {arguments}"}
    if own.start.environment:
        model["env"] = [f"{name}={_kept(value)}" for name, value in own.start.environment]
    content = {"models": {launch.command.known_as or slug(own.name): model}}
    # PyYAML writes some line ends bare, and then reads blanks.
    texts = (
        yaml.safe_dump(content, allow_unicode=is_plain, sort_keys=False, width=float("inf"))
        for is_plain in (True, False)
    )
    return commented(own.comments) + next(
        text for text in texts if text.replace("\n", "").isprintable()
    )


def _kept(text: str) -> str:
    """A part of a command that llama-swap leaves as it is.

    Raises:
        BadInputError: it replaces macros, and takes lines apart before it looks for quotes.
    """
    if "${" in text or "\n" in text:
        raise _unfit(f"{text!r}: llama-swap cannot hold a value with '${{' or a line end")
    return text


_WRITERS: dict[Format, tuple[Callable[[Launch], str], str]] = {
    Format.LLAMA_SERVER: (_command, "sh"),
    Format.INI: (_preset, "ini"),
    Format.LLAMA_SWAP: (_llama_swap, "llama-swap.yaml"),
}
"""What writes each format, and the end of its files' names."""
