"""Reads a model's command out of a file of llama-swap."""

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, LLAMA_SWAP, Entry, ServerCommand
from spectui.commands.items import Item
from spectui.commands.programs import names_server
from spectui.commands.sources.containers import plain_words
from spectui.commands.sources.files import Replacement, Tree, chosen
from spectui.commands.sources.shell import unwrapped
from spectui.commands.sources.source import IMAGES
from spectui.errors import BadInputError

_MACRO = re.compile(r"\$\{(env\.)?([A-Za-z0-9_-]+)\}")
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
    bounded = Replacement()
    words = plain_words(_text(_replaced(_uncommented(model["cmd"]), macros, bounded)))
    listed = model.get("env")
    variables = map(str, listed if isinstance(listed, list) else ())
    given = (ASSIGNMENT.fullmatch(_replaced(one, macros, bounded)) for one in variables)
    environment = {match[1]: match[2] for match in given if match is not None}
    command = unwrapped(words, {**environment, "PORT": _PORT})
    own = tuple(pair for pair in command.environment if pair != ("PORT", _PORT))
    listens = any(_PORT in item.words for item in command.items if item.variable is None)
    items = (item for item in command.items if not (listens and _is_port(item)))
    entry = replace(_entry(tree, name, command), given=("--port ${PORT}",) if listens else ())
    entries = (entry, *map(_on_its_port, command.entries))
    return replace(command, environment=own, items=tuple(items), entries=entries)


def _is_port(item: Item) -> bool:
    return item.variable is None and item.spelling == "--port"


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
        text = _uncommented(model["cmd"])
        with suppress(BadInputError):
            # What is wrong with its macros is told once it is chosen.
            text = _replaced(text, _macros(name, model, common), bounded, keeps_unknown=True)
        words = re.split(r"[\s'\"]+", _text(text))
        if names_server(words) or any(IMAGES.search(word) for word in words):
            yield name


def _macros(name: str, model: Tree, common: dict[str, str]) -> Mapping[str, str]:
    own = {**_named(model.get("macros")), "MODEL_ID": name, "PORT": _PORT}
    return ChainMap(own, common)


def _text(command: str) -> str:
    """The command on one line, without the comments of its macros (``SanitizeCommand``)."""
    lines = _uncommented(command).splitlines()
    return " ".join(line.rstrip().removesuffix("\\") for line in lines)


def _uncommented(text: str) -> str:
    """The text without lines that are comments (``StripComments``)."""
    return "\n".join(line for line in text.split("\n") if not line.strip().startswith("#"))


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
        found = None if match[1] else macros.get(match[2])
        if found is None and keeps_unknown:
            return match[0]
        if found is None:
            which = "llama-swap takes from its environment" if match[1] else "it does not define"
            raise BadInputError(
                f"the llama-swap file uses {match[0]}, which {which}; put there what it stands for"
            )
        return bounded.of(found)

    for _ in range(_DEEPEST):
        before, text = text, _MACRO.sub(value, text)
        if text == before:
            return text
    left = next((match[0] for match in _MACRO.finditer(text) if match[0] != _PORT), _PORT)
    raise BadInputError(
        f"the macros of the llama-swap file refer to each other without an end (at {left}); "
        "put there what they stand for"
    )
