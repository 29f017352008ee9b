"""Errors that a user sees: one sentence that says what is wrong, where, and what to do.

Every class carries the exit code that the command line returns for it.
"""

from typing import ClassVar


class SpectuiError(Exception):
    """Base of every error that spectui raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(SpectuiError):
    """The command was used wrongly."""

    exit_code = 2


class BadInputError(SpectuiError):
    """A file, model pair, prompt or preset cannot be used as it is."""

    exit_code = 3


class DoesNotFitError(SpectuiError):
    """The request needs more memory than there is."""

    exit_code = 4


class ServerError(SpectuiError):
    """The real llama-server failed or could not be started."""

    exit_code = 5


class HopelessError(ServerError):
    """Failure that no setting avoids: nothing can be measured with this llama-server."""


class CancelledError(SpectuiError):
    """The user stopped the operation; what was measured so far is kept."""

    exit_code = 130
