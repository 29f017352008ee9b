"""Hugging Face's hub: its files, their bytes from any offset on, and its failures.

The library's own download throws away what it has got when it is stopped, so files are streamed
here. Its listing reads answers of any size, so that is asked for here as well. Tokens and errors
are the library's; proxies, certificates and the token are the environment's.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Annotated

import httpx2
import msgspec
from huggingface_hub import constants, get_session, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    OIDCError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, validate_repo_id

from spectui import __version__
from spectui.errors import BadInputError
from spectui.format import bytes_text
from spectui.presets.content import stays_inside, takes
from spectui.presets.plan import HubFile

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
def _explained(repo: str) -> Iterator[None]:
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
        raise _lost(repo, reason, is_lasting=isinstance(error, _LASTING)) from error


def _lost(repo: str, reason: str, *, is_lasting: bool = False) -> ConnectionLostError:
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


_PROXIES = "ALL_PROXY, HTTPS_PROXY or HTTP_PROXY"


def _open_client() -> httpx2.Client:
    """Return huggingface_hub's client, which it shares.

    Raises:
        BadInputError: the environment names proxies or certificates that cannot be used.
    """
    try:
        return get_session()
    except ImportError as error:
        raise BadInputError(
            f"{_PROXIES} names a SOCKS proxy, for which a package is missing; run pip install "
            "socksio, or name an HTTP proxy"
        ) from error
    except OSError as error:
        raise BadInputError(
            "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read "
            f"({error.strerror or error}); correct or unset it"
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise BadInputError(
            f"{_PROXIES} names no proxy that can be used ({error}); correct or unset it"
        ) from error


def _make_headers() -> dict[str, str]:
    """Return the request's headers, with the token where there is one.

    Raises:
        BadInputError: no token can be had, or it is none.
    """
    try:
        headers = build_hf_headers(library_name="spectui", library_version=__version__)
    except OIDCError as error:
        raise BadInputError(
            "HF_OIDC_RESOURCE is set, and no token can be had for it here; set HF_OIDC_ID_TOKEN as "
            "well, or unset it"
        ) from error
    except (PermissionError, IsADirectoryError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"the token in {constants.HF_TOKEN_PATH} cannot be read; make it readable, or set "
            "HF_TOKEN"
        ) from error
    token = headers.get("authorization", "")
    if not (token.isascii() and token.isprintable()):
        raise BadInputError(
            "HF_TOKEN, or the token that was stored at login, has characters that no token has; "
            "copy it once more"
        )
    return headers


_MOST_REDIRECTS = 20


@contextmanager
def _opened(url: str, headers: dict[str, str], timeout_s: float) -> Iterator[httpx2.Response]:
    """Ask for ``url``, follow where that leads, and give the answer before its body is read.

    Bodies of redirects and of errors, which may be of any size, are not read at all.
    """
    client = _open_client()
    # What it would unpack to has no limit.
    headers = {**headers, "Accept-Encoding": "identity"}
    request = client.build_request("GET", url, headers=headers, timeout=timeout_s)
    for _ in range(1 + _MOST_REDIRECTS):
        with closing(client.send(request, stream=True, follow_redirects=False)) as response:
            if response.next_request is None:
                told = {
                    name: value
                    for name, value in response.headers.items()
                    if name.startswith("x-error-")
                }
                hf_raise_for_status(
                    httpx2.Response(response.status_code, headers=told, request=response.request)
                )
                yield response
                return
            request = response.next_request
    raise httpx2.TooManyRedirects(f"more than {_MOST_REDIRECTS} redirects", request=request)


_LISTING_SILENT_S = 60.0
_LISTING_LONGEST_S = 120.0
_LISTING_MOST_BYTES = 16_000_000
_LISTING_MOST_FILES = 50_000
_SHOWN_NAMES = 12


class _Stored(msgspec.Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _Listed(msgspec.Struct, frozen=True):
    rfilename: str
    size: Annotated[int, msgspec.Meta(ge=0)] | None = None
    lfs: _Stored | None = None


class _Listing(msgspec.Struct, frozen=True):
    """The used part of what the hub tells of a repository."""

    sha: str
    siblings: Annotated[tuple[_Listed, ...], msgspec.Meta(max_length=_LISTING_MOST_FILES)]


def find_files(repo: str, globs: Sequence[str]) -> tuple[HubFile, ...]:
    """Return the files of ``repo`` that match, at its newest commit.

    Args:
        repo: ``owner/name``.
        globs: patterns as in a preset, each for at least one file.

    Raises:
        BadInputError: the hub cannot be asked or refuses, nothing matches, or what matches has a
            name or a description that no model has.
    """
    listing = _ask(repo)
    models = [file for file in listing.siblings if file.rfilename.endswith(".gguf")]
    found: dict[str, HubFile] = {}
    for glob in globs:
        matching = [file for file in models if takes(glob, file.rfilename)]
        if not matching:
            raise BadInputError(_no_match(repo, glob, models))
        found.update((file.rfilename, _described(repo, listing.sha, file)) for file in matching)
    return tuple(file for _name, file in sorted(found.items()))


def _ask(repo: str) -> _Listing:
    with _explained(repo):
        try:
            validate_repo_id(repo)
        except HFValidationError as error:
            raise BadInputError(
                f"{repo} is no name that a repository can have; correct the preset"
            ) from error
        url = f"{constants.ENDPOINT}/api/models/{repo}?blobs=true"
        with _opened(url, _make_headers(), _LISTING_SILENT_S) as response:
            content = _read_listing(repo, response)
        try:
            return msgspec.json.decode(content, type=_Listing)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(
                f"{constants.ENDPOINT} does not answer as Hugging Face's hub does; check "
                "HF_ENDPOINT and the network"
            ) from error


def _read_listing(repo: str, response: httpx2.Response) -> bytes:
    """Read the whole answer, within its limits of bytes and seconds."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _lost(repo, "its listing was sent compressed", is_lasting=True)
    began_s = time.monotonic()
    content = bytearray()
    for chunk in response.iter_raw(_CHUNK_BYTES):
        content += chunk
        if len(content) > _LISTING_MOST_BYTES:
            most = bytes_text(_LISTING_MOST_BYTES)
            raise _lost(repo, f"its listing is longer than {most}", is_lasting=True)
        if time.monotonic() - began_s > _LISTING_LONGEST_S:
            longest = f"{_LISTING_LONGEST_S:.0f} s"
            raise _lost(repo, f"its listing took longer than {longest}", is_lasting=True)
    return bytes(content)


