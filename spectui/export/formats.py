"""Writes one setup in the formats that people start llama-server from."""

import json
import shlex
from collections.abc import Callable
from enum import StrEnum

import spectui
from spectui.config import SpeculationConfig
from spectui.errors import BadInputError
from spectui.export.containers import compose, llama_swap
from spectui.export.dialects import Dialect
from spectui.export.preset_file import preset_file, slug
from spectui.export.setup import OFF, ExportSetup, commented
from spectui.export.words import Given, divide

__all__ = ["ExportSetup", "Format", "file_name", "render"]


class Format(StrEnum):
    """Which file or line the flags are written to."""

    LLAMA_SERVER = "llama-server"
    ARGS = "args"
    ENV = "env"
    INI = "ini"
    LLAMA_SWAP = "llama-swap"
    COMPOSE = "compose"
    JSON = "json"


def render(setup: ExportSetup, *, dialect: Dialect, format: Format) -> str:  # noqa: A002 - the option's name
    """The text of a file, ended by a newline.

    Raises:
        BadInputError: the dialect or the format has no words for what the setup says.
        ValueError: speculation is on without a draft.
    """
    return _RENDERERS[format](setup, dialect)


def file_name(setup: ExportSetup, format: Format) -> str:  # noqa: A002 - the option's name
    """A name for the file that holds the rendering."""
    return f"{slug(setup.name)}.{_SUFFIXES[format]}"


def _command(setup: ExportSetup, dialect: Dialect) -> str:
    """One line for a POSIX shell, below the comments."""
    line = shlex.join([setup.program, *setup.arguments(dialect)])
    return f"{commented(setup.comments())}{line}\n"


def _args(setup: ExportSetup, dialect: Dialect) -> str:
    """One shell-quoted argument per line, as ``eval "arguments=($(cat FILE))"`` reads them."""
    lines = "\n".join(shlex.quote(argument) for argument in setup.arguments(dialect))
    return f"{commented(setup.comments())}{lines}\n"


def _env(setup: ExportSetup, dialect: Dialect) -> str:
    """Assignments for a POSIX shell. What has no variable is named in the line to start with."""
    if dialect is Dialect.IK:
        raise BadInputError(
            f"{dialect} reads no environment variables about drafting; choose another format"
        )
    own = setup.with_extra(()).arguments(dialect)
    lines, remaining = [], list[str]()
    for given in divide(own):
        assignment = _assignment(given, setup, dialect)
        if assignment is None:
            reader = dialect if setup.accepted is None else setup.accepted.program
            raise BadInputError(
                f"{given.flag} has no environment variable in {reader}; choose another format"
            )
        lines.append(assignment)
    for given in divide(setup.arguments(dialect)[len(own) :]):
        assignment = _assignment(given, setup, dialect)
        if assignment is None:
            remaining += given.words
        else:
            lines.append(assignment)
    start = f"set -a; . ./FILE; set +a; {shlex.join([setup.program, *remaining])}"
    if len(start.splitlines()) > 1:
        raise BadInputError(
            "the line to start with stands in a comment, which cannot hold the line end in one of "
            "your own arguments; choose another format"
        )
    return commented((*setup.comments(), start)) + "".join(lines)


def _assignment(given: Given, setup: ExportSetup, dialect: Dialect) -> str | None:
    option, accepted = given.option, setup.accepted
    if option is None:
        return None
    variable = option.variable_in(dialect) if accepted is None else accepted.variable_of(option)
    value = given.values[0] if given.values else "1"
    return f"{variable}={shlex.quote(value)}\n" if variable else None


def _json(setup: ExportSetup, dialect: Dialect) -> str:
    arguments = setup.arguments(dialect)
    target, draft = setup.pair()
    speculation = setup.speculation
    document: dict[str, object] = {
        "schema": "spectui.export/1",
        "spectui": spectui.__version__,
        "name": setup.name,
        "dialect": str(dialect),
        "target": str(target.path),
        "draft": None if draft is None else str(draft.path),
        "speculation": None if speculation is None else _speculation(speculation),
        "arguments": arguments,
        "command": shlex.join([setup.program, *arguments]),
    }
    if speculation is None:
        document |= {"draft_reason": OFF, "speculation_reason": OFF}
    elif not speculation.has_model:
        document["draft_reason"] = f"{speculation.kind} needs no draft model"
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _speculation(speculation: SpeculationConfig) -> dict[str, object]:
    *ahead, own = map(_drafter, speculation.chain)
    return {**own, "ahead": ahead} if ahead else own


def _drafter(speculation: SpeculationConfig) -> dict[str, object]:
    ngram = speculation.ngram
    if ngram is not None:
        return {"kind": speculation.kind, **ngram.options(speculation.draft_max)}
    return {
        "kind": speculation.kind,
        "draft_max": speculation.draft_max,
        "draft_min": speculation.draft_min,
        "draft_p_min": speculation.draft_p_min,
    }


_RENDERERS: dict[Format, Callable[[ExportSetup, Dialect], str]] = {
    Format.LLAMA_SERVER: _command,
    Format.ARGS: _args,
    Format.ENV: _env,
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
