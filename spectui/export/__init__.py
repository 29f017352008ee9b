"""Hands over what was found: flags that the user's own llama-server accepts."""

from spectui.export.command import server_arguments, server_command
from spectui.export.dialects import Dialect

__all__ = ["Dialect", "server_arguments", "server_command"]
