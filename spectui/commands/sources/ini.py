"""Reads a model of llama-server's models preset file (``--models-preset``).

The syntax is that of llama.cpp's ``common/preset.cpp``.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import INI, Entry, ServerCommand
from spectui.commands.items import divide
from spectui.commands.server_options import (
    FALSE,
    TRUE,
    Arity,
    ServerOption,
    canonical,
    option_of_variable,
    server_option,
)
from spectui.commands.sources.files import chosen

_HEADER = re.compile(r"\[([^\]]+)\][ \t]*(?:[;#].*)?")
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=([^;#]*)(?:[;#].*)?")
_REMARK = re.compile(r"[ \t]*(?:[;#].*)?")
_GLOBAL = "*"
"""Section whose options apply to every model."""
_VERSION = "version"
_OF_THE_ROUTER = frozenset({_VERSION, "load-on-startup", "stop-timeout", "dedup-cache-models"})

_SERVED = frozenset({"--model", "--model-url", "--hf-repo", "--docker-repo"})
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")

Sections = dict[str, dict[str, str]]


def ini_sections(text: str) -> Sections | None:
    """Sections with their entries; None if the text is no such file."""
    sections: Sections = {}
    entries: dict[str, str] = {}
    for line in re.split(r"\r\n|\n|\r", text.removeprefix("\N{BYTE ORDER MARK}")):
        header, entry = _HEADER.fullmatch(line), _ENTRY.fullmatch(line)
        if header is not None:
            entries = sections[header[1].strip(" \t")] = {}
        elif entry is not None:
            entries[entry[1]] = entry[2].strip(" \t")
        elif _REMARK.fullmatch(line) is None:
            return None
    return sections or None


def read_ini(sections: Sections, path: Path, wanted: str | None) -> ServerCommand:
    """A section's options as arguments, after those of all models.

    Raises:
        BadInputError: there is no such section, several and none was named, or an option
            lacks its value.
    """
    name = chosen((n for n in sections if n != _GLOBAL), wanted, path, "section")
    given: dict[str, tuple[str, str]] = {}
    for key, value in (*sections.get(_GLOBAL, {}).items(), *sections[name].items()):
        # Whatever it is called, an option counts once, and the section's own wins.
        given[_option_name(key)] = (key, value)
    words = [word for key, value in given.values() for word in _words(key, value)]
    if _SERVED.isdisjoint(given) and _REPOSITORY.fullmatch(name):
        # The router knows what is in Hugging Face's cache by such names (``load_from_cache``).
        words = ["-hf", name, *words]
    own = {key: value for key, value in given.values() if key in _OF_THE_ROUTER - {_VERSION}}
    entry = Entry(format=INI, name=name, settings=own)
    return replace(ServerCommand.of(divide(words)), entries=(entry,))


def _option_name(key: str) -> str:
    _flag, option = _known(key)
    return key if option is None else option.long_flag


def _words(key: str, value: str) -> Iterator[str]:
    if key in _OF_THE_ROUTER:
        return
    flag, option = _known(key)
    if option is None:
        # llama-server would refuse the file; a newer one knows what it is.
        yield from (flag, value)
    elif option.arity_of(flag) is not Arity.NONE:
        yield from (flag, value)
    elif not option.negations:
        yield from () if value in FALSE else (flag,)
    else:
        is_on = (value in TRUE) != (flag in option.negations)
        off = option.negation or option.negations[0]
        yield option.long_flag if is_on else off


def _known(key: str) -> tuple[str, ServerOption | None]:
    """The flag of a key, which is a flag without its dashes, or a variable."""
    option = option_of_variable(key)
    if option is not None:
        negated = key != option.variable
        return (option.negations[0] if negated else option.long_flag), option
    flags = [f"--{key}", f"-{key}"] if len(key) > 1 else [f"-{key}"]
    known = next((flag for flag in flags if server_option(flag) is not None), flags[0])
    return canonical(known), server_option(known)
