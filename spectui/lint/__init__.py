"""Examines a llama-server command: options that its reader refuses, ignores or misreads.

Rules look at the arguments alone, at no file and no machine. One file per family of rules.
"""

from spectui.export.rewriting.items import Command
from spectui.export.rewriting.known import Known
from spectui.export.rewriting.reader import Reader
from spectui.lint.checking import fixed, lint
from spectui.lint.finding import Finding

__all__ = ["Command", "Finding", "Known", "Reader", "fixed", "lint"]
