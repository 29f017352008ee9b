"""A real llama-server: start it, send it requests, and leave no process behind."""

from spectui.server.client import ChatMessage, Completion, LlamaClient
from spectui.server.process import LlamaServer

__all__ = ["ChatMessage", "Completion", "LlamaClient", "LlamaServer"]
