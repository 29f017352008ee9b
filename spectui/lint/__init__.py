"""Examines a llama-server command: what its reader refuses, ignores, or understands differently.

Rules look at the arguments alone, at no file and no machine. One file per family of rules.
"""

from spectui.lint.checking import fixed, lint
from spectui.lint.command import Command
from spectui.lint.finding import Finding
from spectui.lint.reader import Reader

__all__ = ["Command", "Finding", "Reader", "fixed", "lint"]
