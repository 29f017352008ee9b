"""Rounds of questions to a server: which are asked when, and what the answers mean together."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, TypeVar

from spectui.known import Known, T
from spectui.server.connection import (
    BrokenError,
    Connection,
    LateError,
    Page,
    RefusedError,
    ReplyError,
    UnreachableError,
    malformed,
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
    FailedSample,
    Failure,
    Late,
    Sample,
    ServerFacts,
    ServerSample,
    Trouble,
    facts_of,
    router_without_model,
    unroutable,
)

U = TypeVar("U")

_OFF = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED})
_RENEWED_S = 5.0
"""Seconds for which the server's facts are believed, and an endpoint that is off is left alone."""
_COUNTED_S = 0.5
_OPENAI = "/v1"
"""Prefix of OpenAI's interface; it has a ``/health`` and nothing else that is asked for here."""
_STARTED = "Process-Start-Time-Unix"
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"


class SilentError(Exception):
    """The server does not answer at all, for now."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.failure = Failure(trouble=trouble, reason=reason)


class Questions:
    """Asks a server for pages, within one limit for all of a round, however many stall.

    Args:
        connection: to the server.
        clock: in seconds.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock
        self.is_doubtful = False
        """Whether a connection broke: the server may have been started again."""
        self.begin()

    def begin(self) -> None:
        """Begin another round, with all of its time."""
        self._ends_s = self._clock() + self._connection.timeout_s

    async def get(self, path: str, *, is_last: bool = False) -> Page:
        """Ask for a page.

        Args:
            path: path of the page.
            is_last: whether all the time that is left may go; else half of it, so that an answer
                that never comes leaves time for the others.

        Raises:
            ReplyError: it did not come.
            SilentError: the server tells nothing at all.
        """
        rest_s = max(0.0, self._ends_s - self._clock())
        url = self._connection.url
        try:
            return await self._connection.ask(path, rest_s if is_last else rest_s / 2)
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

    async def answered(
        self, ask: Callable[[], Awaitable[T]], *, off: str | None = None
    ) -> Known[T]:
        """Return the value of an answer, or the reason why there is none.

        Args:
            ask: for one thing.
            off: the reason where the server answers that it does not tell this.

        Raises:
            SilentError: the server tells nothing at all.
        """
        try:
            return Known(await ask())
        except LateError as error:
            return Late(None, str(error))
        except ReplyError as error:
            self.is_doubtful |= isinstance(error, BrokenError)
            is_off = isinstance(error, RefusedError) and error.status in _OFF
            return Known(None, off if off is not None and is_off else str(error))


