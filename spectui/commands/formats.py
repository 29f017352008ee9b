"""Renders one launch as a shell command, a file, or a list of arguments."""

import json
import re
import shlex
import string
from collections.abc import Callable, Iterator
from enum import StrEnum

from spectui.commands.arguments import puts_elsewhere
from spectui.commands.command import INI
from spectui.commands.container_formats import compose, llama_swap
from spectui.commands.home import shell_word
from spectui.commands.items import PLACING, Item
from spectui.commands.launch import Launch, commented, slug
from spectui.commands.reader import Reader
from spectui.commands.server_options import NEGATION, PREFIX, canonical
from spectui.documents import head
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.options.dialect import Dialect

_OTHERS = {"--api-key": "LLAMA_API_KEY", "-hft": "HF_TOKEN", "--hf-token": "HF_TOKEN"}
"""Variables with names unlike those of their options."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECTION = re.compile(r"[^\]\s]([^\]]*[^\]\s])?")
_TAG = re.compile(r"[-.]([A-Za-z0-9_]+)$")
_CAPITALS = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_READS_IT = "--models-preset"
_CUTS = re.compile(r"[;#\r\n]|^[ \t]|[ \t]$")


class Format(StrEnum):
    """Format of the rendered flags."""

    LLAMA_SERVER = "llama-server"
    ARGS = "args"
    ENV = "env"
    INI = "ini"
    LLAMA_SWAP = "llama-swap"
    COMPOSE = "compose"
    JSON = "json"


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


def _unfit(why: str, or_else: str = "") -> BadInputError:
    """The error of a format that cannot hold a launch."""
    return BadInputError(f"{why}; choose another format{or_else}")


def _command(launch: Launch) -> str:
    """The command on one line for a POSIX shell, below the comments."""
    return f"{commented(launch.comments)}{launch.text}\n"


def _args(launch: Launch) -> str:
    """One argument per line and nothing else, for ``mapfile -t arguments < FILE``.

    Raises:
        BadInputError: an argument holds a line end.
    """
    for argument in launch.arguments:
        if "\n" in argument or "\r" in argument:
            raise _unfit(f"{argument!r} holds a line end, and a file of arguments has one per line")
    return "".join(f"{argument}\n" for argument in launch.arguments)


def _json(launch: Launch) -> str:
    document: dict[str, object] = {
        **head("export"),
        "name": launch.name,
        "dialect": str(launch.reader.dialect),
        **launch.document,
        "environment": dict(launch.start.environment),
        "program": list(launch.start.program),
        "arguments": list(launch.arguments),
        "command": launch.text,
    }
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    # A terminal obeys more than JSON has to escape.
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
    )


def _variables(launch: Launch) -> str:
    """Assignments for a POSIX shell, or for systemd's ``EnvironmentFile=``.

    Raises:
        BadInputError: the dialect reads no variables, or has none for an argument.
    """
    reader = launch.reader
    if reader.dialect is Dialect.IK:
        raise _unfit(f"{reader.dialect} reads no environment variables about drafting")
    _check_placing(launch, "variables", is_in_order=True)
    assigned = {name: shell_word(value) for name, value in launch.start.environment}
    missing: list[str] = []
    for item in launch.command.items:
        name = _variable(item, reader)
        if name is None or len(item.values) > 1:
            missing.append(item.flag)
        elif name in assigned:
            raise _unfit(
                f"{name} would be given twice, but the environment holds each variable once"
            )
        else:
            quote = shell_word if item.is_path else shlex.quote
            assigned[name] = quote(item.values[0]) if item.values else "1"
    if missing:
        flags = dict.fromkeys(missing)
        program = reader.dialect if reader.accepted is None else reader.accepted.program
        have = f"{printable(', '.join(flags))} {'has' if len(flags) == 1 else 'have'}"
        raise _unfit(f"{have} no environment variable in {program}")
    start = f"set -a; . ./FILE; set +a; {' '.join(map(shell_word, launch.start.program))}"
    lines = (f"{name}={value}\n" for name, value in assigned.items())
    return commented((*launch.comments, start)) + "".join(lines)


def _variable(item: Item, reader: Reader) -> str | None:
    """The variable that the reader reads an option from; None if there is none."""
    server = item.server
    if item.spelling in _OTHERS or server is None:
        return _OTHERS.get(item.spelling)
    is_off = item.spelling in server.negations
    names = (name.replace(PREFIX, NEGATION, 1) if is_off else name for name in server.variables)
    return next(filter(reader.reads, names), None)


def _check_placing(launch: Launch, where: str, *, is_in_order: bool) -> None:
    """Refuse placements whose order matters but would be lost.

    Args:
        launch: launch to export.
        where: format that would lose the order.
        is_in_order: whether options are read there in the order of llama-server's table.

    Raises:
        BadInputError: there are such placements.
    """
    servers = ((item, item.server) for item in launch.command.items)
    placing = [(one, own.long_flag) for one, own in servers if own and own.long_flag in PLACING]
    names = [name for _item, name in placing]
    is_kept = is_in_order and names == sorted(names, key=PLACING.index)
    moved = (item.value for item, name in placing if name == PLACING[0])
    if len(set(names)) > 1 and not is_kept and any(map(puts_elsewhere, moved)):
        flags = " and ".join(dict.fromkeys(item.flag for item, _name in placing))
        first = f"the first of {flags} that matches a tensor counts"
        raise _unfit(f"{first}, and {where} would not keep their order")


def _preset(launch: Launch) -> str:
    """A models preset file with this one model in it.

    Raises:
        BadInputError: the dialect reads no such file, or it cannot hold a value.
    """
    dialect, accepted = launch.reader.dialect, launch.reader.accepted
    if dialect is Dialect.IK:
        raise _unfit(f"{dialect} reads no models preset file", ", such as llama-swap")
    if accepted is not None and _READS_IT not in accepted.flags:
        raise _unfit(f"{accepted.program} reads no models preset file")
    own = launch.elsewhere("the router that reads the file")
    _check_placing(own, "a models preset file", is_in_order=False)
    entry = launch.command.entry(INI)
    entries = {**_entries(own), **({} if entry is None else entry.settings)}
    lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
    # The name that clients use, if the syntax can hold it.
    known_as = launch.command.known_as or ""
    is_name = _SECTION.fullmatch(known_as) and known_as.isprintable()
    name = known_as if is_name else slug(launch.name)
    start = (f"start it with: {launch.start.text} {_READS_IT} FILE", *_renamed(name))
    comments = commented((*own.comments, *start), ";")
    return f"{comments}version = 1\n\n[{name}]\n{lines}"


def _renamed(name: str) -> Iterator[str]:
    """Yield the name that the router gives to a section with a tag (``canonical_tag``)."""
    base, colon, tag = name.rpartition(":")
    suffix = _TAG.search(tag)
    # Letters beyond ASCII stay as they are there.
    called = (suffix[1] if suffix else tag).translate(_CAPITALS)
    if colon and called != tag:
        yield f"clients have to ask for {base}:{called}: the router writes tags so"


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
        raise _unfit(f"{item.flag} {value!r}: {what}", ", or rename the file")
    return value


_WRITERS: dict[Format, tuple[Callable[[Launch], str], str]] = {
    Format.LLAMA_SERVER: (_command, "sh"),
    Format.ARGS: (_args, "args"),
    Format.ENV: (_variables, "env"),
    Format.INI: (_preset, "ini"),
    Format.LLAMA_SWAP: (llama_swap, "llama-swap.yaml"),
    Format.COMPOSE: (compose, "compose.yaml"),
    Format.JSON: (_json, "json"),
}
"""What writes each format, and the end of its files' names."""
