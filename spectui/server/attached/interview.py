"""One round of questions after the other: what is asked when, and what answers mean together."""

import time
from collections.abc import Awaitable, Callable

from spectui.server.attached.http import (
    AttachError,
    BrokenError,
    Connection,
    LateError,
    Page,
    RefusedError,
)
from spectui.server.attached.local import Locator
from spectui.server.attached.questions import NOT_FOUND, Questions
from spectui.server.attached.replies import (
    HealthReply,
    ModelsReply,
    PropsReply,
    SlotReply,
    counters_of,
    facts_of,
    slots_of,
)
from spectui.server.attached.routing import unroutable
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
from spectui.server.attached.timing import together
from spectui.server.attached.words import one_line

_RENEWED_S = 5.0
"""How long the server's facts are believed, and an endpoint that is off is left alone."""
_COUNTED_S = 0.5
_OK = 200
_OPENAI = "/v1"
"""Where programs of OpenAI's interface ask; it has a ``/health`` and nothing else of ours."""
_STARTED = "Process-Start-Time-Unix"
_ASLEEP = "the server sleeps: it has unloaded its model until the next request"


class Interview:
    """Asks a server for all that it tells.

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
        self._facts: Answer[ServerFacts] = Answer(None, "the server has not been asked yet")
        self._models: Answer[ModelsReply] = Answer(None)
        self._asked_s: float | None = None
        self._questions.is_doubtful = False
        self._off: dict[str, str] = {}
        self._idle: tuple[Counters, Answer[tuple[SlotSample, ...]]] | None = None
        self._is_at_work = False
        self._last_counters: tuple[float, Answer[Counters]] = 0.0, Answer(None)

    async def ask(self) -> Sample:
        """Ask once. Takes at most the connection's time, whichever questions stall."""
        began_s = self._clock()
        self._questions.begin()
        try:
            if self._is_due(began_s):
                await self._introduce(began_s)
            counters, slots = await self._ask_work(began_s)
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
            raise _failed(Trouble.SILENT, f"{url}{error}{hint}") from error
        except BrokenError as error:
            raise _failed(Trouble.BROKEN, f"connections to {url} break: {error}") from error
        except RefusedError as error:
            reason = f"{url}{error.reason}; is it a llama-server?"
            raise _failed(Trouble.STRANGE, reason) from error
        if health.status != "ok":
            status = one_line(health.status)
            raise _failed(Trouble.STRANGE, f"{url} says of itself: {status}")
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
            raise AttachError(failure)
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
            if error.status != NOT_FOUND or not url.endswith(_OPENAI):
                raise
            own = url.removesuffix(_OPENAI)
            reason = f"{url} is for programs of OpenAI's interface; give the address {own}"
            raise _failed(Trouble.STRANGE, reason) from error

    async def _ask_models(self) -> ModelsReply:
        return (await self._questions.get("/v1/models")).decode(ModelsReply)

    async def _ask_work(
        self, now_s: float
    ) -> tuple[Answer[Counters], Answer[tuple[SlotSample, ...]]]:
        """Ask for what changes from look to look."""
        if self._is_at_work:
            counters, slots = await together(self._counted(now_s), self._listed_slots())
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
        page = await self._questions.get("/metrics", is_last=self._is_at_work)
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
        return await self._listed_slots()

    async def _listed_slots(self) -> Answer[tuple[SlotSample, ...]]:
        facts = self._facts.value
        is_on = None if facts is None else facts.has_slots
        return await self._unless_off("/slots", "--slots", is_on, self._slots)

    async def _slots(self) -> tuple[SlotSample, ...]:
        return slots_of((await self._questions.get("/slots", is_last=True)).decode(list[SlotReply]))

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
        answer = await self._questions.answered(ask, off=off)
        if answer.value is None and answer.reason == off:
            self._off[path] = off
        return answer


def _router_reason(facts: ServerFacts) -> str:
    names = ", ".join(facts.models) or "it lists none"
    return f"this llama-server is a router; name one of its models with --model: {names}"


def _failed(trouble: Trouble, reason: str) -> AttachError:
    return AttachError(Failure(trouble=trouble, reason=reason))
