"""Applies the environment of an existing command to what is measured in its place."""

import os
import shlex
from collections.abc import Iterable

from spectui.cli.output import complain
from spectui.commands.command import Start
from spectui.commands.sources.source import OF_LLAMA

_SECRETS = frozenset({"LLAMA_API_KEY", "HF_TOKEN"})
"""Credentials for the server or its models, which no measurement needs."""


def adopt(start: Start) -> tuple[str, ...]:
    """Set a command's variables, and report parts of its start that no measurement reproduces.

    Returns the names of the variables.
    """
    names = adopt_environment(start.environment)
    if start.wrappers:
        complain(f"measured without what starts the command: {shlex.join(start.wrappers)}")
    return names


def adopt_environment(environment: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Set what the engine, its libraries and the servers that are started read as well.

    It has to be done before llama.cpp is loaded, which reads it once. Returns the names.
    """
    read = {
        name: value
        for name, value in environment
        if name.startswith(OF_LLAMA) and name not in _SECRETS
    }
    os.environ.update(read)
    return tuple(read)