def _described(repo: str, commit: str, file: _Listed) -> HubFile:
    name = file.rfilename
    if not (stays_inside(name) and name.isprintable()):
        raise BadInputError(
            f"{repo} has a file called {name!r}, which would not stay in the preset's folder; "
            "nothing was fetched, give the preset another repository"
        )
    if len(os.fsencode(name)) > _LONGEST_PATH:
        raise BadInputError(
            f"{repo} has a file whose name and folders have more than {_LONGEST_PATH} bytes "
            f"({name[:40]}...); give the preset another repository"
        )
    if max(map(len, map(os.fsencode, name.split("/")))) > _LONGEST_NAME:
        raise BadInputError(
            f"{repo} has a file whose name has more than {_LONGEST_NAME} bytes ({name[:40]}...); "
            "give the preset another repository"
        )
    if file.size is None or file.lfs is None:
        raise BadInputError(
            f"{repo} does not say the size and the SHA-256 of {name}, so it could not be checked; "
            "give the preset another repository"
        )
    return HubFile(
        repo=repo,
        commit=commit,
        name=name,
        size_bytes=file.size,
        sha256=file.lfs.sha256,
    )


def _no_match(repo: str, glob: str, models: Sequence[_Listed]) -> str:
    names = sorted(file.rfilename for file in models if file.rfilename.isprintable())
    shown = ", ".join(names[:_SHOWN_NAMES]) or "no .gguf file at all"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"no file of {repo} matches {glob}: it has {shown}{more}; correct the preset"


PIECE_BYTES = 8 << 30
"""Asked for at a time: some caches refuse ranges of tens of gigabytes, and open ones."""
_LONGEST_NAME = 200
"""Most bytes of a name, so that there is room for the marks of an unfinished one."""
_LONGEST_PATH = 1000
"""Most bytes of a name with its folders, which stand below others."""
_CHUNK_BYTES = 1 << 16
"""Most bytes that are lost when the connection ends."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


def read_from(file: HubFile, offset: int) -> Iterator[bytes]:
    """Yield bytes of a file from ``offset`` on: a piece of it, or all that are left.

    Raises:
        ConnectionLostError: they stopped before the end of the piece, are none of this file, or the
            hub is too busy.
        BadInputError: the hub refuses.
    """
    last = min(offset + PIECE_BYTES, file.size_bytes) - 1
    headers = _make_headers() | {"Range": f"bytes={offset}-{last}"}
    url = hf_hub_url(file.repo, file.name, revision=file.commit)
    timeout_s = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with _explained(file.repo), _opened(url, headers, timeout_s) as response:
        sent = _sent(file, offset, response)
        at = sent.start
        # As it is sent: what it would unpack to has no limit.
        for chunk in response.iter_raw(_CHUNK_BYTES):
            yield chunk[max(0, offset - at) :]
            at += len(chunk)
            if at >= sent.stop:
                return
        raise _lost(file.repo, f"{file.name} ended after {at} bytes")


def _sent(file: HubFile, offset: int, response: httpx2.Response) -> range:
    """Return which bytes of the file the answer says that it holds."""
    headers, size_bytes = response.headers, file.size_bytes
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _lost(file.repo, f"{file.name} was sent compressed", is_lasting=True)
    # Who does not know ranges sends all of it.
    is_all = response.status_code == HTTPStatus.OK
    if is_all and headers.get("Content-Length") == str(size_bytes):
        return range(size_bytes)
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if response.status_code == HTTPStatus.PARTIAL_CONTENT and found is not None:
        first, last, total = map(int, found.groups())
        if first == offset <= last < total == size_bytes:
            return range(first, last + 1)
        if total != size_bytes:
            told = f"something else than {file.name} was sent: {total} bytes, not {size_bytes}"
            raise _lost(file.repo, told, is_lasting=True)
    raise _lost(file.repo, f"something else than {file.name} was sent", is_lasting=True)
