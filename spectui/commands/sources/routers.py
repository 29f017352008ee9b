"""Reads a model's command out of a router's file: llama-swap's, or llama-server's presets."""

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, INI, LLAMA_SWAP, Entry, ServerCommand
from spectui.commands.items import Item, divide
from spectui.commands.server_options import (
    FALSE,
    TRUE,
    Arity,
    ServerOption,
    canonical,
    option_of_variable,
    server_option,
)
from spectui.commands.sources.containers import plain_words
from spectui.commands.sources.files import Replacement, Tree, chosen
from spectui.commands.sources.shell import unwrapped
from spectui.commands.sources.source import IMAGES, names_server
from spectui.errors import BadInputError

_MACRO = re.compile(r"\$\{(env\.)?([A-Za-z_][A-Za-z0-9_-]*)\}")
_PORT = "${PORT}"
_DEEPEST = 8
"""Deepest nesting of macros."""


def read_swap(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """A model's command, without the port, which llama-swap chooses.

    Raises:
        BadInputError: there is no such model, several and none was named, or a macro is unknown.
    """
    models = {
        str(name): model
        for name, model in tree["models"].items()
        if isinstance(model, dict) and isinstance(model.get("cmd"), str)
    }
    common = _named(tree.get("macros"))
    # Who names a model knows what it runs.
    name = chosen(_servers(models, common), wanted, path, "model", models)
    model = models[name]
    macros = _macros(name, model, common)
    words = plain_words(_replaced(_text(model["cmd"]), macros, Replacement()))
    listed = model.get("env")
    given = map(ASSIGNMENT.fullmatch, map(str, listed if isinstance(listed, list) else ()))
    environment = {match[1]: match[2] for match in given if match is not None}
    command = unwrapped(words, {**environment, "PORT": _PORT})
    own = tuple(pair for pair in command.environment if pair != ("PORT", _PORT))
    listens = any(_PORT in item.words for item in command.items if item.variable is None)
    items = (item for item in command.items if not (listens and _is_port(item)))
    entries = (_entry(tree, name, command), *map(_on_its_port, command.entries))
    return replace(command, environment=own, items=tuple(items), entries=entries)


def _is_port(item: Item) -> bool:
    return item.variable is None and canonical(item.flag) == "--port"


def _entry(tree: Tree, name: str, command: ServerCommand) -> Entry:
    """The model's settings for clients and llama-swap, without its command."""
    left = {"cmd", "env", *(("cmdStop",) if command.inside is not None else ())}
    model = tree["models"][name]
    settings = {key: value for key, value in model.items() if key not in left}
    uses_macros = any("${" in str(value) for key, value in settings.items() if key != "macros")
    around = {"macros": tree["macros"]} if uses_macros and tree.get("macros") else {}
    has_stop = command.inside is not None and "cmdStop" in model
    notes = ("left out, since it stops the container: cmdStop",) if has_stop else ()
    return Entry(format=LLAMA_SWAP, name=name, settings=settings, around=around, notes=notes)


def _on_its_port(entry: Entry) -> Entry:
    """The entry with its container published on its inner port, as llama-swap chooses none."""
    listed = entry.settings.get("ports")
    if not isinstance(listed, list):
        return entry
    ports = [str(port).replace(_PORT, str(port).rpartition(":")[2]) for port in listed]
    return replace(entry, settings={**entry.settings, "ports": ports})


def _servers(models: Tree, common: dict[str, str]) -> Iterator[str]:
    """Names of the models whose command starts llama-server, as far as its macros are known."""
    bounded = Replacement()
    for name, model in models.items():
        text = _text(model["cmd"])
        with suppress(BadInputError):
            # What is wrong with its macros is told once it is chosen.
            text = _replaced(text, _macros(name, model, common), bounded, keeps_unknown=True)
        words = re.split(r"[\s'\"]+", text)
        if names_server(words) or any(IMAGES.search(word) for word in words):
            yield name


def _macros(name: str, model: Tree, common: dict[str, str]) -> Mapping[str, str]:
    own = {**_named(model.get("macros")), "MODEL_ID": name, "PORT": _PORT}
    return ChainMap(own, common)


def _text(command: str) -> str:
    """The command on one line, without comments."""
    lines = (line for line in command.splitlines() if not line.strip().startswith("#"))
    return " ".join(line.rstrip().removesuffix("\\") for line in lines)


def _named(macros: object) -> dict[str, str]:
    if isinstance(macros, dict):
        return {str(name): str(value) for name, value in macros.items()}
    if isinstance(macros, list):
        return {n: v for item in macros if isinstance(item, dict) for n, v in _named(item).items()}
    return {}


def _replaced(
    text: str, macros: Mapping[str, str], bounded: Replacement, *, keeps_unknown: bool = False
) -> str:
    """Expand all macros but the port's, whose value is unknown before the model runs.

    Raises:
        BadInputError: they have no end, stand for too much, or one is unknown and not to be kept.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[2]) if match[1] else macros.get(match[2])
        if found is None and keeps_unknown:
            return match[0]
        if found is None:
            raise BadInputError(
                f"the llama-swap file uses {match[0]}, which it does not define; put there what "
                f"it stands for"
            )
        return bounded.of(found.replace("\n", " "))

    for _ in range(_DEEPEST):
        before, text = text, _MACRO.sub(value, text)
        if text == before:
            return text
    left = next((match[0] for match in _MACRO.finditer(text) if match[0] != _PORT), _PORT)
    raise BadInputError(
        f"the macros of the llama-swap file refer to each other without an end (at {left}); "
        "put there what they stand for"
    )


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
