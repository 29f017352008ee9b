"""What speculation does on this machine, in panels beside the chat."""

from spectui.tui.panels.column import Panels

__all__ = ["Panels"]
