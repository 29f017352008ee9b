"""What an existing command sets around its program, for what is measured in its place."""

import os
from collections.abc import Iterable

from spectui.export.sources.source import OF_LLAMA

_SECRETS = frozenset({"LLAMA_API_KEY", "HF_TOKEN"})
"""Of who may use the server or its models; nothing that is measured needs them."""


def adopt_environment(environment: Iterable[tuple[str, str]]) -> None:
    """Set what the engine, its libraries and the servers that are started read as well.

    It has to be done before llama.cpp is loaded, which reads it once.
    """
    for name, value in environment:
        if name.startswith(OF_LLAMA) and name not in _SECRETS:
            os.environ[name] = value
