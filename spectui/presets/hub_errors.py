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


class ConnectionLostError(BadInputError):
    """The hub cannot be reached, or stopped in the middle."""


@contextmanager
def explained(repo: str) -> Iterator[None]:
    """Turn what huggingface_hub raises inside into one sentence about ``repo``."""
    try:
        yield
    except (HfHubHTTPError, OfflineModeIsEnabled) as error:
        raise BadInputError(_refusal(error, repo)) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise lost(repo, str(error) or type(error).__name__) from error


def _refusal(error: HfHubHTTPError | OfflineModeIsEnabled, repo: str) -> str:
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
        case OfflineModeIsEnabled():
            return f"HF_HUB_OFFLINE is set, so {repo} cannot be fetched; unset it"
    status = f"{error.response.status_code} {error.response.reason_phrase}"
    if error.response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return (
            f"{where} may not be read ({status}): correct its name in the preset, or set HF_TOKEN "
            "to a token that may read it"
        )
    return (
        f"{where} cannot be read now ({status}); try the same command later, it goes on with what "
        "was fetched"
    )


def lost(repo: str, reason: str) -> ConnectionLostError:
    """Say that the hub could not be reached, or stopped, for ``reason``."""
    return ConnectionLostError(
        f"{constants.ENDPOINT} cannot be reached for {repo} ({reason.splitlines()[0]}); check the "
        "network and HF_ENDPOINT: what was fetched is kept, and the same command goes on"
    )
