"""A real llama-server: start it, send it requests, and leave no process behind."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectui.server.client import ChatMessage, Completion, LlamaClient
    from spectui.server.process import LlamaServer

__all__ = ["ChatMessage", "Completion", "LlamaClient", "LlamaServer"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as imported above
    """Import a name at its first use: who asks a program for its options needs no HTTP."""
    if name not in __all__:
        raise AttributeError(name)
    module = "process" if name == "LlamaServer" else "client"
    return getattr(import_module(f"spectui.server.{module}"), name)
