"""Requests to a server that may be slow, broken or no llama-server at all."""

import asyncio
import os
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import httpx
import msgspec

from spectui.server.attached.address import Address
from spectui.server.attached.sample import Failure, Trouble
from spectui.server.attached.words import one_line

T = TypeVar("T")

_MOST_BYTES = 16_000_000
_MOST_CONNECTIONS = 2
_KEPT_S = 3.0
"""An idle connection is kept shorter than llama-server keeps it, which is 5 s."""


class AttachError(Exception):
    """The server tells nothing at all."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class LateError(Exception):
    """An answer was not complete within its time."""


class BrokenError(Exception):
    """A connection broke before the answer was complete."""


class RefusedError(Exception):
    """The server answered a request, but not with what was asked for."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A complete answer."""

    path: str
    content: bytes
    headers: httpx.Headers

    def decode(self, kind: type[T]) -> T:
        """Read JSON.

        Raises:
            RefusedError: it is none, or not what llama-server answers.
        """
        try:
            return msgspec.json.decode(self.content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = f"{self.path} is not what llama-server answers: {one_line(str(error))}"
            raise RefusedError(reason, httpx.codes.OK) from error


class _Fault(msgspec.Struct):
    message: str = ""


class _ErrorReply(msgspec.Struct):
    error: _Fault | str = ""


class Connection:
    """Asks for pages, each within a time from the first byte sent to the last received.

    Args:
        address: of the server.
        api_key: that it wants, if any.
        model: that a router shall answer for. It is not loaded for that.
        timeout_s: the longest that one answer may take, and all of a round together.
    """

    def __init__(
        self, address: Address, *, api_key: str | None, model: str | None, timeout_s: float
    ) -> None:
        self.url = address.url
        self.model = model
        self.timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            base_url=address.url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=timeout_s,
            params=None if model is None else {"model": model, "autoload": "false"},
            limits=httpx.Limits(max_connections=_MOST_CONNECTIONS, keepalive_expiry=_KEPT_S),
            # A configured proxy cannot reach this machine's loopback.
            trust_env=False,
            verify=ssl.create_default_context() if address.scheme == "https" else False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def get(self, path: str, within_s: float) -> Page:
        """Return the answer.

        Args:
            path: what is asked for.
            within_s: how long the answer may take.

        Raises:
            AttachError: there is no connection, a key is missing, or the model is being loaded.
            BrokenError: there was a connection, and it broke.
            LateError: it took too long.
            RefusedError: any status but success.
        """
        try:
            # For the whole request: a trickle of bytes moves every other deadline.
            async with asyncio.timeout(within_s):
                return await self._read(path)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise LateError(f"{path} was not answered within {round(within_s, 2):g} s") from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.DecodingError) as error:
            raise BrokenError(f"the answer to {path} broke off ({_why(error)})") from error
        except httpx.HTTPError as error:
            reason = f"no connection to {self.url} ({_why(error)})"
            raise AttachError(Failure(trouble=Trouble.UNREACHABLE, reason=reason)) from error

    async def _read(self, path: str) -> Page:
        content = bytearray()
        async with self._http.stream("GET", path) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise RefusedError(
                        f"{path} has more than {_MOST_BYTES // 1_000_000} MB", response.status_code
                    )
        if response.is_success:
            return Page(path=path, content=bytes(content), headers=response.headers)
        raise self._refusal(path, response, bytes(content))

    def _refusal(self, path: str, response: httpx.Response, content: bytes) -> Exception:
        status, said = response.status_code, _said(content)
        if status == httpx.codes.UNAUTHORIZED:
            has_key = "Authorization" in self._http.headers
            return AttachError(
                Failure(
                    trouble=Trouble.LOCKED,
                    reason=f"{self.url} refuses the API key that it was given"
                    if has_key
                    else f"{self.url} wants an API key",
                )
            )
        if status == httpx.codes.SERVICE_UNAVAILABLE and "loading" in said.lower():
            return AttachError(
                Failure(trouble=Trouble.LOADING, reason=f"{self.url} is loading its model")
            )
        if response.is_redirect:
            target = one_line(_target(response))
            itself = "it redirects to itself"
            said = itself if target == self.url else f"it redirects to {target}; give that address"
        words = f": {said}" if said else ""
        return RefusedError(f"{path} was answered with status {status}{words}", status)


def _target(response: httpx.Response) -> str:
    """Where a redirect leads, as an address that ``attach`` takes."""
    location = response.headers.get("Location")
    if location is None:
        return "somewhere else"
    try:
        target = response.url.join(location).copy_with(query=None, fragment=None)
    except httpx.InvalidURL:
        return str(location)
    asked = response.request.url.path.rpartition("/")[2]
    return str(target).removesuffix(f"/{asked}")


def _said(content: bytes) -> str:
    """Return the server's own words, as far as there are any."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        error = msgspec.json.decode(content, type=_ErrorReply).error
        return one_line(error if isinstance(error, str) else error.message)
    return one_line(repr(content[:60].decode("utf-8", "replace"))) if content else ""


def _why(error: BaseException) -> str:
    """Return the system's own words, which stand deep below."""
    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {one_line(each.verify_message)}"
        if isinstance(each, ssl.SSLError):
            return one_line(f"no TLS: {each.reason or each}")
        if isinstance(each, OSError) and each.errno and each.strerror:
            # Asyncio's own words name the address once more; resolvers count below zero.
            return os.strerror(each.errno) if each.errno > 0 else one_line(each.strerror)
    return one_line(str(error)) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__
