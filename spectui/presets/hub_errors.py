"""Why the hub gave no answer, as a sentence that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from spectui.errors import BadInputError

_BUSY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}

_LASTING = (httpx2.InvalidURL, httpx2.TooManyRedirects)


class ConnectionLostError(BadInputError):
    """The hub cannot be reached now, is too busy, or stopped in the middle."""

    def __init__(self, sentence: str, *, reason: str, is_lasting: bool = False) -> None:
        super().__init__(sentence)
        self.reason = reason
        """In a few words, for who waits for it to come back."""
        self.is_lasting = is_lasting
        """Whether it will most likely be the same the next time."""


@contextmanager
def explained(repo: str) -> Iterator[None]:
    """Turn what huggingface_hub raises inside into one sentence about ``repo``."""
    try:
        yield
    except HfHubHTTPError as error:
        raise _refused(error, repo) from error
    except OfflineModeIsEnabled as error:
        raise BadInputError(
            f"HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so {repo} cannot be fetched; unset it"
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = str(error).strip() or type(error).__name__
        raise lost(repo, reason, is_lasting=isinstance(error, _LASTING)) from error


def lost(repo: str, reason: str, *, is_lasting: bool = False) -> ConnectionLostError:
    """Say that the hub could not be reached, or stopped, for ``reason``."""
    first_line = reason.splitlines()[0]
    trouble = "gives no usable answer" if is_lasting else "cannot be reached"
    return ConnectionLostError(
        f"{constants.ENDPOINT} {trouble} for {repo} ({first_line}); check the network and "
        "HF_ENDPOINT: what was fetched is kept, and the same command goes on",
        reason=first_line,
        is_lasting=is_lasting,
    )


def _refused(error: HfHubHTTPError, repo: str) -> BadInputError:
    code = error.response.status_code
    status = f"{code} {error.response.reason_phrase}"
    if code in _BUSY or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ConnectionLostError(_unreadable(repo, status), reason=status)
    return BadInputError(_refusal(error, repo, status))


def _refusal(error: HfHubHTTPError, repo: str, status: str) -> str:
    where = f"{constants.ENDPOINT}/{repo}"
    match error:
        case GatedRepoError():
            return (
                f"{repo} is open to those who have accepted its licence: accept it at {where}, "
                "set HF_TOKEN to a token of that account, and run the same command again"
            )
        case RepositoryNotFoundError():
            return (
                f"there is no repository {where}, or it is private: correct the name in the "
                "preset, or set HF_TOKEN to a token that may read it"
            )
    if error.response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return (
            f"{where} may not be read ({status}): correct its name in the preset, or set HF_TOKEN "
            "to a token that may read it"
        )
    return _unreadable(repo, status)


def _unreadable(repo: str, status: str) -> str:
    return (
        f"{constants.ENDPOINT}/{repo} cannot be read now ({status}); try the same command later, "
        "it goes on with what was fetched"
    )
