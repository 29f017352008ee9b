"""The state of a watched server, made from samples, and its document. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spectui.documents import Json, Known, fields_of, head, known, or_reason
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.sample import NOT_ASKED, Failure, Sample, ServerFacts, ServerSample

_N_LOOKS = 200
"""Looks, or ended requests, that a history holds."""
_DIGITS = 6
"""Significant ones of a number in llama-server's ``/metrics``."""
_ENOUGH = 20
"""A difference this many times as large as the rounding of its terms is off by 5 % at most."""
_WINDOW_S = 2.0
"""The window of a rate "now". With a shorter one, a round more or less moves the number."""
_MISSING = "the server does not tell"
_NEVER = "no request has ended since the server was started"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachState:
    """The state to show. Facts and counts are kept while the connection is lost."""

    url: str
    sample: ServerSample = field(default_factory=ServerSample)
    """The last answers."""
    failure: Failure | None = None
    """Why there is no connection; None before the first answer, too."""
    now_tokens_per_s: Known[float] = NOT_ASKED
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    slot_tokens_per_s: Mapping[int, float | None] = field(default_factory=dict)
    """The same of each slot that generates, by its number."""
    speeds: tuple[float | None, ...] = ()
    """Tokens per second at every look; None where nothing was known."""
    last_drafts: DraftCounts | None = None
    """Counts of the requests that ended last, without positions."""


def is_exact_enough(difference: int, total: int) -> bool:
    """Return whether a difference of two totals says something, rounded as they are."""
    step = 10 ** max(len(str(total)) - _DIGITS, 0)
    return difference >= (1 if step == 1 else _ENOUGH * step)


def decoded_between(before: SlotReply | None, after: SlotReply) -> int:
    """Return how many tokens a slot has generated between two looks, as far as they show.

    Of a request that began in between all tokens count, of one that ended its last ones are lost.
    """
    if before is None:
        return 0
    now = after.n_decoded or 0
    then = (before.n_decoded or 0) if before.task == after.task else 0
    # The numbers of requests begin anew with the server.
    return now - then if now >= then else now


class SlotMeter:
    """Tokens per second of the slots, over the last looks."""

    def __init__(self) -> None:
        """Start without a look."""
        self._looks: deque[tuple[float, int, dict[int, SlotReply]]] = deque()
        """Time in seconds, tokens of all slots up to then, and the slots."""

    def add(self, time_s: float, slots: tuple[SlotReply, ...] | None) -> None:
        """Take a look at ``time_s``, not before the last one; None makes the next a first one."""
        if slots is None:
            self._looks.clear()
            return
        _, total, before = self._looks[-1] if self._looks else (time_s, 0, {})
        total += sum(decoded_between(before.get(slot.id), slot) for slot in slots)
        self._looks.append((time_s, total, {slot.id: slot for slot in slots}))
        # One interval is kept, however long it is.
        while len(self._looks) > 2 and time_s - self._looks[1][0] >= _WINDOW_S:  # noqa: PLR2004 - its two ends
            self._looks.popleft()

    @property
    def tokens_per_s(self) -> float | None:
        """Rate of all slots together; None before two looks."""
        if not self._looks:
            return None
        (began_s, first, _), (ended_s, last, _) = self._looks[0], self._looks[-1]
        return (last - first) / (ended_s - began_s) if ended_s > began_s else None

    def of(self, slot: SlotReply) -> float | None:
        """Return the rate of a slot's request; None where the request was seen once."""
        ended_s = self._looks[-1][0]
        for began_s, _, slots in self._looks:
            then = slots.get(slot.id)
            if then is not None and then.is_processing and then.task == slot.task:
                n_tokens = decoded_between(then, slot)
                return n_tokens / (ended_s - began_s) if ended_s > began_s else None
        return None


