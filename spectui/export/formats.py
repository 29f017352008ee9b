"""Renders one setup as a shell command, a file, or a list of arguments."""

import json
from collections.abc import Callable
from enum import StrEnum

import spectui
from spectui.errors import BadInputError
from spectui.export.containers import compose, llama_swap
from spectui.export.launch import Launch, Launchable, commented
from spectui.export.preset_file import preset_file, slug
from spectui.export.setup import ExportSetup
from spectui.export.variables import variables_file
from spectui.options.dialect import Dialect

__all__ = ["ExportSetup", "Format", "file_name", "render"]


class Format(StrEnum):
    """Format of the rendered flags."""

    LLAMA_SERVER = "llama-server"
    ARGS = "args"
    ENV = "env"
    INI = "ini"
    LLAMA_SWAP = "llama-swap"
    COMPOSE = "compose"
    JSON = "json"


def render(setup: Launchable, *, dialect: Dialect, format: Format) -> str:  # noqa: A002 - the option's name
    """The text of a file, ended by a newline.

    Raises:
        BadInputError: the dialect or the format has no words for what the setup says.
        ValueError: speculation is on without a draft.
    """
    launch = setup.launch(dialect)
    launch.check()
    return _RENDERERS[format](launch)


def file_name(setup: Launchable, format: Format) -> str:  # noqa: A002 - the option's name
    """A name for the file that holds the rendering."""
    return f"{slug(setup.name)}.{_SUFFIXES[format]}"


def _command(launch: Launch) -> str:
    """The command on one line for a POSIX shell, below the comments."""
    return f"{commented(launch.comments)}{launch.command}\n"


def _args(launch: Launch) -> str:
    """One argument per line and nothing else, for ``mapfile -t arguments < FILE``.

    Raises:
        BadInputError: an argument holds a line end.
    """
    for argument in launch.arguments:
        if "\n" in argument or "\r" in argument:
            raise BadInputError(
                f"{argument!r} holds a line end, and a file of arguments has one per line; choose "
                "another format"
            )
    return "".join(f"{argument}\n" for argument in launch.arguments)


def _json(launch: Launch) -> str:
    document: dict[str, object] = {
        "schema": "spectui.export/1",
        "spectui": spectui.__version__,
        "name": launch.name,
        "dialect": str(launch.dialect),
        **launch.document,
        "environment": dict(launch.environment),
        "program": list(launch.program),
        "arguments": list(launch.arguments),
        "command": launch.command,
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


_RENDERERS: dict[Format, Callable[[Launch], str]] = {
    Format.LLAMA_SERVER: _command,
    Format.ARGS: _args,
    Format.ENV: variables_file,
    Format.INI: preset_file,
    Format.LLAMA_SWAP: llama_swap,
    Format.COMPOSE: compose,
    Format.JSON: _json,
}

_SUFFIXES: dict[Format, str] = {
    Format.LLAMA_SERVER: "sh",
    Format.ARGS: "args",
    Format.ENV: "env",
    Format.INI: "ini",
    Format.LLAMA_SWAP: "llama-swap.yaml",
    Format.COMPOSE: "compose.yaml",
    Format.JSON: "json",
}
