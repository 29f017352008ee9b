"""Rates from slots, from the server's counters over its restarts, and from its process."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spectui.known import Known
from spectui.monitor.readings import Ring
from spectui.server.metrics import NO_DRAFTS, Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.sample import HostState, ProcessSample

_DIGITS = 6
"""Significant ones of a number in llama-server's ``/metrics``."""
_ENOUGH = 20
"""A difference this many times as large as the rounding of its terms is off by 5 % at most."""


def progress(before: Counters, after: Counters) -> Counters:
    """Return the work between two looks; since its start, if the server was started again.

    Nothing in it is negative.
    """
    if was_restarted(before, after):
        return after
    return replace(
        after,
        n_prompt=after.n_prompt - before.n_prompt,
        prompt_s=after.prompt_s - before.prompt_s,
        n_predicted=after.n_predicted - before.n_predicted,
        predicted_s=after.predicted_s - before.predicted_s,
        drafts=(after.drafts or NO_DRAFTS) - (before.drafts or NO_DRAFTS),
    )


def was_restarted(before: Counters, after: Counters) -> bool:
    """Return whether the server was started between two looks: it says so, or counts anew."""
    if before.started != after.started:
        return True
    then, now = before.drafts or NO_DRAFTS, after.drafts or NO_DRAFTS
    pairs = (
        (before.n_prompt, after.n_prompt),
        (before.prompt_s, after.prompt_s),
        (before.n_predicted, after.n_predicted),
        (before.predicted_s, after.predicted_s),
        (then.n_drafts, now.n_drafts),
        (then.n_drafted, now.n_drafted),
        (then.n_accepted, now.n_accepted),
        *zip(then.accepted_per_position, now.accepted_per_position, strict=False),
    )
    is_shorter = len(now.accepted_per_position) < len(then.accepted_per_position)
    return is_shorter or any(new < old for old, new in pairs)


def is_exact_enough(difference: float, total: float) -> bool:
    """Return whether a difference of two totals says something, rounded as they are."""
    if difference <= 0 or total <= 0:
        return False
    step = 10.0 ** (math.floor(math.log10(total)) + 1 - _DIGITS)
    is_exact = isinstance(total, int) and total < 10**_DIGITS
    return is_exact or difference >= _ENOUGH * step


def decoded_between(before: SlotReply, after: SlotReply) -> int:
    """Return how many tokens a slot has generated between two looks, as far as they show.

    Of a request that began in between all tokens count, of one that ended its last ones are lost.
    """
    now = after.n_decoded or 0
    then = (before.n_decoded or 0) if before.task == after.task else 0
    # The numbers of requests begin anew with the server.
    return now - then if now >= then else now


WINDOW_S = 2.0
"""The window of a rate "now". With a shorter one, a round more or less moves the number."""
_COLUMN_S = 0.5
"""Time that one sample of the history stands for."""
N_COLUMNS = 200


@dataclass(slots=True)
class Window:
    """A growing count and its recent rate."""

    _points: deque[tuple[float, int]] = field(default_factory=deque)
    _total: int = 0

    def add(self, time_s: float, n: int) -> None:
        """Count ``n`` more at ``time_s``, which is not before the last one."""
        self._total += n
        self._points.append((time_s, self._total))
        # One interval is kept, however long it is.
        while len(self._points) > 2 and time_s - self._points[1][0] >= WINDOW_S:  # noqa: PLR2004 - its two ends
            self._points.popleft()

    def clear(self) -> None:
        """Begin anew."""
        self._points.clear()

    @property
    def per_s(self) -> float | None:
        """Over the window; None before two looks."""
        if len(self._points) <= 1:
            return None
        (began_s, first), (ended_s, last) = self._points[0], self._points[-1]
        return (last - first) / (ended_s - began_s) if ended_s > began_s else None


@dataclass(slots=True)
class SlotMeter:
    """Generation by the slots, while it happens."""

    _last: dict[int, SlotReply] = field(default_factory=dict)
    _all: Window = field(default_factory=Window)
    _each: dict[int, Window] = field(default_factory=dict)

    def add(self, time_s: float, slots: Sequence[SlotReply]) -> None:
        """Take a look at the slots."""
        total = 0
        for slot in slots:
            before = self._last.get(slot.id)
            n = 0 if before is None else decoded_between(before, slot)
            total += n
            window = self._each.setdefault(slot.id, Window())
            if not slot.is_processing or before is None or before.task != slot.task:
                window.clear()
            window.add(time_s, n)
        self._all.add(time_s, total)
        self._last = {slot.id: slot for slot in slots}

    def lose(self) -> None:
        """Forget what was seen: the next look is a first one."""
        self._last.clear()
        self._all.clear()
        self._each.clear()

    @property
    def tokens_per_s(self) -> float | None:
        """Rate of all slots together."""
        return self._all.per_s

    def of(self, slot: SlotReply) -> float | None:
        """Return the rate of one slot."""
        window = self._each.get(slot.id)
        return None if window is None else window.per_s


