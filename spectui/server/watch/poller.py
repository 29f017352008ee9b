"""Polls a running server: requests its pages, and makes samples of the replies."""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from typing import Self

from spectui.closing import Closing
from spectui.documents import Known, T
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
from spectui.server.metrics import Counters, read_counters
from spectui.server.replies import (
    HealthReply,
    ModelsReply,
    PropsReply,
    SlotReply,
    SlotsReply,
    one_line,
)
from spectui.server.watch.locator import Address, Locator
from spectui.server.watch.sample import (
    API_KEY_VARIABLES,
    NOT_ASKED,
    Failure,
    Sample,
    ServerFacts,
    ServerSample,
    Trouble,
    facts_of,
)

_RENEWED_S = 5.0
"""Seconds for which the server's facts are believed."""
_OFF = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED})
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"
_RETRY_S = 1.0
"""Pause after a failure."""

Slots = tuple[SlotReply, ...]


class NoAnswerError(Exception):
    """The server does not answer at all, for now."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Interview:
    """Requests everything that a server provides, one round after the other.

    ``/slots`` wakes a server that sleeps, so only its facts are requested then. ``/slots`` and
    ``/metrics`` wait for the end of a batch, so they are requested together.

    Args:
        wanted: the server.
        clock: in seconds.
    """

    def __init__(self, wanted: Address, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = Connection(
            wanted.url,
            api_key=wanted.api_key,
            timeout_s=wanted.timeout_s,
        )
        self._locator = Locator(wanted)
        self._clock = clock
        self._forget()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._connection.close()

    def _forget(self) -> None:
        self._facts: Known[ServerFacts] = NOT_ASKED
        self._counters: Known[Counters] = NOT_ASKED
        self._due_s = -math.inf
        """When the server's facts are asked for again."""

    async def ask(self) -> Sample:
        """Ask once."""
        began_s = self._clock()
        self._is_late = False
        try:
            if began_s >= self._due_s:
                self._due_s = began_s + _RENEWED_S
                await self._ask_facts()
            slots = await self._ask_work()
        except NoAnswerError as error:
            self._forget()
            return error.failure
        now_s = self._clock()
        is_here, process = await self._locator.look(now_s)
        return ServerSample(
            time_s=now_s,
            facts=self._facts,
            slots=slots,
            counters=self._counters,
            is_here=is_here,
            process=process,
            took_s=now_s - began_s,
            is_late=self._is_late,
        )

    async def _ask_facts(self) -> None:
        """Check that it is a llama-server that runs the model itself, and read its facts."""
        await self._answered("/health", _check_health)
        models = await self._answered("/v1/models", lambda page: page.decode(ModelsReply))
        self._facts = await self._answered(
            "/props", lambda page: self._read_facts(page, models.value), former=self._facts
        )

    def _read_facts(self, page: Page, models: ModelsReply | None) -> ServerFacts:
        props = page.decode(PropsReply)
        if props.role == "router":
            url = self._connection.url
            reason = (
                f"{url} is a router, which hands requests on; give the address of a server that "
                "runs the model itself"
            )
            raise NoAnswerError(Failure(trouble=Trouble.ROUTER, reason=reason))
        return facts_of(props, models)

    async def _ask_work(self) -> Known[Slots]:
        """Ask for what changes from look to look: the counters, and the slots."""
        facts = self._facts.value
        if facts is not None and facts.is_sleeping:
            return Known(None, _ASLEEP)
        self._counters, slots = await asyncio.gather(
            self._answered("/metrics", _read_counters, option="--metrics", former=self._counters),
            self._answered("/slots", lambda page: page.decode(SlotsReply), option="--slots"),
        )
        return slots

    async def _answered(
        self,
        path: str,
        read: Callable[[Page], T],
        *,
        option: str | None = None,
        former: Known[T] | None = None,
    ) -> Known[T]:
        """Return the content of a page, or the reason why there is none.

        Args:
            path: path of the page.
            read: reads it; may raise ``ReplyError``.
            option: option of the server that turns the page on; None for what is always on.
            former: returned in place of an answer that is late.

        Raises:
            NoAnswerError: the server gives no answer to anything.
        """
        try:
            return Known(read(await self._connection.ask(path)))
        except ReplyError as error:
            failure = _failure(self._connection.url, error, is_first=path == "/health")
            if failure is not None:
                raise NoAnswerError(failure) from error
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
    return page.read(lambda content: read_counters(content.decode()))


def _failure(url: str, error: ReplyError, *, is_first: bool) -> Failure | None:
    """Why a server answers nothing at all; None where it may answer other questions.

    Args:
        url: address of the server.
        error: why it has not answered this question.
        is_first: whether this was the request for its health, which every server answers.
    """
    match error:
        case UnreachableError():
            remedy = "start the server, or give the address that it prints when it starts"
            found = Trouble.UNREACHABLE, f"{error}; {remedy}"
        case RefusedError(status=HTTPStatus.UNAUTHORIZED):
            remedy = f"put it into {' or '.join(API_KEY_VARIABLES)} and try again"
            found = Trouble.LOCKED, f"{url} wants its API key; {remedy}"
        case RefusedError(status=HTTPStatus.SERVICE_UNAVAILABLE, why=why) if (
            "loading" in why.lower()
        ):
            found = Trouble.LOADING, f"{url} is still loading its model"
        case _ if not is_first:
            return None
        case LateError() | BrokenError():
            remedy = "look into its log; only a server with TLS has an address with https://"
            found = Trouble.UNREACHABLE, f"no answer from {url}: {error}; {remedy}"
        case _:
            found = Trouble.STRANGE, f"{url}{error}; is it a llama-server?"
    trouble, reason = found
    return Failure(trouble=trouble, reason=reason)


async def ask(wanted: Address, interval_s: float = 0.0) -> tuple[Sample, ...]:
    """Ask once, or twice with an interval, so that rates are known; once if there is no answer."""
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
        wanted: Address,
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
        self._thread = LoopThread("spectui-attach")

    def start(self) -> None:
        """Begin, once."""
        self._thread.submit(self._ask_on()).add_done_callback(self._ended)

    def close(self) -> None:
        """End it, in the middle of a question if need be. May be called again."""
        self._thread.close()

    def _ended(self, asking: "Future[None]") -> None:
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._on_failure(error)

    async def _ask_on(self) -> None:
        loop = asyncio.get_running_loop()
        async with Interview(self._wanted) as interview:
            while True:
                began_s = loop.time()
                sample = await interview.ask()
                self._sink(sample)
                is_lost = isinstance(sample, Failure)
                pause_s = _RETRY_S if is_lost else began_s + self._interval_s - loop.time()
                await asyncio.sleep(max(pause_s, 0.0))
