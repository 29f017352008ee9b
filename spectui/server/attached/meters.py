"""Tokens per second, from what slots show and from what the server counts."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from spectui.monitor.history import Ring
from spectui.server.attached.counting import Progress, decoded_between, is_exact_enough
from spectui.server.attached.sample import Counters, SlotSample

WINDOW_S = 2.0
"""What "now" means. Shorter, and a round more or less moves the number."""
_COLUMN_S = 0.5
"""Time that one sample of the history stands for."""
N_COLUMNS = 200


@dataclass(slots=True)
class Window:
    """A count that grows, and how fast it did lately."""

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
    """Generation as the slots show it: while it happens."""

    _last: dict[int, SlotSample] = field(default_factory=dict)
    _all: Window = field(default_factory=Window)
    _each: dict[int, Window] = field(default_factory=dict)

    def add(self, time_s: float, slots: Sequence[SlotSample]) -> None:
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
        """What happens from now on is not seen."""
        self._last.clear()
        self._all.clear()
        self._each.clear()

    @property
    def tokens_per_s(self) -> float | None:
        """Of all slots together."""
        return self._all.per_s

    def of(self, slot: SlotSample) -> float | None:
        """Of one slot."""
        window = self._each.get(slot.id)
        return None if window is None else window.per_s


@dataclass(slots=True)
class Timed:
    """Tokens and the time that the server itself measured for them."""

    last_tokens_per_s: float | None = None
    """Of what ended last."""
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
        """Take what holds at ``time_s``, and has held since the last time unless that was None."""
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
class CountedMeter:
    """Prompts and generation as the server counts them: when they end."""

    prompts: Timed = field(default_factory=Timed)
    answers: Timed = field(default_factory=Timed)
    n_predicted: int = 0

    def add(self, done: Progress, now: Counters) -> None:
        """Take what happened since the last look."""
        self.n_predicted += done.n_predicted
        self.prompts.add((done.n_prompt, done.prompt_s), (now.n_prompt, now.prompt_s))
        self.answers.add((done.n_predicted, done.predicted_s), (now.n_predicted, now.predicted_s))
