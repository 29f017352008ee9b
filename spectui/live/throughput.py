"""Tokens per second: now, in this turn, in this session, against the target alone."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from spectui.engine.events import PromptEvaluated
from spectui.monitor.readings import Ring

WINDOW_S = 2.0
"""Length of "now". Shorter, and a round more or less moves the number."""
_SAMPLE_S = 0.5
"""Decode time that one sample of the history stands for."""
N_SAMPLES = 160
_MINUTE_S = 60


class Phase(StrEnum):
    """Phases of an answer."""

    IDLE = "idle"
    PROMPT = "reading the prompt"
    DECODING = "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputState:
    """Decode throughput, as llama-server counts it: without the prompt and its first token."""

    phase: Phase = Phase.IDLE
    now_tokens_per_s: float | None = None
    """Over the last ``WINDOW_S`` of decoding; None while nothing is decoded."""
    turn_tokens_per_s: float | None = None
    session_tokens_per_s: float | None = None
    baseline_tokens_per_s: float | None = None
    """The target alone; None before it was measured."""
    baseline_age_min: int | None = None
    """Whole minutes since the baseline was measured."""
    prompt: PromptEvaluated | None = None
    history: tuple[float | None, ...] = ()
    """Tokens per second of each half second of decoding; None between turns."""

    @property
    def speedup_now(self) -> float | None:
        """Against the baseline."""
        return ratio(self.now_tokens_per_s, self.baseline_tokens_per_s)

    @property
    def speedup_turn(self) -> float | None:
        """Against the baseline."""
        return ratio(self.turn_tokens_per_s, self.baseline_tokens_per_s)


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return their quotient; None if one is missing or there is nothing to divide by."""
    return part / whole if part is not None and whole else None


@dataclass(slots=True)
class Rate:
    """Tokens over seconds, added up."""

    n_tokens: int = 0
    seconds: float = 0.0

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count some more."""
        self.n_tokens += n_tokens
        self.seconds += seconds

    @property
    def per_s(self) -> float | None:
        """None before anything took time."""
        return ratio(self.n_tokens, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The target alone, at one moment: a machine's speed changes."""

    tokens_per_s: float
    at_s: float
    """Time by the meter's clock."""


@dataclass(slots=True)
class ThroughputMeter:
    """Counts rounds. Times are the rounds' own: events may arrive late and in bunches."""

    phase: Phase = Phase.IDLE
    prompt: PromptEvaluated | None = None
    clock: Callable[[], float] = time.monotonic
    _baseline: Baseline | None = None
    _turn: Rate = field(default_factory=Rate)
    _session: Rate = field(default_factory=Rate)
    _sample: Rate = field(default_factory=Rate)
    _recent: deque[tuple[int, float]] = field(default_factory=deque)
    _recent_s: float = 0.0
    _history: Ring = field(default_factory=lambda: Ring(N_SAMPLES))

    def measured_alone(self, tokens_per_s: float) -> None:
        """Take how fast the target is alone, now."""
        self._baseline = Baseline(tokens_per_s=tokens_per_s, at_s=self.clock())

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """The target alone; None before it was measured."""
        return None if self._baseline is None else self._baseline.tokens_per_s

    def _baseline_age_min(self) -> int | None:
        if self._baseline is None:
            return None
        return int((self.clock() - self._baseline.at_s) // _MINUTE_S)

    def begin_turn(self) -> None:
        """Start counting a turn."""
        if self._turn.n_tokens:
            self._history.append(None)
        self.phase = Phase.PROMPT
        self.prompt = None
        self._turn, self._sample = Rate(), Rate()
        self._recent.clear()
        self._recent_s = 0.0

    def prompt_evaluated(self, prompt: PromptEvaluated) -> None:
        """Decoding begins."""
        self.phase, self.prompt = Phase.DECODING, prompt

    def end_turn(self) -> None:
        """End decoding."""
        self.phase = Phase.IDLE

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count a round."""
        for rate in (self._turn, self._session, self._sample):
            rate.add(n_tokens, seconds)
        self._recent.append((n_tokens, seconds))
        self._recent_s += seconds
        # One round is kept, however long it takes.
        while len(self._recent) > 1 and self._recent_s - self._recent[0][1] >= WINDOW_S:
            self._recent_s -= self._recent.popleft()[1]
        if self._sample.seconds >= _SAMPLE_S:
            self._history.append(self._sample.per_s)
            self._sample = Rate()

    def state(self) -> ThroughputState:
        """Return the present numbers."""
        is_decoding = self.phase is Phase.DECODING
        recent = Rate(sum(n for n, _s in self._recent), sum(s for _n, s in self._recent))
        return ThroughputState(
            phase=self.phase,
            now_tokens_per_s=recent.per_s if is_decoding else None,
            turn_tokens_per_s=self._turn.per_s,
            session_tokens_per_s=self._session.per_s,
            baseline_tokens_per_s=self.baseline_tokens_per_s,
            baseline_age_min=self._baseline_age_min(),
            prompt=self.prompt,
            history=self._history.values(),
        )
