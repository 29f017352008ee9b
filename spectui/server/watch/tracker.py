"""The state of a watched server, made from samples. Pure."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from spectui.known import Known
from spectui.monitor.readings import Ring
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.meters import Ended, SlotMeter
from spectui.server.watch.sample import Failure, HostState, Sample, ServerFacts, ServerSample

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
class SlotState:
    """One slot."""

    sample: SlotReply
    tokens_per_s: float | None = None
    """While it generates."""


_NOT_ASKED = "the server has not been asked yet"
_UNKNOWN: Known[Any] = Known(None, _NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachState:
    """The state that is shown. Facts and counts are kept while the connection is lost."""

    url: str
    took_s: float | None = None
    """Duration of the last round of questions; None while there is no connection."""
    failure: Failure | None = None
    """Why there is none; None before the first answer, too."""
    is_late: bool = False
    """Whether the server left a question unanswered for too long."""
    n_restarts: int = 0
    """Restarts of the server since it is watched."""
    facts: Known[ServerFacts] = _UNKNOWN
    host: HostState = field(default_factory=HostState)
    work: Work = Work.UNKNOWN
    now_tokens_per_s: Known[float] = _UNKNOWN
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    last_tokens_per_s: float | None = None
    """Generation of the requests that ended last, as the server measured them."""
    last_prompt_tokens_per_s: float | None = None
    """Rate of the prompts that were evaluated last, as the server measured them."""
    counters: Known[Counters] = _UNKNOWN
    speeds: tuple[float | None, ...] = ()
    """Tokens per second at every look; None where nothing was known."""
    undrafted: str | None = _NOT_ASKED
    """Why there is no acceptance; None if there is one, in the counters."""
    last_drafts: DraftCounts | None = None
    """Counts of the requests that ended last, without positions."""
    rates: tuple[float | None, ...] = ()
    """Acceptance rates of the requests that ended, one after the other."""
    drafters: tuple[str, ...] = ()
    slots: Known[tuple[SlotState, ...]] = _UNKNOWN


class Tracker:
    """Keeps what a server did, over lost connections and its own restarts."""

    def __init__(self, url: str) -> None:
        """Start without a sample."""
        self.state = AttachState(url=url)
        """The state to show now."""
        self._started: str | None = None
        self._meter = SlotMeter()
        self._answers, self._prompts, self._drafts = Ended(), Ended(), Ended()
        self._speeds, self._rates = Ring(_N_LOOKS), Ring(_N_LOOKS)

    def add(self, sample: Sample) -> None:
        """Take the next sample."""
        if isinstance(sample, Failure):
            self._fail(sample)
        else:
            self._take(sample)

    def _fail(self, failure: Failure) -> None:
        before, reason = self.state, failure.trouble.in_panels
        unknown: Known[Any] = Known(None, reason)
        self._meter.add(0.0, None)
        self._speeds.append(None)
        self.state = replace(
            before,
            took_s=None,
            failure=failure,
            facts=unknown if before.facts.value is None else before.facts,
            host=HostState(is_here=before.host.is_here, process=unknown, read_bytes_per_s=unknown),
            work=Work.UNKNOWN,
            now_tokens_per_s=unknown,
            counters=unknown if before.counters.value is None else before.counters,
            speeds=self._speeds.values(),
            undrafted=before.undrafted and reason,
            drafters=(),
            slots=unknown,
        )

    def _take(self, sample: ServerSample) -> None:
        before, counters, slots = self.state, sample.counters, sample.slots.value
        is_anew = counters.value is not None and self._count(counters.value)
        self._meter.add(sample.time_s, slots)
        now = self._meter.tokens_per_s
        self._speeds.append(now)
        why_not = sample.slots.reason or "the server has been asked only once"
        self.state = replace(
            before,
            took_s=sample.took_s,
            failure=None,
            is_late=sample.is_late,
            n_restarts=before.n_restarts + is_anew,
            facts=before.facts
            if sample.facts.value is None and before.facts.value
            else sample.facts,
            host=sample.whereabouts,
            work=_work(sample),
            now_tokens_per_s=Known(now, why_not if now is None else None),
            last_tokens_per_s=_rate(self._answers),
            last_prompt_tokens_per_s=_rate(self._prompts),
            counters=counters,
            speeds=self._speeds.values(),
            undrafted=_undrafted(sample),
            last_drafts=_drafts(self._drafts),
            rates=self._rates.values(),
            drafters=tuple(dict.fromkeys(name for slot in slots or () for name in slot.drafters)),
            slots=Known(
                None if slots is None else tuple(map(self._slot, slots)), sample.slots.reason
            ),
        )

    def _count(self, now: Counters) -> bool:
        """Take the counters; return whether the server was started again since the last ones."""
        is_anew = self._started is not None and self._started != now.started
        self._started = now.started
        self._answers.add(now.n_predicted, now.predicted_s, is_anew=is_anew)
        self._prompts.add(now.n_prompt, now.prompt_s, is_anew=is_anew)
        if now.drafts is not None:
            counts = now.drafts.n_drafts, now.drafts.n_drafted, now.drafts.n_accepted
            ended = self._drafts
            last = _drafts(ended) if ended.add(*counts, is_anew=is_anew) else None
            if last is not None:
                self._rates.append(last.acceptance_rate)
        return is_anew

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


def _drafts(ended: Ended) -> DraftCounts | None:
    """Counts of the drafts that ended last."""
    if ended.last is None:
        return None
    n_drafts, n_drafted, n_accepted = map(round, ended.last)
    return DraftCounts(
        n_drafts=n_drafts, n_drafted=n_drafted, n_accepted=n_accepted, accepted_per_position=()
    )


def _undrafted(sample: ServerSample) -> str | None:
    """The reason why there is no acceptance; None if there is one."""
    counters, slots = sample.counters.value, sample.slots.value
    if counters is None:
        return sample.counters.reason
    if counters.drafts is None:
        return "this llama-server does not count drafts in /metrics; newer ones do"
    if counters.drafts.n_drafts:
        return None
    if slots and not any(slot.speculates for slot in slots):
        return "this server does not speculate"
    if counters.n_processing:
        return "drafts count when their request has ended, and none has yet"
    return "nothing was drafted since the server was started"
