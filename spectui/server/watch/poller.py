"""Asks a running server again and again: which questions when, and what the answers mean."""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Self

from spectui.closing import Closing
from spectui.documents import Known, T
from spectui.server.address import Address
from spectui.server.connection import (
    BrokenError,
    Connection,
    LateError,
    MalformedError,
    Page,
    RefusedError,
    ReplyError,
    UnreachableError,
)
from spectui.server.loop import LoopThread
from spectui.server.metrics import Counters, read_counters
from spectui.server.replies import (
    HealthReply,
    ModelsReply,
    PropsReply,
    SlotReply,
    SlotsReply,
    one_line,
)
from spectui.server.watch.locator import Locator
from spectui.server.watch.sample import (
    API_KEY_VARIABLES,
    Failure,
    Sample,
    ServerFacts,
    ServerSample,
    Trouble,
    facts_of,
)

TIMEOUT_S = 5.0
_RENEWED_S = 5.0
"""Seconds for which the server's facts are believed."""
_OFF = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED})
_STARTED = "Process-Start-Time-Unix"
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"
_ROUTER = "this llama-server is a router, which runs no model itself"
_LOADING_S = 1.0
"""Pause between questions to a server that loads its model."""
_FIRST_S = 0.5
_LONGEST_S = 10.0
"""The first and the longest pause after other failures; each is twice as long as the one before."""

