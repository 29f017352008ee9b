"""The state of a watched server, in one frozen piece per panel, made from samples. Pure."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from spectui.known import Known
from spectui.server.metrics import NO_DRAFTS, Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.meters import (
    Columns,
    DraftMeter,
    ProcessMeter,
    SlotMeter,
    Timed,
    progress,
    was_restarted,
)
from spectui.server.watch.sample import (
    Event,
    FailedSample,
    Failure,
    HostState,
    Late,
    ServerFacts,
    ServerSample,
    Trouble,
    WaitingSample,
)

NOT_ASKED = "the server has not been asked yet"
_UNASKED: Known[float] = Known(None, NOT_ASKED)
_UNTOLD: Known[Counters] = Known(None, NOT_ASKED)
_UNKNOWN: Known[ServerFacts] = Known(None, NOT_ASKED)


class SlotPhase(StrEnum):
    """The activity of a slot."""

    IDLE = "idle"
    PROMPT = "reading"
    """It evaluates a prompt."""
    GENERATING = "generating"


class Work(StrEnum):
    """The activity of a server."""

    IDLE = "idle"
    PROMPT = "reading a prompt"
    GENERATING = "generating"
    WORKING = "working"
    """It has requests; without ``/slots`` it does not say what it does for them."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The connection."""

    url: str
    is_connected: bool = False
    failure: Failure | None = None
    """Why not; None before the first answer, too."""
    retry_s: float | None = None
    n_failures: int = 0
    """In a row."""
    waits_s: float | None = None
    """Seconds since the current round of questions began, where that is long."""
    is_late: bool = False
    """Whether the server left a question unanswered for too long."""
    took_s: float | None = None
    """Duration of the last round of questions."""
    n_restarts: int = 0
    """Restarts of the server since it is watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedState:
    """Throughput and counters."""

    work: Work = Work.UNKNOWN
    now_tokens_per_s: Known[float] = _UNASKED
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    last_tokens_per_s: Known[float] = _UNASKED
    """Generation of the requests that ended last, as the server measured them."""
    mean_tokens_per_s: Known[float] = _UNASKED
    """Generation since the server was started."""
    prompt_tokens_per_s: Known[float] = _UNASKED
    """Rate of the prompts that were evaluated last, as the server measured them."""
    mean_prompt_tokens_per_s: Known[float] = _UNASKED
    counters: Known[Counters] = _UNTOLD
    n_watched_predicted: int = 0
    """Generated since it is watched, of requests that have ended."""
    history: tuple[float | None, ...] = ()
    """Tokens per second of every half second; None where nothing was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """Acceptance of the drafts."""

    reason: str | None = NOT_ASKED
    """Why there are no counts; None if there are."""
    overall: DraftCounts | None = None
    """Since the server was started."""
    watched: DraftCounts | None = None
    """Since it is watched."""
    last: DraftCounts | None = None
    """Counts of the requests that ended last."""
    history: tuple[float | None, ...] = ()
    """Acceptance rates of the requests that ended, one after the other."""
    drafters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """One slot."""

    sample: SlotReply
    phase: SlotPhase
    tokens_per_s: float | None = None
    """While it generates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """All slots."""

    reason: str | None = NOT_ASKED
    slots: tuple[SlotState, ...] = ()
    n_deferred: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachState:
    """The whole state."""

    link: LinkState
    facts: Known[ServerFacts] = _UNKNOWN
    """The last that were told, kept while the connection is lost."""
    served: ServedState = ServedState()
    drafts: DraftState = DraftState()
    slots: SlotsState = SlotsState()
    host: HostState = field(default_factory=HostState)


_NO_DRAFT_COUNTS = "this llama-server does not count drafts in /metrics; newer ones do"
_NOTHING_DRAFTED = "nothing was drafted since the server was started"
_NOT_COUNTED_YET = "drafts count when their request has ended, and none has yet"
_NO_DRAFT = "this server does not speculate"
_UNFINISHED = "no request has ended while spectui watched"
_NEVER = "no request has ended since the server was started"
_LOST = "there is no connection"
_SILENT = "the server does not answer"
_SILENCES = {
    Trouble.SILENT: _SILENT,
    Trouble.LOADING: "the server loads its model",
    Trouble.LOCKED: "the server tells nothing without its API key",
    Trouble.STRANGE: "nothing that a llama-server tells",
    Trouble.MODEL: "the server does not run that model",
}
"""Reasons for empty panels. Any other trouble is a lost connection."""


class Tracker:
    """Keeps what a server did, over lost connections and its own restarts."""

    def __init__(self, url: str) -> None:
        """Start without a sample."""
        self._url = url
        self._link = LinkState(url=url)
        self._sample: ServerSample | None = None
        """The last one, None while there is no connection."""
        self._facts = AttachState(link=self._link).facts
        self._counters: Counters | None = None
        """The last ones that were told."""
        self._meter = SlotMeter()
        self._prompts, self._answers = Timed(), Timed()
        self._n_predicted = 0
        self._drafts = DraftMeter()
        self._columns = Columns()
        self._process = ProcessMeter()
        self._host = HostState()
        self._n_restarts = 0
        self._speculates: bool | None = None
        """Whether the server speculates, as the slots said when they were last seen."""

    def add(self, sample: Event) -> None:
        """Take the next sample."""
        match sample:
            case FailedSample():
                self._fail(sample)
            case WaitingSample():
                self._wait(sample)
            case ServerSample():
                self._take(sample)

    def _wait(self, sample: WaitingSample) -> None:
        """Stop showing the last answers as current: they may be outdated."""
        self._sample = None
        self._columns.add(sample.time_s, None)
        self._link = replace(self._link, waits_s=sample.waited_s)

    def _fail(self, sample: FailedSample) -> None:
        self._sample = None
        # Whoever answers next may be another one.
        self._speculates = None
        self._meter.lose()
        self._columns.add(sample.time_s, None)
        reason = _SILENCES.get(sample.failure.trouble, _LOST)
        self._host = self._process.lose(reason)
        if self._facts.value is None:
            self._facts = Known(None, reason)
        self._link = LinkState(
            url=self._url,
            failure=sample.failure,
            retry_s=sample.retry_s,
            n_failures=self._link.n_failures + 1,
            n_restarts=self._n_restarts,
        )

    def _take(self, sample: ServerSample) -> None:
        self._sample = sample
        if sample.facts.value is not None or self._facts.value is None:
            self._facts = sample.facts
        if sample.counters.value is not None:
            self._count(sample.counters.value)
        if sample.slots.value is None:
            self._meter.lose()
        else:
            self._meter.add(sample.time_s, sample.slots.value)
            self._speculates = any(slot.speculates for slot in sample.slots.value)
        self._columns.add(sample.time_s, self._now(sample).value)
        self._host = self._process.add(sample.time_s, sample.whereabouts)
        answers = (sample.slots, sample.counters, sample.facts)
        self._link = LinkState(
            url=self._url,
            is_connected=True,
            is_late=any(isinstance(answer, Late) for answer in answers),
            took_s=sample.took_s,
            n_restarts=self._n_restarts,
        )

    def _count(self, counters: Counters) -> None:
        if self._counters is not None and counters != self._counters:
            done = progress(self._counters, counters)
            if was_restarted(self._counters, counters):
                # What it did before that is not known.
                self._n_restarts += 1
                self._speculates = None
            self._n_predicted += done.n_predicted
            self._prompts.add(
                (done.n_prompt, done.prompt_s), (counters.n_prompt, counters.prompt_s)
            )
            self._answers.add(
                (done.n_predicted, done.predicted_s), (counters.n_predicted, counters.predicted_s)
            )
            self._drafts.add(done.drafts or NO_DRAFTS, counters.drafts or NO_DRAFTS)
        self._counters = counters

    def _now(self, sample: ServerSample) -> Known[float]:
        if sample.slots.value is None:
            return Known(None, sample.slots.reason)
        value = self._meter.tokens_per_s
        return _reading(value, "the server has been asked only once")

    def state(self) -> AttachState:
        """Return the state to show now."""
        return AttachState(
            link=self._link,
            facts=self._facts,
            served=self._served(),
            drafts=self._draft_state(),
            slots=self._slots(),
            host=self._host,
        )

    @property
    def _absent(self) -> Known[Counters]:
        """The reason for missing values while there is no sample."""
        failure = self._link.failure
        if failure is not None:
            return Known(None, _SILENCES.get(failure.trouble, _LOST))
        return Known(None, NOT_ASKED if self._link.waits_s is None else _SILENT)

    def _told(self) -> Known[Counters]:
        """Return the last counters, unless the server says now why it has none."""
        told = self._absent if self._sample is None else self._sample.counters
        is_passing = self._sample is None or isinstance(told, Late)
        return Known(self._counters) if self._counters is not None and is_passing else told

    def _served(self) -> ServedState:
        sample, told = self._sample, self._told()
        now = Known(None, self._absent.reason) if sample is None else self._now(sample)
        counters, reason = told.value, told.reason
        if counters is None:
            last = prompt = mean = mean_prompt = _reading(None, reason)
        else:
            last = _reading(self._answers.last_tokens_per_s, _UNFINISHED)
            prompt = _reading(self._prompts.last_tokens_per_s, _UNFINISHED)
            mean = _rate(counters.n_predicted, counters.predicted_s)
            mean_prompt = _rate(counters.n_prompt, counters.prompt_s)
        return ServedState(
            work=Work.UNKNOWN if sample is None else _work(sample),
            now_tokens_per_s=now,
            last_tokens_per_s=last,
            mean_tokens_per_s=mean,
            prompt_tokens_per_s=prompt,
            mean_prompt_tokens_per_s=mean_prompt,
            counters=told,
            n_watched_predicted=self._n_predicted,
            history=self._columns.values(),
        )

    def _draft_state(self) -> DraftState:
        told = self._told()
        counters = told.value
        if counters is None:
            return DraftState(reason=told.reason)
        if counters.drafts is None:
            is_there = self._sample is not None
            return DraftState(reason=_NO_DRAFT_COUNTS if is_there else self._absent.reason)
        return DraftState(
            reason=None if counters.drafts.n_drafts else self._why_nothing(counters),
            overall=counters.drafts,
            watched=self._drafts.watched,
            last=self._drafts.last,
            history=self._drafts.history.values(),
            drafters=self._drafters(),
        )

    def _why_nothing(self, counters: Counters) -> str | None:
        if self._sample is None:
            return self._absent.reason
        if self._speculates is False:
            return _NO_DRAFT
        return _NOT_COUNTED_YET if counters.n_processing else _NOTHING_DRAFTED

    def _drafters(self) -> tuple[str, ...]:
        slots = () if self._sample is None else self._sample.slots.value or ()
        return tuple(dict.fromkeys(name for slot in slots for name in slot.drafters))

    def _slots(self) -> SlotsState:
        if self._sample is None:
            return SlotsState(reason=self._absent.reason)
        counters = self._sample.counters.value
        n_deferred = 0 if counters is None else counters.n_deferred
        told = self._sample.slots
        if told.value is None:
            return SlotsState(reason=told.reason, n_deferred=n_deferred)
        return SlotsState(
            reason=None, slots=tuple(map(self._slot, told.value)), n_deferred=n_deferred
        )

    def _slot(self, slot: SlotReply) -> SlotState:
        phase = phase_of(slot)
        speed = self._meter.of(slot) if phase is SlotPhase.GENERATING else None
        return SlotState(sample=slot, phase=phase, tokens_per_s=speed)


def phase_of(slot: SlotReply) -> SlotPhase:
    """Return the activity of a slot."""
    if not slot.is_processing:
        return SlotPhase.IDLE
    return SlotPhase.GENERATING if slot.n_decoded else SlotPhase.PROMPT


def _work(sample: ServerSample) -> Work:
    if sample.slots.value is not None:
        phases = {phase_of(slot) for slot in sample.slots.value}
        if SlotPhase.GENERATING in phases:
            return Work.GENERATING
        return Work.PROMPT if SlotPhase.PROMPT in phases else Work.IDLE
    if sample.counters.value is not None:
        return Work.WORKING if sample.counters.value.n_processing else Work.IDLE
    return Work.UNKNOWN


def _rate(n_tokens: int, seconds: float) -> Known[float]:
    return Known(n_tokens / seconds) if n_tokens and seconds > 0 else Known(None, _NEVER)


def _reading(value: float | None, reason: str | None) -> Known[float]:
    return Known(value, reason if value is None else None)
