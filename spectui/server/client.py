"""A blocking client of llama-server's HTTP interface, for decoding prompts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import wait
from http import HTTPStatus
from itertools import cycle
from typing import Any, TypedDict, TypeVar

from spectui.closing import Closing
from spectui.documents import Json
from spectui.errors import ServerError
from spectui.options.setup import MOST_SLOTS
from spectui.server.connection import (
    BrokenError,
    Connection,
    LateError,
    LoopThread,
    MalformedError,
    Page,
    RefusedError,
    ReplyError,
    UnreachableError,
)
from spectui.server.replies import (
    STREAMED,
    Completion,
    HealthReply,
    Round,
    SlotsReply,
    TemplateReply,
    TokenizeReply,
    read_rounds,
)

R = TypeVar("R")
T = TypeVar("T")

_COMPLETION = "/completion"
_CHECK_S = 1.0
"""Seconds between two checks for an interrupt."""


class ChatMessage(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


class LlamaClient(Closing):
    """Talks to a llama-server that is already running.

    Args:
        base_url: address of the server.
        api_key: API key of the server, if it needs one.
        name: name in error messages.
        request_timeout_s: limit for one answer.
        check_peer: see ``Connection``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        name: str = "llama-server",
        request_timeout_s: float = 600.0,
        check_peer: Callable[[int], None] | None = None,
    ) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.name = name
        self._connection = Connection(
            base_url,
            api_key=api_key,
            timeout_s=request_timeout_s,
            check_peer=check_peer,
            # One for each stream, and one for requests on the server's state.
            most_connections=MOST_SLOTS + 1,
        )
        self._thread = LoopThread("spectui-client")

    def close(self) -> None:
        """End requests that were interrupted, and the connections. May be called again."""
        self._thread.close(self._connection.close)

    def is_ready(self, *, timeout_s: float) -> bool:
        """Return whether the server answers that its model is loaded.

        Raises:
            ServerError: it is no llama-server.
        """
        try:
            page = self._wait(self._connection.ask("/health", timeout_s))
            return page.decode(HealthReply).status == "ok"
        except (BrokenError, LateError, UnreachableError):
            return False
        except ReplyError as error:
            if isinstance(error, RefusedError) and error.status == HTTPStatus.SERVICE_UNAVAILABLE:
                return False  # still loading
            raise self._failure(f"GET {self.base_url}/health", error) from error

    def speculates(self) -> bool | None:
        """Return whether it was started with speculation; None where it does not report that.

        Raises:
            ServerError: it does not answer.
        """
        try:
            slots = self._wait(self._connection.ask("/slots")).decode(SlotsReply)
        except (MalformedError, RefusedError):
            # It has no such page with --no-slots.
            return None
        except ReplyError as error:
            raise self._failure(f"GET {self.base_url}/slots", error) from error
        return any(slot.speculates for slot in slots)

    def complete(
        self, prompt: str | Sequence[int], *, n_predict: int, **options: object
    ) -> Completion:
        """Generate up to ``n_predict`` tokens; arguments as ``completion_body``.

        Raises:
            ServerError: the server refused, failed or answered nonsense.
        """
        body = completion_body(prompt, n_predict=n_predict, **options)
        ((done, _took_s),) = self.complete_together([body], 1)
        return done

    def complete_together(
        self, wanted: Sequence[Json], n_streams: int
    ) -> list[tuple[Completion, float]]:
        """Complete several prompts with ``n_streams`` requests in flight, as ``keep_busy``.

        Args:
            wanted: ``completion_body`` of each prompt; copies of them keep streams busy.
            n_streams: number of requests in flight.

        Returns:
            The output of each, with the seconds from asking to the answer.

        Raises:
            ServerError: the server refused one, failed or answered nonsense.
        """

        async def ask(body: Json) -> Page:
            return await self._connection.ask(_COMPLETION, body=body, closes="stream" in body)

        # A server notices at once that nobody reads a stream any more; it would generate the whole
        # of any other answer, and slow down what is measured next.
        passing = [{**body, "stream": True} for body in wanted]
        try:
            pages = self._wait(keep_busy(ask, wanted, passing, n_streams))
            return [(page.decode(Completion), took_s) for page, took_s in pages]
        except ReplyError as error:
            raise self._failure(f"POST {self.base_url}{_COMPLETION}", error) from error

    def rounds(self, body: Json) -> tuple[Round, ...]:
        """Complete a prompt, and return the rounds that it took.

        Args:
            body: ``completion_body`` of the prompt.

        Raises:
            ServerError: the server refused, failed or reported no rounds.
        """
        asked = {**body, **STREAMED}
        return self._post(_COMPLETION, asked, lambda page: page.read(read_rounds), closes=True)

    def tokenize(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the target's token ids of ``text``, special tokens in it parsed as such."""
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self._post("/tokenize", body, lambda page: page.decode(TokenizeReply)).tokens

    def apply_template(self, messages: Sequence[ChatMessage]) -> str:
        """Return the raw prompt that the model's chat template makes of ``messages``."""
        body = {"messages": list(messages)}
        return self._post("/apply-template", body, lambda page: page.decode(TemplateReply)).prompt

    def _post(self, path: str, body: Json, read: Callable[[Page], T], *, closes: bool = False) -> T:
        try:
            return read(self._wait(self._connection.ask(path, body=body, closes=closes)))
        except ReplyError as error:
            raise self._failure(f"POST {self.base_url}{path}", error) from error

    def _wait(self, request: Coroutine[Any, Any, T]) -> T:
        """Return the result of a request; end it where it is interrupted."""
        future = self._thread.submit(request)
        try:
            # An interrupt that comes before the wait has begun is seen at the next check.
            while not wait([future], _CHECK_S).done:
                pass
            return future.result()
        finally:
            future.cancel()

    def _failure(self, asked: str, error: ReplyError) -> ServerError:
        """Return the error of a request that failed."""
        if isinstance(error, RefusedError):
            return ServerError(
                f"{self.name} answered {asked} with status {error.status}: {error.why}"
            )
        if isinstance(error, MalformedError):
            return ServerError(
                f"the answer of {self.name} to {asked} is not what spectui understands "
                f"({error.why}); use a recent llama-server"
            )
        where = f"no answer from {self.name} at {self.base_url}"
        if isinstance(error, LateError):
            return ServerError(f"{where} {error.why}; --timeout gives it longer")
        return ServerError(f"{where}: {error.why}")


def completion_body(prompt: str | Sequence[int], *, n_predict: int, **options: object) -> Json:
    """Body of ``POST /completion``.

    Args:
        prompt: raw text, or token ids that are fed as they stand.
        n_predict: most tokens to generate.
        options: further fields, such as ``top_k``, and others than these: ``temperature`` 0, which
            is greedy; ``seed`` 0; ``ignore_eos`` False, where True goes on after the text's end;
            ``cache_prompt`` False, where True reuses the prefix of the previous prompt, so that the
            work of a request depends on the one before it.
    """
    return {
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "n_predict": n_predict,
        "temperature": 0.0,
        "seed": 0,
        "ignore_eos": False,
        "cache_prompt": False,
        "return_tokens": True,
        **options,
    }


async def keep_busy(
    ask: Callable[[R], Awaitable[T]],
    wanted: Sequence[R],
    fillers: Sequence[R],
    n_streams: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple[T, float]]:
    """Get an answer to each of ``wanted``, with ``n_streams`` requests in flight until the last.

    A stream sends the next request as soon as its own is answered. Where none is left, it sends
    fillers, so that the last requests are answered beside as many others as the first. Fillers that
    are under way at the end are cancelled.

    Args:
        ask: sends a request, and returns the answer.
        wanted: requests in the order in which they are sent; not empty.
        fillers: requests whose answers nobody needs; not empty.
        n_streams: number of requests in flight.
        clock: seconds.

    Returns:
        The answers in the order of ``wanted``, each with the seconds from sending to the answer.

    Raises:
        Exception: the first failure of any stream, once all of them have ended.
    """
    answers: dict[int, tuple[T, float]] = {}
    queue, rest = iter(enumerate(wanted)), cycle(fillers)

    async def stream() -> None:
        """Ends once all are answered, or fails."""
        for number, request in queue:
            began_s = clock()
            answer = await ask(request)
            answers[number] = (answer, clock() - began_s)
        while len(answers) < len(wanted):
            await ask(next(rest))

    streams = [asyncio.ensure_future(stream()) for _ in range(n_streams)]
    try:
        ended, _others = await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
        for one in ended:
            one.result()
    finally:
        for one in streams:
            one.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return [answers[number] for number in range(len(wanted))]
