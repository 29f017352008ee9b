"""One round of questions after the other: what is asked when, and what answers mean together."""

import time
from collections.abc import Awaitable, Callable

from spectui.server.attached.http import AttachError, Connection, LateError, RefusedError
from spectui.server.attached.local import Locator
from spectui.server.attached.replies import (
    HealthReply,
    ModelsReply,
    PropsReply,
    SlotReply,
    counters_of,
    facts_of,
    slots_of,
)
from spectui.server.attached.sample import (
    Answer,
    Counters,
    FailedSample,
    Failure,
    Sample,
    ServerFacts,
    ServerSample,
    SlotSample,
    T,
    Trouble,
)
from spectui.server.attached.words import one_line

_RENEWED_S = 5.0
"""How long the server's facts are believed, and an endpoint that is off is left alone."""
_COUNTED_S = 0.5
_OK = 200
_OFF = frozenset({404, 501})
_STARTED = "Process-Start-Time-Unix"
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"


class Interview:
    """Asks a server for all that it tells.

    ``/slots`` counts as work for llama-server's idle timer, and wakes a server that sleeps. So it
    is not asked while ``/metrics`` says that nothing has happened since the last time.
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
        self._forget()

    def _forget(self) -> None:
        self._facts: Answer[ServerFacts] = Answer(None, "the server has not been asked yet")
        self._models: ModelsReply | None = None
        self._asked_s: float | None = None
        self._off: dict[str, str] = {}
        self._idle: tuple[Counters, Answer[tuple[SlotSample, ...]]] | None = None
        self._is_at_work = False
        self._last_counters: tuple[float, Answer[Counters]] = 0.0, Answer(None)

    async def ask(self) -> Sample:
        """Ask once. Takes at most the connection's time for each of five questions."""
        began_s = self._clock()
        try:
            if self._is_due(began_s):
                await self._introduce(began_s)
            counters = await self._counted(began_s)
            slots = await self._ask_slots(counters)
            self._is_at_work = any(slot.is_processing for slot in slots.value or ())
        except AttachError as error:
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
        return self._asked_s is None or now_s - self._asked_s >= _RENEWED_S

    async def _introduce(self, now_s: float) -> None:
        is_first = self._asked_s is None
        try:
            health = (await self._connection.get("/health")).decode(HealthReply)
        except LateError as error:
            raise _failed(Trouble.SILENT, f"{self._connection.url}{error}") from error
        except RefusedError as error:
            reason = f"{self._connection.url}{error.reason}; is it a llama-server?"
            raise _failed(Trouble.STRANGE, reason) from error
        if health.status != "ok":
            status = one_line(health.status)
            raise _failed(Trouble.STRANGE, f"{self._connection.url} says of itself: {status}")
        if is_first:
            self._locator.forget()
        self._off.clear()
        self._facts = await _answered(self._ask_facts)
        self._asked_s = now_s

    async def _ask_facts(self) -> ServerFacts:
        props = (await self._connection.get("/props")).decode(PropsReply)
        if self._models is None:
            models = await _answered(self._ask_models)
            self._models = models.value
        return facts_of(props, self._models)

    async def _ask_models(self) -> ModelsReply:
        return (await self._connection.get("/v1/models")).decode(ModelsReply)

    async def _counted(self, now_s: float) -> Answer[Counters]:
        """Return the counters, half a second old while slots work: they change when one ends."""
        last_s, last = self._last_counters
        if self._is_at_work and last.value is not None and now_s - last_s < _COUNTED_S:
            return last
        counters = await self._ask_counters()
        self._last_counters = now_s, counters
        return counters

    async def _ask_counters(self) -> Answer[Counters]:
        facts = self._facts.value
        is_on = None if facts is None else facts.has_metrics
        return await self._unless_off("/metrics", "--metrics", is_on, self._metrics)

    async def _metrics(self) -> Counters:
        page = await self._connection.get("/metrics")
        try:
            return counters_of(page.content.decode(), page.headers.get(_STARTED))
        except ValueError as error:
            reason = f"/metrics is not what llama-server answers: {one_line(str(error))}"
            raise RefusedError(reason, _OK) from error

    async def _ask_slots(self, counters: Answer[Counters]) -> Answer[tuple[SlotSample, ...]]:
        facts, now = self._facts.value, counters.value
        if facts is not None and facts.is_sleeping:
            if now is not None and now.n_processing:
                self._asked_s = None  # awake again: the next round asks for all
            return Answer(None, _ASLEEP)
        if self._idle is not None and now == self._idle[0]:
            return self._idle[1]
        is_on = None if facts is None else facts.has_slots
        slots = await self._unless_off("/slots", "--slots", is_on, self._slots)
        are_idle = slots.value is not None and not any(slot.is_processing for slot in slots.value)
        is_quiet = now is not None and not now.n_processing and not now.n_deferred
        self._idle = (now, slots) if now is not None and are_idle and is_quiet else None
        return slots

    async def _slots(self) -> tuple[SlotSample, ...]:
        return slots_of((await self._connection.get("/slots")).decode(list[SlotReply]))

    async def _unless_off(
        self,
        path: str,
        option: str,
        is_on: bool | None,  # noqa: FBT001 - three answers, of which one is not known
        ask: Callable[[], Awaitable[T]],
    ) -> Answer[T]:
        facts = self._facts.value
        if facts is not None and facts.is_router:
            return Answer(None, _router_reason(facts))
        off = f"{path} is off; start the server with {option}"
        if is_on is False:
            return Answer(None, off)
        if path in self._off:
            return Answer(None, self._off[path])
        answer = await _answered(ask, off=off)
        if answer.value is None and answer.reason == off:
            self._off[path] = off
        return answer


async def _answered(ask: Callable[[], Awaitable[T]], *, off: str | None = None) -> Answer[T]:
    try:
        return Answer(await ask())
    except LateError as error:
        return Answer(None, str(error), is_late=True)
    except RefusedError as error:
        is_off = off is not None and error.status in _OFF
        return Answer(None, off if is_off else error.reason)


def _router_reason(facts: ServerFacts) -> str:
    names = ", ".join(facts.models) or "it lists none"
    return f"this llama-server is a router; name one of its models with --model: {names}"


def _failed(trouble: Trouble, reason: str) -> AttachError:
    return AttachError(Failure(trouble=trouble, reason=reason))
