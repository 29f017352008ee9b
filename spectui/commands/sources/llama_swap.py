"""Reads a model's command out of a file of llama-swap."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.items import Item
from spectui.commands.programs import names_server
from spectui.commands.sources.containers import plain_words, scalar, started
from spectui.commands.sources.files import Replacement, Tree, chosen
from spectui.commands.sources.source import LLAMA_CPP
from spectui.errors import BadInputError

_MACRO = re.compile(r"\$\{[A-Za-z0-9_.-]+\}")
_PORT = "${PORT}"
"""The port that llama-swap chooses when the model runs."""
_OWN_KEYS = frozenset({"cmd", "env", "macros"})
_DEEPEST = 8
"""Deepest nesting of macros."""


def read_swap(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """A model's command, without the port.

    Raises:
        BadInputError: there is no such model, several and none was named, or a macro is unknown.
    """
    models = {
        str(name): model
        for name, model in tree["models"].items()
        if isinstance(model, dict) and isinstance(model.get("cmd"), str)
    }
    macros = {name: _macros(tree, name, model) for name, model in models.items()}
    servers = (n for n, m in models.items() if n == wanted or _is_server(m["cmd"], macros[n]))
    name = chosen(servers, wanted, path, "model")
    model, own = models[name], macros[name]
    words = plain_words(_known(model["cmd"], own))
    listed = model.get("env")
    variables = map(str, listed if isinstance(listed, list) else ())
    given = (ASSIGNMENT.fullmatch(_known(one, own)) for one in variables)
    environment = {match[1]: match[2] for match in given if match is not None}
    command = started(words, {**environment, "PORT": _PORT})
    listens = any(_PORT in item.words for item in command.items if item.variable is None)
    others = (str(key) for key in model if key not in _OWN_KEYS)
    return replace(
        command,
        environment=tuple(pair for pair in command.environment if pair != ("PORT", _PORT)),
        items=tuple(item for item in command.items if not (listens and _is_port(item))),
        known_as=name,
        beside=tuple(others),
    )


def _is_port(item: Item) -> bool:
    return item.variable is None and item.spelling == "--port"


def _is_server(text: str, macros: Mapping[str, str]) -> bool:
    """Whether a command starts llama-server, as far as its macros are known."""
    with suppress(BadInputError):
        # What is wrong with its macros is said once it is chosen.
        text = _expanded(text, macros)
    words = re.split(r"[\s'\"]+", text)
    return names_server(words) or any(map(LLAMA_CPP.search, words))


def _macros(tree: Tree, name: str, model: Tree) -> dict[str, str]:
    """The values of macros, by what stands for them in a command."""
    own = {**_named(tree.get("macros")), **_named(model.get("macros")), "MODEL_ID": name}
    return {f"${{{macro}}}": value for macro, value in own.items()}


def _named(macros: object) -> dict[str, str]:
    found = macros if isinstance(macros, dict) else {}
    return {str(name): scalar(value) for name, value in found.items()}


def _known(text: str, macros: Mapping[str, str]) -> str:
    """A command on one line, its macros expanded.

    Raises:
        BadInputError: as ``_expanded``, or one is unknown.
    """
    text = _expanded(text, macros)
    for left in _MACRO.findall(text):
        if left != _PORT:
            raise BadInputError(
                f"the llama-swap file uses {left}, which it does not define, and spectui takes "
                "nothing from the environment; put there what it stands for"
            )
    return text


def _expanded(text: str, macros: Mapping[str, str]) -> str:
    """A command on one line, with all macros expanded that are known, and without comments.

    Raises:
        BadInputError: they have no end, or stand for too much.
    """
    bounded = Replacement()
    for _ in range(_DEEPEST):
        before = text
        lines = (line for line in text.splitlines() if not line.strip().startswith("#"))
        text = " ".join(line.rstrip().removesuffix("\\") for line in lines)
        text = _MACRO.sub(lambda match: bounded.of(macros.get(match[0], match[0])), text)
        if text == before:
            return text
    raise BadInputError(
        "the macros of the llama-swap file refer to each other without an end; put there what "
        "they stand for"
    )
