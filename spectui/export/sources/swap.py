"""Reads a model's command out of llama-swap's configuration."""

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.export.sources.choice import chosen
from spectui.export.sources.shell import unwrapped
from spectui.export.sources.shell_words import plain_words
from spectui.export.sources.source import ASSIGNMENT, IMAGES, Source, names_server
from spectui.export.words import without

_MACRO = re.compile(r"\$\{(env\.)?([A-Za-z_][A-Za-z0-9_-]*)\}")
_PORT = "${PORT}"
_LONGEST = 100_000
_DEEPEST = 8
"""Macros within macros."""


def swap_source(tree: Mapping[str, Any], path: Path, wanted: str | None) -> Source:
    """A model's command, without the port, which llama-swap chooses.

    Raises:
        BadInputError: there is no such model, several and none was named, or a macro is unknown.
    """
    models = {
        str(name): model
        for name, model in tree["models"].items()
        if isinstance(model, dict) and isinstance(model.get("cmd"), str)
    }
    servers = {n: m for n, m in models.items() if _is_server(_macros(tree, m))}
    name = chosen(models if wanted in models else servers, wanted, path, "model")
    model = models[name]
    macros = {**_named(tree.get("macros")), **_named(model.get("macros")), "MODEL_ID": name}
    lines = (line for line in model["cmd"].splitlines() if not line.strip().startswith("#"))
    text = " ".join(line.rstrip().removesuffix("\\") for line in lines)
    words = plain_words(_replaced(text, macros))
    listed = model.get("env")
    given = map(ASSIGNMENT.fullmatch, map(str, listed if isinstance(listed, list) else ()))
    environment = {match[1]: match[2] for match in given if match is not None}
    source = unwrapped(words, {**environment, "PORT": _PORT})
    own = tuple(pair for pair in source.environment if pair != ("PORT", _PORT))
    listens = _PORT in source.words
    kept = without(source.words, "--port") if listens else source.words
    return dataclasses.replace(source, environment=own, words=kept)


def _is_server(command: str) -> bool:
    words = re.split(r"[\s'\"]+", command)
    return names_server(words) or any(IMAGES.search(word) for word in words)


def _macros(tree: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """The command with its macros, as far as they are known."""
    macros = {**_named(tree.get("macros")), **_named(model.get("macros"))}
    return _MACRO.sub(lambda match: macros.get(match[2], match[0]), str(model["cmd"]))


def _named(macros: object) -> dict[str, str]:
    if isinstance(macros, dict):
        return {str(name): str(value) for name, value in macros.items()}
    if isinstance(macros, list):
        return {n: v for item in macros if isinstance(item, dict) for n, v in _named(item).items()}
    return {}


def _replaced(text: str, macros: Mapping[str, str]) -> str:
    """Text without macros but the port's, whose value nobody knows before the model runs."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[2]) if match[1] else {**macros, "PORT": _PORT}.get(match[2])
        if found is None:
            raise BadInputError(
                f"the llama-swap file uses {match[0]}, which it does not define; put there what "
                f"it stands for"
            )
        return found.replace("\n", " ")

    for _ in range(_DEEPEST):
        text = _MACRO.sub(value, text)
        if len(text) > _LONGEST:
            break
    else:
        left = next((m[0] for m in _MACRO.finditer(text) if m[0] != _PORT), None)
        if left is None:
            return text
        raise BadInputError(
            f"the macros of the llama-swap file refer to each other without an end (at {left}); "
            "put there what they stand for"
        )
    raise BadInputError(
        f"the macros of the llama-swap file stand for more than {_LONGEST} characters; give a "
        "file whose command is shorter"
    )
