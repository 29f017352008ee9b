"""Errors that a user sees: one sentence that says what is wrong, where, and what to do.

Every class carries the exit code that the command line returns for it.
"""

from typing import ClassVar

_ALL_THE_SAME = "; --yes loads it all the same"


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


class ReadsFromDiskError(DoesNotFitError):
    """A model fits only by reading its weights from disk again and again.

    The user can consent to the load: with ``--yes``, or on the screen.
    """

    def __init__(self, reason: str) -> None:
        """Say ``reason``, and how to go on."""
        super().__init__(f"{reason}{_ALL_THE_SAME}")

    @property
    def reason(self) -> str:
        """The sentence without the option."""
        return str(self).removesuffix(_ALL_THE_SAME)


class MissingLibraryError(SpectuiError):
    """There is no llama.cpp library to run models with."""

    exit_code = 2


class ServerError(SpectuiError):
    """The real llama-server failed or could not be started."""

    exit_code = 5


class HubError(SpectuiError):
    """Hugging Face's hub cannot be reached, or failed."""

    exit_code = 5


class HopelessError(ServerError):
    """Failure that no setting avoids: nothing can be measured with this llama-server."""


class EngineDiedError(SpectuiError):
    """The process with the models has ended, or had to be ended. Another one takes its place."""

    log: tuple[str, ...] = ()
    """Last lines of llama.cpp's log; none in an error that another process sent."""

    def __init__(self, sentence: str, log: tuple[str, ...] = ()) -> None:
        """Say how it ended."""
        super().__init__(sentence)
        self.log = log


class EngineKilledError(EngineDiedError):
    """The engine's process was killed because memory had run out, as far as can be told."""

    exit_code = 4


class CancelledError(SpectuiError):
    """The user stopped the operation; what was measured so far is kept."""

    exit_code = 130