class Interview:
    """Interview of a server: asks for everything that it provides.

    ``/slots`` counts as work for llama-server's idle timer, and wakes a server that sleeps. So it
    is not asked while ``/metrics`` says that nothing has happened since the last time. Of a server
    at work both wait for the end of a batch, and so they are asked together then.
    """

    def __init__(
        self,
        connection: Connection,
        locator: Locator,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nothing yet.

        Args:
            connection: to the server.
            locator: finds the server's process.
            clock: in seconds.
        """
        self._connection = connection
        self._locator = locator
        self._clock = clock
        self._questions = Questions(connection, clock)
        self._forget()

    def _forget(self) -> None:
        self._facts: Known[ServerFacts] = Known(None, "the server has not been asked yet")
        self._models: Known[ModelsReply] = Known(None)
        self._asked_s: float | None = None
        self._questions.is_doubtful = False
        self._off: dict[str, str] = {}
        self._idle: tuple[Counters, Known[tuple[SlotReply, ...]]] | None = None
        self._is_at_work = False
        self._last_counters: tuple[float, Known[Counters]] = 0.0, Known(None)

    async def ask(self) -> Sample:
        """Ask once. Takes at most the connection's time, whichever questions stall."""
        began_s = self._clock()
        self._questions.begin()
        try:
            if self._is_due(began_s):
                await self._introduce(began_s)
            counters, slots = await self._ask_work(began_s)
        except SilentError as error:
            self._forget()
            return FailedSample(time_s=self._clock(), failure=error.failure)
        now_s = self._clock()
        return ServerSample(
            time_s=now_s,
            facts=self._facts,
            slots=slots,
            counters=counters,
            whereabouts=await self._locator.look(now_s),
            took_s=now_s - began_s,
        )

    def _is_due(self, now_s: float) -> bool:
        is_old = self._asked_s is None or now_s - self._asked_s >= _RENEWED_S
        return is_old or self._questions.is_doubtful

    async def _introduce(self, now_s: float) -> None:
        is_first, url = self._asked_s is None, self._connection.url
        self._questions.is_doubtful = False
        try:
            health = (await self._questions.get("/health", is_last=True)).decode(HealthReply)
        except LateError as error:
            plain = "; one without TLS has an address with http://"
            hint = plain if url.startswith("https:") else ""
            raise SilentError(Trouble.SILENT, f"{url}{error}{hint}") from error
        except BrokenError as error:
            raise SilentError(Trouble.BROKEN, f"connections to {url} break: {error}") from error
        except ReplyError as error:
            reason = f"{url}{error}; is it a llama-server?"
            raise SilentError(Trouble.STRANGE, reason) from error
        if health.status != "ok":
            status = one_line(health.status)
            raise SilentError(Trouble.STRANGE, f"{url} says of itself: {status}")
        if is_first:
            self._locator.forget()
        self._off.clear()
        if self._connection.model is not None:
            await self._find_model(self._connection.model)
        self._facts = await self._questions.answered(self._ask_facts)
        self._asked_s = now_s

    async def _find_model(self, model: str) -> None:
        """See that a router runs the model that was asked for, and where."""
        self._models = await self._questions.answered(self._ask_models)
        if self._models.value is None:
            return
        failure = unroutable(self._connection.url, model, self._models.value)
        if failure is not None:
            raise SilentError(failure.trouble, failure.reason)
        found = self._models.value.named(model)
        status = None if found is None else found.status
        self._locator.seek(None if status is None else status.port)

    async def _ask_facts(self) -> ServerFacts:
        props = (await self._props()).decode(PropsReply)
        if self._models.value is None:
            self._models = await self._questions.answered(self._ask_models)
        return facts_of(props, self._models, self._connection.model)

    async def _props(self) -> Page:
        url = self._connection.url
        try:
            return await self._questions.get("/props")
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND or not url.endswith(_OPENAI):
                raise
            own = url.removesuffix(_OPENAI)
            reason = f"{url} is for programs of OpenAI's interface; give the address {own}"
            raise SilentError(Trouble.STRANGE, reason) from error

    async def _ask_models(self) -> ModelsReply:
        return (await self._questions.get("/v1/models")).decode(ModelsReply)

    async def _ask_work(self, now_s: float) -> tuple[Known[Counters], Known[tuple[SlotReply, ...]]]:
        """Ask for what changes from look to look."""
        if self._is_at_work:
            counters, slots = await _together(self._counted(now_s), self._listed_slots())
        else:
            counters = await self._counted(now_s)
            slots = await self._ask_slots(counters)
        are_idle = slots.value is not None and not any(slot.is_processing for slot in slots.value)
        now = counters.value
        is_quiet = now is not None and not now.n_processing and not now.n_deferred
        self._idle = (now, slots) if now is not None and are_idle and is_quiet else None
        is_counted = now is not None and now.n_processing > 0
        self._is_at_work = is_counted or any(slot.is_processing for slot in slots.value or ())
        return counters, slots

    async def _counted(self, now_s: float) -> Known[Counters]:
        """Return the counters, half a second old while slots work: they change when one ends."""
        last_s, last = self._last_counters
        if self._is_at_work and last.value is not None and now_s - last_s < _COUNTED_S:
            return last
        counters = await self._ask_counters()
        self._last_counters = now_s, counters
        return counters

    async def _ask_counters(self) -> Known[Counters]:
        facts = self._facts.value
        is_on = None if facts is None else facts.has_metrics
        return await self._unless_off("/metrics", "--metrics", is_on, self._metrics)

    async def _metrics(self) -> Counters:
        page = await self._questions.get("/metrics", is_last=self._is_at_work)
        try:
            return read_counters(page.content.decode(), page.headers.get(_STARTED))
        except ValueError as error:
            raise malformed("/metrics", error) from error

    async def _ask_slots(self, counters: Known[Counters]) -> Known[tuple[SlotReply, ...]]:
        facts, now = self._facts.value, counters.value
        if facts is not None and facts.is_sleeping:
            if now is not None and now.n_processing:
                self._asked_s = None  # awake again: the next round asks for all
            return Known(None, _ASLEEP)
        if self._idle is not None and now == self._idle[0]:
            return self._idle[1]
        return await self._listed_slots()

    async def _listed_slots(self) -> Known[tuple[SlotReply, ...]]:
        facts = self._facts.value
        is_on = None if facts is None else facts.has_slots
        return await self._unless_off("/slots", "--slots", is_on, self._slots)

    async def _slots(self) -> tuple[SlotReply, ...]:
        return (await self._questions.get("/slots", is_last=True)).decode(SlotsReply)

    async def _unless_off(
        self,
        path: str,
        option: str,
        is_on: bool | None,  # noqa: FBT001 - three answers, of which one is not known
        ask: Callable[[], Awaitable[T]],
    ) -> Known[T]:
        facts = self._facts.value
        if facts is not None and facts.is_router:
            return Known(None, router_without_model(facts))
        off = f"{path} is off; start the server with {option}"
        if is_on is False:
            return Known(None, off)
        if path in self._off:
            return Known(None, self._off[path])
        answer = await self._questions.answered(ask, off=off)
        if answer.value is None and answer.reason == off:
            self._off[path] = off
        return answer


async def _together(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Await both at once; what the first to fail raises ends the other."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
