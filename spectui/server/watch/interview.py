"""Rounds of questions to a server: which are asked when, and what the answers mean together."""

import asyncio
import math
import time
from collections.abc import Callable
from http import HTTPStatus

from spectui.documents import Known, T
from spectui.server.connection import (
    BrokenError,
    Connection,
    LateError,
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
from spectui.server.watch.locator import Locator
from spectui.server.watch.sample import (
    Failure,
    Sample,
    ServerFacts,
    ServerSample,
    Trouble,
    facts_of,
    unroutable,
)

_OFF = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED})
_RENEWED_S = 5.0
"""Seconds for which the server's facts are believed."""
_STARTED = "Process-Start-Time-Unix"
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"
_ROUTER = "this llama-server is a router, which runs no model itself"

Slots = tuple[SlotReply, ...]


class SilentError(Exception):
    """The server does not answer at all, for now."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.failure = Failure(trouble=trouble, reason=reason)


class Interview:
    """Interview of a server: asks for everything that it provides, one round after the other.

    ``/slots`` counts as work for llama-server's idle timer, and wakes a server that sleeps. So it
    is not asked while ``/metrics`` says that nothing has happened since all slots were idle. Of a
    server at work both wait for the end of a batch, and so they are asked together then.

    Args:
        connection: to the server.
        locator: finds the server's process.
        clock: in seconds.
    """

    def __init__(
        self,
        connection: Connection,
        locator: Locator,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._locator = locator
        self._clock = clock
        self._forget()

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
            whereabouts=await self._locator.look(now_s),
            took_s=now_s - began_s,
            is_late=self._is_late,
        )

    async def _introduce(self) -> None:
        """See that it is a llama-server that runs the model, and which."""
        url, model = self._connection.url, self._connection.model
        try:
            health = (await self._get("/health")).decode(HealthReply)
        except LateError as error:
            plain = "; one without TLS has an address with http://"
            hint = plain if url.startswith("https:") else ""
            raise SilentError(Trouble.SILENT, f"{url}{error}{hint}") from error
        except BrokenError as error:
            raise SilentError(Trouble.BROKEN, f"connections to {url} break: {error}") from error
        except ReplyError as error:
            raise SilentError(Trouble.STRANGE, f"{url}{error}; is it a llama-server?") from error
        if health.status != "ok":
            raise SilentError(Trouble.STRANGE, f"{url} says of itself: {one_line(health.status)}")
        models = await self._answered("/v1/models", lambda page: page.decode(ModelsReply))
        if model is not None and models.value is not None:
            failure = unroutable(url, model, models.value)
            if failure is not None:
                raise SilentError(failure.trouble, failure.reason)
            found = models.value.named(model)
            self._locator.seek(None if found is None or not found.status else found.status.port)
        self._facts = await self._answered(
            "/props",
            lambda page: facts_of(page.decode(PropsReply), models, model),
            former=self._facts,
        )

    async def _ask_work(self) -> Known[Slots]:
        """Ask for what changes from look to look: the counters, and the slots."""
        facts, before = self._facts.value, self._counters
        if facts is not None and facts.is_router:
            self._counters = Known(None, _ROUTER)
            return Known(None, _ROUTER)
        if facts is not None and facts.is_sleeping:
            self._counters = await self._ask_counters()
            if self._counters.value is not None and self._counters.value.n_processing:
                self._due_s = -math.inf  # awake again
            return Known(None, _ASLEEP)
        if self._resting is None:
            self._counters, slots = await asyncio.gather(self._ask_counters(), self._ask_slots())
        else:
            self._counters, slots = await self._ask_counters(), self._resting
            if self._counters.value is None or self._counters != before:
                slots = await self._ask_slots()
        now = self._counters.value
        is_quiet = now is not None and not now.n_processing and not now.n_deferred
        are_idle = slots.value is not None and not any(one.is_processing for one in slots.value)
        self._resting = slots if is_quiet and are_idle else None
        return slots

    async def _ask_counters(self) -> Known[Counters]:
        return await self._answered(
            "/metrics",
            lambda page: page.read(
                lambda content: read_counters(content.decode(), page.headers.get(_STARTED))
            ),
            option="--metrics",
            former=self._counters,
        )

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
            return Known(read(await self._get(path)))
        except LateError as error:
            self._is_late = True
            return Known(None, str(error)) if former is None or former.value is None else former
        except ReplyError as error:
            if isinstance(error, BrokenError):
                self._due_s = -math.inf  # it may have been started again
            if option and isinstance(error, RefusedError) and error.status in _OFF:
                return Known(None, f"{path} is off; start the server with {option}")
            return Known(None, str(error))

    async def _get(self, path: str) -> Page:
        """Ask for a page.

        Raises:
            ReplyError: it did not come.
            SilentError: the server tells nothing at all.
        """
        url = self._connection.url
        try:
            return await self._connection.ask(path)
        except UnreachableError as error:
            raise SilentError(Trouble.UNREACHABLE, str(error)) from error
        except RefusedError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                has_key = self._connection.has_key
                key = "refuses the API key that it was given" if has_key else "wants an API key"
                raise SilentError(Trouble.LOCKED, f"{url} {key}") from error
            is_busy = error.status == HTTPStatus.SERVICE_UNAVAILABLE
            if is_busy and "loading" in error.why.lower():
                raise SilentError(Trouble.LOADING, f"{url} is loading its model") from error
            raise
