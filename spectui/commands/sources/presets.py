"""Reads a model's options out of a file of llama-server's presets, as its router reads it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from spectui.commands.command import INI, Entry, ServerCommand
from spectui.commands.finding import Finding, Severity, Topic, error, warning
from spectui.commands.home import with_paths_read
from spectui.commands.items import divide, placed
from spectui.commands.server_options import (
    FALSE,
    PREFIX,
    TRUE,
    ServerOption,
    canonical,
    option_of_variable,
    server_option,
)
from spectui.commands.sources.files import chosen
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect

_HEADER = re.compile(r"\[[ \t]*([^\]]+?)[ \t]*\][ \t]*(?:[;#].*)?")
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=([^;#]*)([;#].*)?")
_REMARK = re.compile(r"[ \t]*(?:[;#].*)?")
_EVERY = "*"
"""Section whose options apply to every model."""
_UNNAMED = "default"
"""The router's name for keys before any section."""
_VERSION = "version"
_OF_THE_ROUTER = frozenset({_VERSION, "load-on-startup", "stop-timeout", "dedup-cache-models"})
_SERVED = frozenset({"--model", "--model-url", "--hf-repo", "--docker-repo"})
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
_TWO_VALUES = 2
_PLACING = ("--cpu-moe", "--n-cpu-ffn", "--n-cpu-moe", "--override-tensor")
"""Options of which the first that matches a tensor applies, in the router's order: that of their
first spellings (``common_preset::options`` is a map)."""


