"""The state of a watched server, in one frozen piece per panel, made from samples. Pure."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from spectui.known import Known
from spectui.monitor.readings import Ring
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.meters import Ended, SlotMeter
from spectui.server.watch.sample import Failure, HostState, Sample, ServerFacts, ServerSample

_NOT_ASKED = "the server has not been asked yet"
_UNASKED: Known[float] = Known(None, _NOT_ASKED)
_UNTOLD: Known[Counters] = Known(None, _NOT_ASKED)
_UNKNOWN: Known[ServerFacts] = Known(None, _NOT_ASKED)
_N_LOOKS = 200
"""Looks, or ended requests, that a history holds."""


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
    took_s: float | None = None
    """Duration of the last round of questions; None while there is no connection."""
    failure: Failure | None = None
    """Why there is none; None before the first answer, too."""
    is_late: bool = False
    """Whether the server left a question unanswered for too long."""
    n_restarts: int = 0
    """Restarts of the server since it is watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedState:
    """Throughput and counters."""

    work: Work = Work.UNKNOWN
    now_tokens_per_s: Known[float] = _UNASKED
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    last_tokens_per_s: float | None = None
    """Generation of the requests that ended last, as the server measured them."""
    last_prompt_tokens_per_s: float | None = None
    """Rate of the prompts that were evaluated last, as the server measured them."""
    counters: Known[Counters] = _UNTOLD
    history: tuple[float | None, ...] = ()
    """Tokens per second at every look; None where nothing was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """Acceptance of the drafts."""

    reason: str | None = _NOT_ASKED
    """Why there are no counts; None if there are."""
    overall: DraftCounts | None = None
    """Since the server was started."""
    last: DraftCounts | None = None
    """Counts of the requests that ended last, without positions."""
    history: tuple[float | None, ...] = ()
    """Acceptance rates of the requests that ended, one after the other."""
    drafters: tuple[str, ...] = ()
    synthetic: str = ""
    """The option by which acceptance is decreed, with its value; empty where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """One slot."""

    sample: SlotReply
    tokens_per_s: float | None = None
    """While it generates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """All slots."""

    reason: str | None = _NOT_ASKED
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


class Tracker:
    """Keeps what a server did, over lost connections and its own restarts."""

    def __init__(self, url: str) -> None:
        """Start without a sample."""
        self._link = LinkState(url=url)
        self._sample: ServerSample | None = None
        """The last one, None while there is no connection."""
        self._facts = _UNKNOWN
        self._counters: Counters | None = None
        """The last ones that were told."""
        self._host = HostState()
        self._synthetic = ""
        self._meter = SlotMeter()
        self._answers, self._prompts, self._drafts = Ended(), Ended(), Ended()
        self._speeds, self._rates = Ring(_N_LOOKS), Ring(_N_LOOKS)

    def add(self, sample: Sample) -> None:
        """Take the next sample."""
        if isinstance(sample, Failure):
            self._fail(sample)
        else:
            self._take(sample)
        self._speeds.append(self._meter.tokens_per_s)

    def _fail(self, failure: Failure) -> None:
        self._sample = None
        self._meter.add(0.0, None)
        reason = failure.trouble.in_panels
        self._host = HostState(
            is_here=self._host.is_here,
            process=Known(None, reason),
            read_bytes_per_s=Known(None, reason),
        )
        if self._facts.value is None:
            self._facts = Known(None, reason)
        self._link = replace(self._link, took_s=None, failure=failure)

    def _take(self, sample: ServerSample) -> None:
        self._sample = sample
        if sample.facts.value is not None or self._facts.value is None:
            self._facts = sample.facts
        n_restarts = self._link.n_restarts
        if sample.counters.value is not None:
            n_restarts += self._count(sample.counters.value)
        self._meter.add(sample.time_s, sample.slots.value)
        self._host = sample.whereabouts
        if self._host.process.value is not None:
            self._synthetic = self._host.process.value.synthetic
        self._link = replace(
            self._link,
            took_s=sample.took_s,
            failure=None,
            is_late=sample.is_late,
            n_restarts=n_restarts,
        )

    def _count(self, now: Counters) -> bool:
        """Take the counters; return whether the server was started again since the last ones."""
        is_anew = self._counters is not None and self._counters.started != now.started
        self._counters = now
        self._answers.add(now.n_predicted, now.predicted_s, is_anew=is_anew)
        self._prompts.add(now.n_prompt, now.prompt_s, is_anew=is_anew)
        drafts = now.drafts
        if drafts is not None and self._drafts.add(
            drafts.n_drafts, drafts.n_drafted, drafts.n_accepted, is_anew=is_anew
        ):
            self._rates.append(self._last_drafts().acceptance_rate)
        return is_anew

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
    def _absent(self) -> str:
        """The reason for missing values while there is no sample."""
        failure = self._link.failure
        return _NOT_ASKED if failure is None else failure.trouble.in_panels

    def _told(self) -> Known[Counters]:
        """Return the counters; while there is no connection the last ones."""
        if self._sample is not None:
            return self._sample.counters
        return Known(None, self._absent) if self._counters is None else Known(self._counters)

    def _served(self) -> ServedState:
        sample, rate = self._sample, self._meter.tokens_per_s
        if sample is None:
            reason: str | None = self._absent
        else:
            reason = sample.slots.reason or "the server has been asked only once"
        return ServedState(
            work=Work.UNKNOWN if sample is None else _work(sample),
            now_tokens_per_s=Known(rate, reason if rate is None else None),
            last_tokens_per_s=_rate(self._answers),
            last_prompt_tokens_per_s=_rate(self._prompts),
            counters=self._told(),
            history=self._speeds.values(),
        )

    def _draft_state(self) -> DraftState:
        told = self._told()
        if told.value is None:
            return DraftState(reason=told.reason)
        drafts, slots = told.value.drafts, self._told_slots()
        if drafts is None or not drafts.n_drafts:
            reason = self._absent if self._sample is None else _why_nothing(told.value, slots)
            return DraftState(reason=reason, overall=drafts, synthetic=self._synthetic)
        return DraftState(
            reason=None,
            overall=drafts,
            last=None if self._drafts.last is None else self._last_drafts(),
            history=self._rates.values(),
            drafters=tuple(dict.fromkeys(name for slot in slots for name in slot.drafters)),
            synthetic=self._synthetic,
        )

    def _last_drafts(self) -> DraftCounts:
        n_drafts, n_drafted, n_accepted = map(round, self._drafts.last or (0, 0, 0))
        return DraftCounts(
            n_drafts=n_drafts,
            n_drafted=n_drafted,
            n_accepted=n_accepted,
            accepted_per_position=(),
        )

    def _told_slots(self) -> tuple[SlotReply, ...]:
        return () if self._sample is None else self._sample.slots.value or ()

    def _slots(self) -> SlotsState:
        if self._sample is None:
            return SlotsState(reason=self._absent)
        counters = self._sample.counters.value
        return SlotsState(
            reason=self._sample.slots.reason,
            slots=tuple(map(self._slot, self._told_slots())),
            n_deferred=0 if counters is None else counters.n_deferred,
        )

    def _slot(self, slot: SlotReply) -> SlotState:
        is_generating = slot.phase is SlotPhase.GENERATING
        return SlotState(sample=slot, tokens_per_s=self._meter.of(slot) if is_generating else None)


def _work(sample: ServerSample) -> Work:
    if sample.slots.value is not None:
        phases = {slot.phase for slot in sample.slots.value}
        if SlotPhase.GENERATING in phases:
            return Work.GENERATING
        return Work.PROMPT if SlotPhase.PROMPT in phases else Work.IDLE
    if sample.counters.value is not None:
        return Work.WORKING if sample.counters.value.n_processing else Work.IDLE
    return Work.UNKNOWN


def _rate(ended: Ended) -> float | None:
    """Tokens per second of what ended last."""
    return None if ended.last is None else ended.last[0] / ended.last[1]


def _why_nothing(counters: Counters, slots: tuple[SlotReply, ...]) -> str:
    """The reason why there are no counts of drafts."""
    if counters.drafts is None:
        return "this llama-server does not count drafts in /metrics; newer ones do"
    if slots and not any(slot.speculates for slot in slots):
        return "this server does not speculate"
    if counters.n_processing:
        return "drafts count when their request has ended, and none has yet"
    return "nothing was drafted since the server was started"
