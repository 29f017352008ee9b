"""The state of a watched server, made from samples. Pure."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spectui.documents import Known
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.sample import NOT_ASKED, Failure, HostState, Sample, ServerSample

_N_LOOKS = 200
"""Looks, or ended requests, that a history holds."""
_DIGITS = 6
"""Significant ones of a number in llama-server's ``/metrics``."""
_ENOUGH = 20
"""A difference this many times as large as the rounding of its terms is off by 5 % at most."""
_WINDOW_S = 2.0
"""The window of a rate "now". With a shorter one, a round more or less moves the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachState:
    """The state that is shown. Facts and counts are kept while the connection is lost."""

    url: str
    sample: ServerSample = field(default_factory=ServerSample)
    """The last answers."""
    failure: Failure | None = None
    """Why there is no connection; None before the first answer, too."""
    n_restarts: int = 0
    """Restarts of the server since it is watched."""
    now_tokens_per_s: Known[float] = NOT_ASKED
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    slot_tokens_per_s: Mapping[int, float | None] = field(default_factory=dict)
    """The same of each slot that generates, by its number."""
    last_tokens_per_s: float | None = None
    """Generation of the requests that ended last, as the server measured them."""
    last_prompt_tokens_per_s: float | None = None
    """Rate of the prompts that were evaluated last, as the server measured them."""
    speeds: tuple[float | None, ...] = ()
    """Tokens per second at every look; None where nothing was known."""
    last_drafts: DraftCounts | None = None
    """Counts of the requests that ended last, without positions."""


def is_exact_enough(difference: float, total: float) -> bool:
    """Return whether a difference of two totals says something, rounded as they are."""
    if difference <= 0 or total <= 0:
        return False
    step = 10.0 ** (math.floor(math.log10(total)) + 1 - _DIGITS)
    is_exact = isinstance(total, int) and total < 10**_DIGITS
    return is_exact or difference >= _ENOUGH * step


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


class Ended:
    """Counts of the requests that ended last, from totals since the server was started.

    The server rounds its totals. A difference that is too small against them waits for more.
    """

    def __init__(self) -> None:
        """Start without a total."""
        self._before: tuple[float, ...] | None = None
        self.last: tuple[float, ...] | None = None
        """Counts of the requests that ended last; None until one has."""

    def add(self, *totals: float, is_anew: bool) -> bool:
        """Take the totals, of which the first two must have grown; return whether ``last`` is new.

        Args:
            *totals: counts since the server was started.
            is_anew: whether it was started since the last look.
        """
        if self._before is None or is_anew:
            is_first, self._before = self._before is None, (0.0,) * len(totals)
            if is_first:
                self._before = totals
        done = tuple(now - then for now, then in zip(totals, self._before, strict=True))
        if not all(map(is_exact_enough, done[:2], totals[:2])):
            return False
        self.last, self._before = done, totals
        return True


class Tracker:
    """Keeps what a server did, over lost connections and its own restarts."""

    def __init__(self, url: str) -> None:
        """Start without a sample."""
        self.state = AttachState(url=url)
        """The state to show now."""
        self._started: str | None = None
        self._meter = SlotMeter()
        self._answers, self._prompts, self._drafts = Ended(), Ended(), Ended()
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
        is_here = kept.host.is_here
        self._meter.add(0.0, None)
        self._speeds.append(None)
        self.state = replace(
            self.state,
            sample=ServerSample(
                facts=unknown if kept.facts.value is None else kept.facts,
                slots=unknown,
                counters=unknown if kept.counters.value is None else kept.counters,
                host=HostState(is_here=is_here, process=unknown, read_bytes_per_s=unknown),
            ),
            failure=failure,
            now_tokens_per_s=unknown,
            slot_tokens_per_s={},
            speeds=tuple(self._speeds),
        )

    def _take(self, sample: ServerSample) -> None:
        before, counters, slots = self.state, sample.counters.value, sample.slots.value
        is_anew = counters is not None and self._count(counters)
        self._meter.add(sample.time_s, slots)
        now = self._meter.tokens_per_s
        self._speeds.append(now)
        why_not = sample.slots.reason or "the server has been asked only once"
        if sample.facts.value is None and before.sample.facts.value is not None:
            sample = replace(sample, facts=before.sample.facts)
        self.state = replace(
            before,
            sample=sample,
            failure=None,
            n_restarts=before.n_restarts + is_anew,
            now_tokens_per_s=Known(now, why_not if now is None else None),
            slot_tokens_per_s={
                slot.id: self._meter.of(slot)
                for slot in slots or ()
                if slot.phase is SlotPhase.GENERATING
            },
            last_tokens_per_s=_rate(self._answers),
            last_prompt_tokens_per_s=_rate(self._prompts),
            speeds=tuple(self._speeds),
            last_drafts=_drafts(self._drafts),
        )

    def _count(self, now: Counters) -> bool:
        """Take the counters; return whether the server was started again since the last ones."""
        is_anew = self._started is not None and self._started != now.started
        self._started = now.started
        self._answers.add(now.n_predicted, now.predicted_s, is_anew=is_anew)
        self._prompts.add(now.n_prompt, now.prompt_s, is_anew=is_anew)
        if now.drafts is not None:
            counts = now.drafts.n_drafts, now.drafts.n_drafted, now.drafts.n_accepted
            self._drafts.add(*counts, is_anew=is_anew)
        return is_anew


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
