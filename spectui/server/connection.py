"""Bounded HTTP requests, to a server that may be slow, broken, hostile or no llama-server at all.

For callers without an event loop, ``LoopThread`` runs one on its own thread.
"""

import asyncio
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from spectui.server.replies import ErrorReply, one_line

T = TypeVar("T")

_MOST_BYTES = 16_000_000
"""Limit of one reply: tokens, text and prompt of a million tokens, or any server's slots."""
_MOST_CONNECTIONS = 2
_KEPT_S = 3.0
"""An idle connection is kept shorter than llama-server keeps it, which is 5 s."""
_CONNECTED = "connection.connect_tcp.complete"
_JOIN_S = 1.0
"""Longest wait for a task at the end, which may hang in a driver or a sink."""


class ReplyError(Exception):
    """A request got no usable reply.

    Args:
        reason: one clause, which names what was asked for.
        why: the cause alone.
    """

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(reason)
        self.why = why


class UnreachableError(ReplyError):
    """There was no connection."""


class LateError(ReplyError):
    """The reply was not complete within its time."""


class BrokenError(ReplyError):
    """The connection broke before the reply was complete."""


class MalformedError(ReplyError):
    """The reply is not what llama-server sends."""


class RefusedError(ReplyError):
    """The server replied with a status that is none of success."""

    def __init__(self, path: str, status: int, said: str) -> None:
        words = f": {said}" if said else ""
        super().__init__(f"{path} was answered with status {status}{words}", said)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A complete reply with a status of success."""

    path: str
    content: bytes

    def decode(self, kind: type[T]) -> T:
        """Read JSON.

        Raises:
            MalformedError: it is none, or not what llama-server sends.
        """
        return self.read(lambda content: msgspec.json.decode(content, type=kind))

    def read(self, reader: Callable[[bytes], T]) -> T:
        """Read the content.

        Raises:
            MalformedError: it is not what llama-server sends.
        """
        try:
            return reader(self.content)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = one_line(str(error))
            raise MalformedError(
                f"{self.path} is not what llama-server answers: {why}", why
            ) from error


class Connection:
    """Requests pages, with replies that are bounded in time and size.

    The time counts from the first byte sent to the last received. No reply may be compressed: its
    unpacked size would not be known in advance.

    Args:
        url: address of the server, and its path if it has one.
        api_key: API key of the server, if it needs one.
        timeout_s: the longest that a reply may take, unless a request says otherwise.
        check_peer: called with its port at this end when a connection is made, before anything is
            sent through it. What it raises, the request raises.
        most_connections: requests that may be under way at once; further ones wait.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        timeout_s: float,
        check_peer: Callable[[int], None] | None = None,
        most_connections: int = _MOST_CONNECTIONS,
    ) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self._check_peer = check_peer
        headers = {"Accept-Encoding": "identity"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            # The whole request has a limit: a trickle of bytes moves every other one.
            timeout=None,  # noqa: S113
            limits=httpx.Limits(max_connections=most_connections, keepalive_expiry=_KEPT_S),
            # A configured proxy cannot reach this machine's loopback.
            trust_env=False,
            verify=ssl.create_default_context() if url.startswith("https:") else False,
        )

    async def close(self) -> None:
        """Close it. May be called again."""
        await self._http.aclose()

    async def ask(
        self,
        path: str,
        within_s: float | None = None,
        body: object = None,
        *,
        closes: bool = False,
    ) -> Page:
        """Send a request, and return the reply.

        Args:
            path: the requested path.
            within_s: limit for the reply; None for ``timeout_s``.
            body: sent as JSON with ``POST``; None for ``GET``.
            closes: whether no other request may use the same connection: llama-server closes it
                behind a streamed answer, and does not say so.

        Raises:
            BrokenError: there was a connection, and it broke.
            LateError: it took too long.
            MalformedError: it is too large, or compressed.
            RefusedError: any status but success.
            UnreachableError: there is no connection.
        """
        limit_s = self.timeout_s if within_s is None else within_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._read(path, body, closes=closes)
        except TimeoutError as error:
            why = f"within {round(limit_s, 2):g} s"
            raise LateError(f"{path} was not answered {why}", why) from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            why = _cause(error)
            raise BrokenError(f"the answer to {path} broke off ({why})", why) from error
        except httpx.HTTPError as error:
            why = _cause(error)
            raise UnreachableError(f"no connection to {self.url} ({why})", why) from error

    async def _read(self, path: str, body: object, *, closes: bool) -> Page:
        content = bytearray()
        async with self._http.stream(
            "GET" if body is None else "POST",
            path,
            json=body,
            headers={"Connection": "close"} if closes else {},
            extensions={} if self._check_peer is None else {"trace": self._trace},
        ) as response:
            encoding = response.headers.get("Content-Encoding", "")
            if encoding.lower() not in {"", "identity"}:
                why = f"compressed ({one_line(encoding)}), which was not asked for"
                raise MalformedError(f"{path} is {why}", f"it is {why}")
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > _MOST_BYTES:
                    why = f"more than {_MOST_BYTES // 1_000_000} MB"
                    raise MalformedError(f"{path} has {why}", f"it has {why}")
        if response.is_success:
            return Page(path=path, content=bytes(content))
        raise RefusedError(path, response.status_code, _server_words(response, bytes(content)))

    async def _trace(self, event: str, info: Mapping[str, object]) -> None:
        if event == _CONNECTED and self._check_peer is not None:
            stream: Any = info["return_value"]
            try:
                _host, port, *_ = stream.get_extra_info("client_addr")
                # On another thread: it reads every process, while other replies may arrive.
                await asyncio.to_thread(self._check_peer, port)
            except BaseException:
                await stream.aclose()
                raise


def _server_words(response: httpx.Response, content: bytes) -> str:
    """The server's own words, as far as there are any."""
    if response.next_request is not None:
        return f"it redirects to {one_line(str(response.next_request.url))}; give that address"
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return one_line(msgspec.json.decode(content, type=ErrorReply).message)
    return one_line(repr(content[:60].decode("utf-8", "replace"))) if content else ""


def _cause(error: BaseException) -> str:
    """The system's own message, from deep in the chain of causes."""
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


class LoopThread:
    """Runs tasks on a daemon thread, which starts with the first task.

    The caller's thread would not do: a signal may interrupt it anywhere, and an event loop survives
    that only between its steps.
    """

    def __init__(self, name: str) -> None:
        """Prepare a thread of that name."""
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, task: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin a task."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            run = self._loop.run_forever
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(task, self._loop)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel all tasks, wait for a ``last`` one, and end the thread. May be called again."""
        if self._loop is None or self._thread is None:
            return
        with suppress(TimeoutError):
            self.submit(_end_tasks(last)).result(_JOIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = None


async def _end_tasks(last: Callable[[], Awaitable[None]] | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for one in others:
        one.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if last is not None:
        await last()