class Tracker:
    """Keeps what a server did, over lost connections and its own restarts."""

    def __init__(self, url: str) -> None:
        """Start without a sample."""
        self.state = AttachState(url=url)
        """The state to show now."""
        self._meter = SlotMeter()
        self._counted: DraftCounts | None = None
        """Counts up to the last request that is shown."""
        self._speeds: deque[float | None] = deque(maxlen=_N_LOOKS)

    def add(self, sample: Sample) -> None:
        """Take the next sample."""
        if isinstance(sample, Failure):
            self._fail(sample)
        else:
            self._take(sample)

    def _fail(self, failure: Failure) -> None:
        unknown: Known[Any] = Known(None, str(failure.trouble))
        kept = self.state.sample
        self._meter.add(0.0, None)
        self._speeds.append(None)
        self.state = replace(
            self.state,
            sample=ServerSample(
                facts=unknown if kept.facts.value is None else kept.facts,
                slots=unknown,
                counters=unknown if kept.counters.value is None else kept.counters,
                is_here=kept.is_here,
                process=unknown,
            ),
            failure=failure,
            now_tokens_per_s=unknown,
            slot_tokens_per_s={},
            speeds=tuple(self._speeds),
        )

    def _take(self, sample: ServerSample) -> None:
        counters, slots = sample.counters.value, sample.slots.value
        self._meter.add(sample.time_s, slots)
        now = self._meter.tokens_per_s
        self._speeds.append(now)
        last = None if counters is None or counters.drafts is None else self._ended(counters.drafts)
        why_not = sample.slots.reason or "the server has been asked only once"
        self.state = replace(
            self.state,
            sample=sample,
            failure=None,
            now_tokens_per_s=Known(now, why_not if now is None else None),
            slot_tokens_per_s={
                slot.id: self._meter.of(slot)
                for slot in slots or ()
                if slot.phase is SlotPhase.GENERATING
            },
            speeds=tuple(self._speeds),
            last_drafts=last or self.state.last_drafts,
        )

    def _ended(self, now: DraftCounts) -> DraftCounts | None:
        """Counts of the requests that ended since the last ones; None while they are too few.

        The server rounds its totals. A difference that is too small against them waits for more.
        """
        before = self._counted or now
        if now.n_drafts < before.n_drafts:
            # The server was started again.
            before = DraftCounts(n_drafts=0, n_drafted=0, n_accepted=0)
        last = now.since(before)
        is_exact = is_exact_enough(last.n_drafts, now.n_drafts) and is_exact_enough(
            last.n_drafted, now.n_drafted
        )
        self._counted = now if is_exact else before
        return last if is_exact else None


def attach_document(state: AttachState, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
        interval_s: between two looks.
    """
    sample, speeds = state.sample, state.slot_tokens_per_s
    counters = sample.counters.value
    counts = None if counters is None else counters.drafts
    unseen = sample.counters.reason or _NEVER
    return {
        **head("attach"),
        "url": state.url,
        "interval_s": interval_s,
        "answered_in_s": sample.took_s,
        **known("server", sample.facts, _server, _MISSING),
        "throughput": {
            **or_reason("tokens_per_s", state.now_tokens_per_s, _MISSING),
            **or_reason("mean_tokens_per_s", counters and counters.tokens_per_s, unseen),
            **or_reason(
                "mean_prompt_tokens_per_s", counters and counters.prompt_tokens_per_s, unseen
            ),
            **known("counters", sample.counters, _counters, _MISSING),
        },
        **or_reason("acceptance", counts and _acceptance(counts), sample.undrafted or _MISSING),
        **known("slots", sample.slots, lambda each: [_slot(one, speeds) for one in each], _MISSING),
        "machine": {
            "is_this_machine": sample.is_here,
            **fields_of(sample, _MISSING, "process"),
        },
    }


def _server(facts: ServerFacts) -> Json:
    own = ("build", "alias", "model_path", "quantization", "n_ctx", "n_slots", "n_params")
    return fields_of(facts, _MISSING, *own, "size_bytes", "is_sleeping")


def _counters(counters: Counters) -> Json:
    counts = ("n_prompt", "n_predicted", "n_deferred")
    return fields_of(counters, _MISSING, *counts, "prompt_s", "predicted_s")


def _acceptance(counts: DraftCounts) -> Json:
    totals = ("n_drafts", "n_drafted", "n_accepted", "accepted_per_position")
    rates = ("acceptance_rate", "mean_accepted_length")
    return fields_of(counts, "nothing was drafted", *totals, *rates)


def _slot(slot: SlotReply, tokens_per_s: Mapping[int, float | None]) -> Json:
    own = ("id", "n_ctx", "speculates", "drafters", "task", "n_used", "n_decoded")
    idle = "it generates nothing, or was seen once"
    return {
        "state": str(slot.phase),
        **fields_of(slot, "the server does not tell, or has had no request", *own),
        **or_reason("tokens_per_s", tokens_per_s.get(slot.id), idle),
    }
