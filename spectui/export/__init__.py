"""Hands over what was found: flags that the user's own llama-server accepts."""

from spectui.export.command import server_arguments, server_command
from spectui.export.formats import ExportSetup, Format, render

__all__ = [
    "ExportSetup",
    "Format",
    "render",
    "server_arguments",
    "server_command",
]