Slots = tuple[SlotReply, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The server to ask, and how."""

    address: Address
    api_key: str | None = None
    timeout_s: float = TIMEOUT_S
    """The longest that an answer may take."""


class SilentError(Exception):
    """The server does not answer at all, for now."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Interview:
    """Interview of a server: asks for everything that it provides, one round after the other.

    ``/slots`` counts as work for llama-server's idle timer, and wakes a server that sleeps. So it
    is not asked while ``/metrics`` says that nothing has happened since all slots were idle. Of a
    server at work both wait for the end of a batch, and so they are asked together then.

    Args:
        wanted: the server.
        clock: in seconds.
    """

    def __init__(self, wanted: Attachment, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = Connection(
            wanted.address.url,
            api_key=wanted.api_key,
            timeout_s=wanted.timeout_s,
        )
        self._locator = Locator(wanted.address)
        self._clock = clock
        self._forget()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._connection.close()

    def _forget(self) -> None:
        self._facts: Known[ServerFacts] = Known(None, "the server has not been asked yet")
        self._counters: Known[Counters] = Known(None)
        self._resting: Known[Slots] | None = None
        """The slots of the last look, if all were idle."""
        self._due_s = -math.inf
        """When the server's facts are asked for again."""

    async def ask(self) -> Sample:
        """Ask once."""
        began_s = self._clock()
        self._is_late = False
        try:
            if began_s >= self._due_s:
                self._due_s = began_s + _RENEWED_S
                await self._introduce()
            slots = await self._ask_work()
        except SilentError as error:
            self._forget()
            return error.failure
        now_s = self._clock()
        return ServerSample(
            time_s=now_s,
            facts=self._facts,
            slots=slots,
            counters=self._counters,
            host=await self._locator.look(now_s),
            took_s=now_s - began_s,
            is_late=self._is_late,
        )

    async def _introduce(self) -> None:
        """See that it is a llama-server that runs the model, and which."""
        await self._answered("/health", _check_health)
        models = await self._answered("/v1/models", lambda page: page.decode(ModelsReply))
        self._facts = await self._answered(
            "/props",
            lambda page: facts_of(page.decode(PropsReply), models.value),
            former=self._facts,
        )

    async def _ask_work(self) -> Known[Slots]:
        """Ask for what changes from look to look: the counters, and the slots."""
        facts, before = self._facts.value, self._counters
        if facts is not None and facts.is_router:
            self._counters = Known(None, _ROUTER)
            return Known(None, _ROUTER)
        if facts is not None and facts.is_sleeping:
            return Known(None, _ASLEEP)
        if self._resting is None:
            _, slots = await asyncio.gather(self._ask_counters(), self._ask_slots())
        else:
            slots = self._resting
            if (await self._ask_counters()).value is None or self._counters != before:
                slots = await self._ask_slots()
        now = self._counters.value
        is_quiet = now is not None and not now.n_processing and not now.n_deferred
        are_idle = slots.value is not None and not any(one.is_processing for one in slots.value)
        self._resting = slots if is_quiet and are_idle else None
        return slots

    async def _ask_counters(self) -> Known[Counters]:
        self._counters = await self._answered(
            "/metrics", _read_counters, option="--metrics", former=self._counters
        )
        return self._counters

    async def _ask_slots(self) -> Known[Slots]:
        return await self._answered(
            "/slots", lambda page: page.decode(SlotsReply), option="--slots"
        )

    async def _answered(
        self,
        path: str,
        read: Callable[[Page], T],
        *,
        option: str | None = None,
        former: Known[T] | None = None,
    ) -> Known[T]:
        """Return what a page tells, or the reason why it tells nothing.

        Args:
            path: path of the page.
            read: reads it; may raise ``ReplyError``.
            option: option of the server that turns the page on; None for what is always on.
            former: stands for an answer that is late.

        Raises:
            SilentError: the server tells nothing at all.
        """
        try:
            return Known(read(await self._connection.ask(path)))
        except ReplyError as error:
            failure = _failure(self._connection, error, is_first=path == "/health")
            if failure is not None:
                raise SilentError(failure) from error
            if isinstance(error, LateError):
                self._is_late = True
                if former is not None and former.value is not None:
                    return former
            if isinstance(error, BrokenError):
                self._due_s = -math.inf  # it may have been started again
            if option and isinstance(error, RefusedError) and error.status in _OFF:
                return Known(None, f"{path} is off; start the server with {option}")
            return Known(None, str(error))


def _check_health(page: Page) -> None:
    status = page.decode(HealthReply).status
    if status != "ok":
        raise MalformedError(f"{page.path} says of the server: {one_line(status)}", status)


def _read_counters(page: Page) -> Counters:
    return page.read(lambda content: read_counters(content.decode(), page.headers.get(_STARTED)))


def _failure(connection: Connection, error: ReplyError, *, is_first: bool) -> Failure | None:
    """Why a server answers nothing at all; None where it may answer other questions.

    Args:
        connection: to the server.
        error: why it has not answered this question.
        is_first: whether that was how it is, which every server answers.
    """
    url = connection.url
    match error:
        case UnreachableError():
            remedy = "start the server, or give the address that it prints when it starts"
            found = Trouble.UNREACHABLE, f"{error}; {remedy}"
        case RefusedError(status=HTTPStatus.UNAUTHORIZED):
            does = "refuses the API key that it was given"
            does = does if connection.has_key else "wants an API key"
            remedy = f"put its key into {' or '.join(API_KEY_VARIABLES)} and try again"
            found = Trouble.LOCKED, f"{url} {does}; {remedy}"
        case RefusedError(status=HTTPStatus.SERVICE_UNAVAILABLE, why=why) if (
            "loading" in why.lower()
        ):
            found = Trouble.LOADING, f"{url} is loading its model; try again in a moment"
        case _ if not is_first:
            return None
        case LateError() | BrokenError():
            remedy = "look into its log; only a server with TLS has an address with https://"
            found = Trouble.UNREACHABLE, f"no answer from {url}: {error}; {remedy}"
        case _:
            found = Trouble.STRANGE, f"{url}{error}; is it a llama-server?"
    trouble, reason = found
    return Failure(trouble=trouble, reason=reason)


async def ask(wanted: Attachment, interval_s: float = 0.0) -> tuple[Sample, ...]:
    """Ask once, or twice with an interval, so that rates are known; once where nobody answers."""
    async with Interview(wanted) as interview:
        first = await interview.ask()
        if isinstance(first, Failure) or not interval_s:
            return (first,)
        await asyncio.sleep(interval_s)
        return first, await interview.ask()


class Poller(Closing):
    """Hands a sample to a sink every interval, from a daemon thread of its own.

    One round of questions is under way at a time: a server that answers slowly is asked less often.
    """

    def __init__(
        self,
        wanted: Attachment,
        sink: Callable[[Sample], None],
        *,
        interval_s: float,
        on_failure: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """Prepare the poller; ``start`` begins.

        Args:
            wanted: the server.
            sink: called on the thread with every sample; it must only store or post it.
            interval_s: from the beginning of one round of questions to the next.
            on_failure: called on the thread with what ended it, if that is a defect.
        """
        self._wanted = wanted
        self._sink = sink
        self._on_failure = on_failure
        self._interval_s = interval_s
        self._woken = asyncio.Event()
        self._thread = LoopThread("spectui-attach")

    def start(self) -> None:
        """Begin, once."""
        self._thread.submit(self._ask_on()).add_done_callback(self._ended)

    def try_now(self) -> None:
        """Ask at once instead of waiting."""
        self._thread.call(self._woken.set)

    def close(self) -> None:
        """End it, in the middle of a question if need be. May be called again."""
        self._thread.close()

    def _ended(self, asking: "Future[None]") -> None:
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._on_failure(error)

    async def _ask_on(self) -> None:
        loop, retry_s = asyncio.get_running_loop(), _FIRST_S
        async with Interview(self._wanted) as interview:
            while True:
                began_s = loop.time()
                sample = await interview.ask()
                if isinstance(sample, Failure):
                    wait_s = _LOADING_S if sample.trouble is Trouble.LOADING else retry_s
                    retry_s = min(2 * retry_s, _LONGEST_S)
                    sample = replace(sample, retry_s=wait_s)
                else:
                    wait_s, retry_s = began_s + self._interval_s - loop.time(), _FIRST_S
                self._sink(sample)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(wait_s, 0.0)):
                        await self._woken.wait()
                self._woken.clear()
