"""Rates from looks at the slots, and from the server's counters over its restarts."""

import math
from collections import deque

from spectui.server.replies import SlotReply

_DIGITS = 6
"""Significant ones of a number in llama-server's ``/metrics``."""
_ENOUGH = 20
"""A difference this many times as large as the rounding of its terms is off by 5 % at most."""
_WINDOW_S = 2.0
"""The window of a rate "now". With a shorter one, a round more or less moves the number."""


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
