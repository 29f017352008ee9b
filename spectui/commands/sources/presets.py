"""Reads a model's options out of a file of llama-server's presets, as its router reads it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, error, warning
from spectui.commands.home import HOME, is_at_home, with_paths_read
from spectui.commands.items import divide
from spectui.commands.server_options import (
    FALSE,
    NEGATION,
    TRUE,
    ServerOption,
    canonical,
    flags_of,
    option_of_variable,
    server_option,
)
from spectui.commands.sources.files import chosen
from spectui.errors import BadInputError
from spectui.options.option import Dialect

_HEADER = re.compile(r"\[[ \t]*([^\]]+?)[ \t]*\][ \t]*(?:[;#].*)?")
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=([^;#]*)(?:[;#].*)?")
_REMARK = re.compile(r"[ \t]*(?:[;#].*)?")
_EVERY = "*"
"""Section whose options apply to every model."""
_UNNAMED = "default"
"""The router's name for keys before any section."""
_VERSION = "version"
_ROUTER_KEYS = frozenset({_VERSION, "load-on-startup", "stop-timeout", "dedup-cache-models"})
_SERVED = frozenset({"-m", "-mu", "-hf", "-dr"})
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")

Section = dict[str, str]
"""Values by key."""


def read_presets(text: str, path: Path) -> Mapping[str, Section] | None:
    """The sections of a file; None if it is no file of presets.

    Raises:
        BadInputError: the file is named as one, and has a line that the router does not read.
    """
    sections: dict[str, Section] = {}
    entries: Section = {}
    has_header, has_key = False, path.suffix == ".ini"
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        header, entry = _HEADER.fullmatch(line), _ENTRY.fullmatch(line)
        if header is not None:
            has_header = True
            # A later section of the same name replaces the earlier one, as in the router.
            entries = sections[header[1]] = {}
        elif entry is not None:
            if not has_header and not entries:
                sections[_UNNAMED] = entries
            # No shell assigns so.
            has_key = has_key or "-" in entry[1] or line[len(entry[1])] != "="
            entries[entry[1]] = entry[2].strip(" \t")
        elif _REMARK.fullmatch(line) is None:
            if path.suffix == ".ini":
                raise BadInputError(
                    f"{path}, line {number}: it is neither [SECTION], KEY = VALUE nor a remark, "
                    "and must not begin with blanks; llama-server refuses the whole file"
                )
            return None
    if len(sections) > 1 and sections.get(_UNNAMED, {}).keys() <= {_VERSION}:
        # The file's own version in front of the sections is no model.
        sections.pop(_UNNAMED, None)
    return sections if has_header or (has_key and sections) else None


def preset_command(
    sections: Mapping[str, Section], path: Path, wanted: str | None
) -> ServerCommand:
    """A section's options as arguments, after those of all models.

    Raises:
        BadInputError: there is no such section, or several and none was named.
    """
    models = [name for name in sections if name != _EVERY]
    name = chosen(models or sections, wanted, path, "section")
    given: dict[str, tuple[str, str]] = {}
    for section in dict.fromkeys((_EVERY, name)):
        # Among several keys of an option the router takes the last in the order of their names.
        lines = sections.get(section, {})
        last = {_first_spelling(key): key for key in sorted(lines, key=str.encode)}
        given |= {_first_spelling(key): (key, lines[key]) for key in lines if key in last.values()}
    if _SERVED.isdisjoint(given) and _REPOSITORY.fullmatch(name):
        # The router knows what is in Hugging Face's cache by such names (``load_from_cache``).
        given["-hf"] = ("hf", name)
    # It passes options in the order of their first spellings (``common_preset::options``).
    options = [one for _, one in sorted(given.items()) if one[0] not in _ROUTER_KEYS]
    items = divide([word for one in options for word in _arguments(*one)])
    return replace(
        ServerCommand.of(map(with_paths_read, items)),
        known_as=None if name == _EVERY else name,
        is_section=True,
        beside=tuple(key for key, _value in given.values() if key in _ROUTER_KEYS - {_VERSION}),
        remarks=tuple(remark for one in options for remark in _remarks(*one)),
    )


def _key_option(key: str) -> ServerOption | None:
    """The option of a key, which is a flag without its dashes, or a variable."""
    return option_of_variable(key) or server_option(_flag(key))


def _first_spelling(key: str) -> str:
    option = _key_option(key)
    return key if option is None else option.flags[0]


def _flag(key: str) -> str:
    """The key as an argument."""
    variable = option_of_variable(key)
    if variable is not None:
        # The router takes the value of a NO form as that of the plain one.
        return variable.long_flag
    flags = [f"--{key}", f"-{key}"] if len(key) > 1 else [f"-{key}"]
    return canonical(next((flag for flag in flags if server_option(flag) is not None), flags[0]))


def _arguments(key: str, value: str) -> tuple[str, ...]:
    """The arguments that the router makes of a line."""
    option, flag = _key_option(key), _flag(key)
    counts = {} if option is None else option.counts
    # llama-server refuses the file for a key without an option; a newer one may know it.
    if option is None or counts.get(Dialect.LLAMA_CPP, max(counts.values(), default=0)):
        # No shell replaces it, which lint says.
        is_file = option is not None and option.is_file
        return (flag, f"{HOME}{value[1:]}" if is_file and is_at_home(value) else value)
    if not option.negations:
        return () if value in FALSE else (flag,)
    # Any value that is not a word for off counts as on; behind a negation it is the reverse.
    is_on = value not in (TRUE if flag in option.negations else FALSE)
    return (option.long_flag if is_on else option.negation or option.negations[0],)


def _remarks(key: str, value: str) -> Iterator[Finding]:
    """Yield a finding on a key that the router does not know, or reads otherwise than it looks."""
    likely, option = _flag(key).lstrip("-"), _key_option(key)
    if option is not None and key.startswith(NEGATION) and key not in option.variables:
        what = f"{key} = {value} is read as {likely} = {value}"
        why = "the router reverses the value of a key with no-, and not that of a variable's name"
        yield warning(key, what, why, is_misread=True)
    if option is None or _is_key(key):
        return
    what = f"the router knows no key {key}"
    if likely != key and _is_key(likely):
        yield Finding(
            flag=key,
            severity=Severity.ERROR,
            what=what,
            why="it takes no _ for - in a file, and refuses all of it",
            replacement=f"{likely} = {value}",
        )
    elif not _arguments(key, value):
        # A switch that is off becomes no argument, whose removal would be found.
        why = "the option was removed, and the router refuses the whole file, whatever its value"
        yield error(key, what, why, write=())


def _is_key(key: str) -> bool:
    """Whether llama-server's router knows a key: a flag without its dashes, or a variable."""
    variable = option_of_variable(key)
    if variable is not None:
        return Dialect.LLAMA_CPP in variable.read_by(key)
    return not flags_of(Dialect.LLAMA_CPP).isdisjoint((f"--{key}", f"-{key}"))
