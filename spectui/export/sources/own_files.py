"""Reads back what ``spectui export`` wrote as JSON, or as one argument per line."""

import json
import re
from pathlib import Path
from typing import Any, TypeGuard

from spectui.errors import BadInputError
from spectui.export.server_options import server_option
from spectui.export.sources.source import Source
from spectui.export.words import divide

_QUOTED = re.compile(r"'.*'|\".*\"")


def json_tree(text: str) -> dict[str, Any] | None:
    """The document; None for what is none."""
    try:
        tree = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def json_source(tree: dict[str, Any], path: Path) -> Source:
    """What a document of ``spectui export`` or ``spectui tune`` starts.

    Raises:
        BadInputError: it is another one.
    """
    arguments = tree.get("arguments", tree.get("flags"))
    program, environment = tree.get("program", ["llama-server"]), tree.get("environment", {})
    if not (_are_texts(arguments) and _are_texts(program) and isinstance(environment, dict)):
        raise BadInputError(
            f"{path} is JSON without a list of arguments; give what spectui export --format json "
            "wrote, or the command itself"
        )
    return Source(
        prelude=tuple(program),
        environment=tuple((str(name), str(value)) for name, value in environment.items()),
        words=tuple(arguments),
    )


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def arguments_source(text: str) -> Source | None:
    """Arguments of a file that holds one per line; None for any other file.

    A line of a shell script holds an option with its value, which is no option's name.
    """
    lines = text.removesuffix("\n").split("\n")
    if not lines[0].startswith("-") or any(map(_QUOTED.fullmatch, lines)):
        return None
    try:
        given = list(divide(lines))
    except BadInputError:
        return None
    are_options = all(server_option(one.flag) is not None for one in given)
    return Source(words=tuple(lines)) if are_options else None
