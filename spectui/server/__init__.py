"""A real llama-server: launch it, talk to it, and leave no process behind."""

from spectui.server.client import ChatMessage, Completion, LlamaClient
from spectui.server.process import LlamaServer

__all__ = ["ChatMessage", "Completion", "LlamaClient", "LlamaServer"]
