"""llama-server's models preset file (``--models-preset``): a section per model.

The syntax is that of llama.cpp's ``common/preset.cpp``, which has no quotes and no escapes: what it
cannot hold is an error here, not a value cut short there.
"""

import re
import shlex

from spectui.errors import BadInputError
from spectui.export.accepted import Accepted
from spectui.export.entry import INI
from spectui.export.launch import Launch, commented, printable
from spectui.export.variables import check_placing
from spectui.export.words import Given, divide
from spectui.options.dialect import Dialect

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECTION = re.compile(r"[^\]\s]([^\]]*[^\]\s])?")
_READS_IT = "--models-preset"
_CUTS = re.compile(r"[;#\r\n]|^[ \t]|[ \t]$")


def preset_file(launch: Launch) -> str:
    """The file with this one model in it.

    Raises:
        BadInputError: the dialect reads no such file, or it cannot hold a value.
    """
    if launch.dialect is Dialect.IK:
        raise BadInputError(
            f"{launch.dialect} reads no models preset file; choose another format, such as "
            "llama-swap"
        )
    accepted = launch.accepted
    if accepted is not None and _READS_IT not in accepted.flags:
        raise BadInputError(
            f"{accepted.program} reads no models preset file; choose another format"
        )
    own = launch.elsewhere("the router that reads the file")
    check_placing(own, "a models preset file")
    entry = launch.entry(INI)
    entries = {**_entries(own), **({} if entry is None else entry.settings)}
    lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
    program = printable(f"{launch.assignments}{shlex.join(launch.program)}")
    start = (f"start it with: {program} {_READS_IT} FILE",)
    comments = commented((*own.comments, *start), ";")
    return f"{comments}version = 1\n\n[{_section(launch)}]\n{lines}"


def _section(launch: Launch) -> str:
    """The section's name: the one that clients use, if the syntax can hold it."""
    name = launch.known_as or ""
    return name if _SECTION.fullmatch(name) and name.isprintable() else slug(launch.name)


def _entries(launch: Launch) -> dict[str, str]:
    entries: dict[str, str] = {}
    names: set[str] = set()
    for given in divide(launch.arguments):
        key, name = _key(given, launch.accepted), given.name
        if name in names:
            raise BadInputError(
                f"{given.flag} is given twice, but a models preset file holds each option once; "
                f"choose another format"
            )
        names.add(name)
        entries[key] = _value(given)
    return entries


def slug(name: str) -> str:
    """The name in characters that every format accepts."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"


def _key(given: Given, accepted: Accepted | None) -> str:
    flag = given.flag
    if given.option is not None and not flag.startswith("--"):
        option = given.option
        flag = option.long_flag if accepted is None else accepted.long_flag_of(option)
    key = flag.lstrip("-")
    if not flag.startswith("-") or not _KEY.fullmatch(key):
        raise BadInputError(
            f"{given.flag!r} is no option that a models preset file can hold; choose another format"
        )
    return key


def _value(given: Given) -> str:
    if len(given.values) > 1:
        raise BadInputError(
            f"{given.flag} has {len(given.values)} values, but a models preset file holds one per "
            f"option; choose another format"
        )
    value = given.values[0] if given.values else "true"
    if _CUTS.search(value):
        raise BadInputError(
            f"{given.flag} {value!r}: a models preset file cannot hold ';', '#', line ends, or "
            f"blanks at either end; choose another format, or rename the file"
        )
    return value
