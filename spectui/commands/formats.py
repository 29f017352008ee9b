"""Renders one launch as a shell command, or as a file of llama-server's presets."""

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum

from spectui.commands.arguments import puts_elsewhere
from spectui.commands.home import places_at_home
from spectui.commands.items import Item, words_of
from spectui.commands.launch import Launch, commented, slug
from spectui.commands.reader import Reader
from spectui.commands.server_options import canonical
from spectui.errors import BadInputError
from spectui.options.option import Dialect

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECTION = re.compile(r"[^\]\s]([^\]]*[^\]\s])?")
_PRESET_FLAG = "--models-preset"
_ROUTER_OPTIONS = re.compile(r"--(host|port|api-key(-file)?|ssl-(key|cert)-file|models-.+)")
"""Options that the router takes out of a section (``unset_reserved_args``), or sets itself."""
_PLACING = ("override-tensor", "cpu-moe", "n-cpu-moe", "n-cpu-ffn")
"""Options of which the first that matches a tensor applies."""
_LISTS = ("override-tensor", "override-tensor-draft")
"""Options whose values, between commas, mean the same as the option given several times."""
_CUTS = re.compile(r"[;#\r\n]|^[ \t]|[ \t]$")


class Format(StrEnum):
    """Format of the rendered flags."""

    LLAMA_SERVER = "llama-server"
    INI = "ini"


def render(launch: Launch, format_: Format) -> str:
    """The text of a file, ended by a newline: a command is one line for a POSIX shell.

    Raises:
        BadInputError: the format cannot express the launch, or a word is not valid UTF-8.
    """
    for word in (*launch.command.ahead, *launch.command.arguments):
        if word.encode("utf-8", "ignore").decode() != word:
            raise BadInputError(
                f"{word!r} is not valid UTF-8, which export files are; rename the file"
            )
    if format_ is Format.INI:
        return _preset(launch)
    return f"{commented(launch.comments)}{launch.command.text}\n"


def _unfit(why: str) -> BadInputError:
    """The error of a preset file that cannot hold a launch."""
    return BadInputError(f"{why}; choose another format")


def _check_placing(items: Sequence[Item]) -> None:
    """Refuse placements whose order matters: the router reads them in its own order.

    Raises:
        BadInputError: there are such placements.
    """
    placing = [item for item in items if item.name in _PLACING]
    moved = (item.value for item in placing if item.name == _PLACING[0])
    if len({item.name for item in placing}) > 1 and any(map(puts_elsewhere, moved)):
        flags = " and ".join(dict.fromkeys(item.flag for item in placing))
        first = f"the first of {flags} that matches a tensor counts"
        raise _unfit(f"{first}, and a models preset file would not keep their order")


def _preset(launch: Launch) -> str:
    """A models preset file with this one model in it.

    Raises:
        BadInputError: the dialect reads no such file, or it cannot hold a value.
    """
    reader, dialect = launch.reader, launch.reader.dialect
    if dialect is Dialect.IK:
        raise _unfit(f"{dialect} reads no models preset file")
    if reader.program is not None and _PRESET_FLAG not in reader.flags:
        raise _unfit(f"{reader.program} reads no models preset file")
    if places := places_at_home(launch.command):
        raise _unfit(f"{', '.join(places)}: only a shell replaces ~, and none reads such a file")
    items = launch.command.items
    own = [item for item in items if _ROUTER_OPTIONS.fullmatch(item.spelling)]
    kept = [item for item in items if item not in own]
    _check_placing(kept)
    lines = "".join(f"{key} = {value}\n" for key, value in _entries(kept, reader).items())
    # The name that clients use, if the syntax can hold it.
    known_as = launch.command.known_as or ""
    is_name = _SECTION.fullmatch(known_as) and known_as.isprintable()
    name = known_as if is_name else slug(launch.name)
    flags = " ".join(item.flag for item in own)
    left = [f"given to the router, which ignores them in a section: {flags}"] if own else []
    words = shlex.join(("FILE", *words_of(own)))
    start = f"start it with: {launch.command.start.text} {_PRESET_FLAG} {words}"
    comments = commented((*launch.comments, *left, start), ";")
    return f"{comments}version = 1\n\n[{name}]\n{lines}"


def _entries(items: Sequence[Item], reader: Reader) -> dict[str, str]:
    entries: dict[str, str] = {}
    names: set[str] = set()
    for item in items:
        key, name, value = _entry_key(item, reader), item.name, _entry_value(item)
        if name in names and name not in _LISTS:
            what = f"{item.flag} is given twice"
            raise _unfit(f"{what}, but a models preset file holds each option once")
        names.add(name)
        entries[key] = f"{entries[key]},{value}" if key in entries else value
    return entries


def _entry_key(item: Item, reader: Reader) -> str:
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


def _entry_value(item: Item) -> str:
    if len(item.values) > 1:
        what = f"{item.flag} has {len(item.values)} values"
        raise _unfit(f"{what}, but a models preset file holds one per option")
    value = item.values[0] if item.values else "true"
    if _CUTS.search(value):
        what = "a models preset file cannot hold ';', '#', line ends, or blanks at either end"
        raise _unfit(f"{item.flag} {value!r}: {what}")
    return value