class _Key(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: str
    line: int
    cut: str = ""
    """Text that a comment sign cuts off right behind the value."""


class Presets(msgspec.Struct, kw_only=True):
    """The sections of a file, each with its keys in the file's order."""

    sections: dict[str, list[_Key]] = msgspec.field(default_factory=dict)
    again: dict[str, int] = msgspec.field(default_factory=dict)
    """Lines at which sections begin anew, which drops what they had."""

    @property
    def names(self) -> list[str]:
        """Names of the models; of the section for every model where there is no other."""
        named = [name for name in self.sections if name != _EVERY]
        return named or list(self.sections)


def read_presets(text: str, path: Path) -> Presets | None:
    """The presets in a text; None if it is no such file.

    Raises:
        BadInputError: the file is named as one, and has a line that the router does not read.
    """
    found, entries = Presets(), list[_Key]()
    has_header, has_key = False, False
    lines = re.split(r"\r\n|\n|\r", text.removeprefix("\N{BYTE ORDER MARK}"))
    for number, line in enumerate(lines, 1):
        header, entry = _HEADER.fullmatch(line), _ENTRY.fullmatch(line)
        if header is not None:
            name, has_header = header[1], True
            if name in found.sections:
                found.again[name] = number
            entries = found.sections[name] = []
        elif entry is not None:
            if not has_header and not entries:
                found.sections[_UNNAMED] = entries
            # No shell assigns so.
            has_key = has_key or "-" in entry[1] or line[len(entry[1])] != "="
            value = entry[2].strip(" \t")
            cut = entry[3] or "" if value and entry[2].endswith(value) else ""
            entries.append(_Key(key=entry[1], value=value, line=number, cut=cut))
        elif _REMARK.fullmatch(line) is None:
            if path.suffix == ".ini":
                raise BadInputError(
                    f"{path}, line {number}: it is neither [SECTION], KEY = VALUE nor a remark, "
                    "and must not begin with blanks; llama-server refuses the whole file"
                )
            return None
    if len(found.sections) > 1 and all(
        one.key == _VERSION for one in found.sections.get(_UNNAMED, ())
    ):
        # The file's own version in front of the sections is no model.
        found.sections.pop(_UNNAMED, None)
    is_file = has_header or has_key or path.suffix == ".ini"
    return found if is_file and found.sections else None


def preset_command(presets: Presets, path: Path, wanted: str | None) -> ServerCommand:
    """A section's options as arguments, after those of all models.

    Raises:
        BadInputError: there is no such section, or several and none was named.
    """
    name = chosen(presets.names, wanted, path, "section", presets.sections)
    given: dict[str, _Key] = {}
    remarks: list[Finding] = []
    for section in dict.fromkeys((_EVERY, name)):
        remarks += _again(presets, section)
        own: dict[str, _Key] = {}
        # Among several keys of an option the router takes the last in the order of their names.
        for one in sorted(presets.sections.get(section, ()), key=lambda one: one.key.encode()):
            before = own.get(_option_name(one.key))
            if before is not None:
                remarks.append(_twice(before, one, section))
            own[_option_name(one.key)] = one
        given |= dict(sorted(own.items(), key=lambda pair: pair[1].line))
    remarks += (remark for one in given.values() for remark in _remarks(one))
    words = [word for one in given.values() for word in _words(one)]
    if _SERVED.isdisjoint(given) and _REPOSITORY.fullmatch(name):
        # The router knows what is in Hugging Face's cache by such names (``load_from_cache``).
        words = ["-hf", name, *words]
    kept = {one.key: one.value for one in given.values() if one.key in _OF_THE_ROUTER - {_VERSION}}
    entry = Entry(format=INI, name=None if name == _EVERY else name, settings=kept)
    items = map(with_paths_read, placed(divide(words), _PLACING))
    return replace(ServerCommand.of(items), entries=(entry,), remarks=tuple(remarks))


def _again(presets: Presets, section: str) -> Iterator[Finding]:
    line = presets.again.get(section)
    if line is not None:
        what = f"line {line} begins the section [{section}] again"
        yield warning(f"[{section}]", what, "the router forgets the keys that it had before")


def _twice(before: _Key, after: _Key, section: str) -> Finding:
    """Remark on two keys of one option, of which the second counts."""
    is_same = before.key == after.key
    does = "takes the last of them" if is_same else "goes by the order of the keys' names"
    return warning(
        before.key,
        f"{before.key} = {before.value} (line {before.line}) does not count in [{section}]",
        f"{after.key} = {after.value} (line {after.line}) is the same option, and the router "
        f"{does}",
        write=(),
    )


def _remarks(one: _Key) -> Iterator[Finding]:
    """Yield what the router says of a key that it does not know, and of a value that it cuts."""
    if one.cut:
        yield warning(
            one.key,
            f"{one.key} = {one.value}{one.cut} (line {one.line}) is read as {one.value}",
            f"a remark begins at {one.cut[0]}, wherever it stands, and no quotes change that",
            topic=Topic.MISREAD,
        )
    if one.key in _OF_THE_ROUTER or _is_key(one.key):
        option = _known(one.key)[1]
        if option is not None and option.counts.get(Dialect.LLAMA_CPP) == _TWO_VALUES:
            what = f"{one.key} (line {one.line}) takes two values"
            yield error(one.key, what, "the router has no way to pass two, and refuses the file")
        return
    flag, option = _known(one.key)
    likely = canonical(flag).lstrip("-")
    if option is not None and likely != one.key and _is_key(likely):
        yield Finding(
            flag=one.key,
            severity=Severity.ERROR,
            what=f"the router knows no key {one.key} (line {one.line})",
            why="it takes no _ for - in a file, and refuses all of it",
            replacement=f"{likely} = {one.value}",
        )
    elif option is not None and not list(_words(one)):
        # A switch that is off: no argument will say that it is gone.
        yield error(
            one.key,
            f"the router knows no key {one.key} (line {one.line})",
            "the option was removed, and the router refuses the whole file, whatever its value",
            write=(),
        )


def _is_key(key: str) -> bool:
    """Whether llama-server's router knows a key: a flag without its dashes, or a variable."""
    variable = option_of_variable(key)
    if variable is not None:
        return Dialect.LLAMA_CPP in variable.variables.get(key, ())
    flags = (f"--{key}", f"-{key}")
    found = (server_option(flag) for flag in flags)
    taken = [one.taken.get(Dialect.LLAMA_CPP, frozenset()) for one in found if one is not None]
    return any(flag in names for names in taken for flag in flags)


def _option_name(key: str) -> str:
    _flag, option = _known(key)
    return key if option is None else option.long_flag


def _words(one: _Key) -> Iterator[str]:
    if one.key in _OF_THE_ROUTER:
        return
    flag, option = _known(one.key)
    # llama-server refuses the file for a key without an option; a newer one knows what it is.
    if option is not None and option.counts.get(Dialect.LLAMA_CPP) == _TWO_VALUES:
        first, _, second = one.value.partition(" ")
        yield from (flag, first, second)
    elif option is None or _takes_value(option):
        yield from (flag, one.value)
    elif not option.negations:
        yield from () if one.value in FALSE else (flag,)
    else:
        # Whatever is not a word for the other is taken for on, or off behind a negation.
        is_on = one.value not in (TRUE if flag in option.negations else FALSE)
        yield option.long_flag if is_on else option.negation or option.negations[0]


def _takes_value(option: ServerOption) -> bool:
    counts = option.counts
    return bool(counts.get(Dialect.LLAMA_CPP, max(counts.values(), default=0)))


def _known(key: str) -> tuple[str, ServerOption | None]:
    """The flag of a key, which is a flag without its dashes, or a variable."""
    option = option_of_variable(key) if key.startswith(PREFIX) else None
    if option is not None:
        negated = key not in option.variables
        return (option.negations[0] if negated else option.long_flag), option
    flags = [f"--{key}", f"-{key}"] if len(key) > 1 else [f"-{key}"]
    known = next((flag for flag in flags if server_option(flag) is not None), flags[0])
    return canonical(known), server_option(known)