@dataclass(slots=True)
class Timed:
    """Tokens and the time that the server itself measured for them."""

    last_tokens_per_s: float | None = None
    """Rate of the work that ended last."""
    _n_tokens: int = 0
    _seconds: float = 0.0

    def add(self, done: tuple[int, float], total: tuple[int, float]) -> None:
        """Count what has ended since the last look, if anything did.

        The server rounds its totals. What is too little against them waits for more.

        Args:
            done: tokens and seconds.
            total: the same since the server was started.
        """
        self._n_tokens += done[0]
        self._seconds += done[1]
        both = zip((self._n_tokens, self._seconds), total, strict=True)
        if all(is_exact_enough(part, whole) for part, whole in both):
            self.last_tokens_per_s = self._n_tokens / self._seconds
            self._n_tokens, self._seconds = 0, 0.0


@dataclass(slots=True)
class Columns:
    """A history with a sample per half second, whatever the interval of the looks."""

    _ring: Ring = field(default_factory=lambda: Ring(N_COLUMNS))
    _next_s: float | None = None
    _last: float | None = None

    def add(self, time_s: float, value: float | None) -> None:
        """Add the value at ``time_s``, which has held since the last time unless that was None."""
        next_s = time_s if self._next_s is None else self._next_s
        if time_s < next_s:
            return
        n_missed = min(int((time_s - next_s) / _COLUMN_S), N_COLUMNS)
        for _ in range(n_missed):
            self._ring.append(None if self._last is None else value)
        self._ring.append(value)
        self._last = value
        self._next_s = next_s + (n_missed + 1) * _COLUMN_S

    def values(self) -> tuple[float | None, ...]:
        """Oldest first; None where nothing was known."""
        return self._ring.values()


@dataclass(slots=True)
class DraftMeter:
    """Adds drafts up, and keeps the acceptance of each."""

    watched: DraftCounts = NO_DRAFTS
    last: DraftCounts | None = None
    history: Ring = field(default_factory=lambda: Ring(N_COLUMNS))

    pending: DraftCounts = NO_DRAFTS
    """Counts that are too small yet against totals that the server rounds."""

    def add(self, done: DraftCounts, total: DraftCounts) -> None:
        """Add the drafts of requests that ended since the last look, if any."""
        self.watched += done
        self.pending += done
        is_known = is_exact_enough(self.pending.n_drafts, total.n_drafts)
        if is_known and is_exact_enough(self.pending.n_drafted, total.n_drafted):
            self.last, self.pending = self.pending, NO_DRAFTS
            self.history.append(self.last.acceptance_rate)


class ProcessMeter:
    """Turns readings that are at most a second old into rates."""

    def __init__(self) -> None:
        """Start without a reading."""
        self._last: tuple[float, ProcessSample] | None = None
        self._state = HostState()

    def lose(self, reason: str) -> HostState:
        """Return the state without an answer: only the server's place is kept."""
        self._last = None
        self._state = HostState(
            is_here=self._state.is_here,
            process=Known(None, reason),
            read_bytes_per_s=Known(None, reason),
        )
        return self._state

    def add(self, time_s: float, where: HostState) -> HostState:
        """Add counts at ``time_s``."""
        now, before = where.process.value, self._last
        if now is None:
            self._last = None
            self._state = replace(where, read_bytes_per_s=Known(None, where.process.reason))
        elif before is None or before[1] is not now:
            # The same one comes until the process is looked at again, once per second.
            self._last = time_s, now
            self._state = _host_state(before, time_s, now)
        return self._state


def _host_state(
    before: tuple[float, ProcessSample] | None, time_s: float, now: ProcessSample
) -> HostState:
    unknown: Known[float] = Known(None, now.read_bytes.reason or "a rate needs two readings")
    if before is None or before[1].pid != now.pid or time_s <= before[0]:
        return HostState(is_here=True, process=Known(now), read_bytes_per_s=unknown)
    seconds, then = time_s - before[0], before[1]
    read, had_read = now.read_bytes.value, then.read_bytes.value
    known = read is not None and had_read is not None
    return HostState(
        is_here=True,
        process=Known(now),
        cores=max(now.cpu_s - then.cpu_s, 0.0) / seconds,
        read_bytes_per_s=Known(max((read or 0) - (had_read or 0), 0) / seconds)
        if known
        else unknown,
    )
