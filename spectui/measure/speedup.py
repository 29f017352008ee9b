"""The speedup on prompts, its interval, and the most that accepted tokens can give. Pure.

A speedup above the most is the machine's noise.

A round of speculation evaluates at least one token on the target, and emits one token of the target
and those of its draft that were accepted; one that a checkpoint makes the target redo emits one
more, for a second evaluation. So a prompt that decodes ``N`` tokens, of which ``A`` were accepted,
makes the target work ``N - A`` times at least, and once at least. If each of these costs no less
than a token of the target alone does on that prompt, which took ``T`` seconds for ``M`` tokens,
speculation takes ``(N - A) * T / M`` seconds at least, even with a drafter that costs nothing. With
this for the measured seconds of every prompt, the ratio of throughputs is the ceiling; for one
prompt, or prompts that are alike, it is ``N / (N - A)``.

What that assumes: both sides run the same target on the same machine. A batch costs no less than a
token, which more threads for batches (``-tb`` above ``-t``) could undo where compute decides. The
tokens of one answer cost alike. Where a draft takes room from the target, the target alone is never
the slower one, which only lowers what is possible. Costs of prompts need not be alike: each is
compared with its own baseline.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.documents import Json, or_reason
from spectui.format import factor, gain_percent, is_large

NO_INTERVAL = "the interval is not known"
_SMALL_PERCENT = 9.95
"""Gain below which, as it is printed, a decimal is shown."""
_EVEN = 1.5
"""Sides of an interval that differ by no more than this factor are written as one ±."""
CEILING_DIGITS = 9
"""Digits of a ceiling: sums in another order may not make noise of what is equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMeasurement:
    """One prompt decoded with speculation off and on, close in time; decoding only.

    Raises:
        ValueError: seconds or tokens are not positive, so that there is no throughput.
    """

    prompt_id: str
    category: str = ""
    baseline_s: float
    baseline_tokens: int = 1
    speculative_s: float
    speculative_tokens: int = 1
    n_accepted: int | None = None
    """Drafted tokens that the target confirmed; None where that is not known, or where the baseline
    is not the target alone."""

    def __post_init__(self) -> None:
        seconds = (self.baseline_s, self.speculative_s)
        tokens = (self.baseline_tokens, self.speculative_tokens)
        if not all(0 < value < math.inf for value in (*seconds, *tokens)):
            raise ValueError(f"prompt {self.prompt_id}: seconds {seconds} and tokens {tokens}")

    @property
    def fastest(self) -> "PairedMeasurement | None":
        """The pair with a drafter that costs nothing; None where it is unknown what was accepted.

        An answer may end within what was accepted.
        """
        if self.n_accepted is None:
            return None
        least_n = max(self.speculative_tokens - self.n_accepted, 1)
        return replace(self, speculative_s=least_n * self.baseline_s / self.baseline_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Throughput with speculation over throughput without; 1.25 is 25 % faster.

    ``low`` and ``high`` are None when the interval cannot be known; ``interval_reason`` says why.
    """

    estimate: float
    low: float | None
    high: float | None
    level: float = 0.95
    n_pairs: int
    """Measured pairs, repeats included."""
    n_prompts: int
    """Distinct prompts: what the width of the interval depends on."""
    n_timed: int | None = None
    """Prompts of these that were timed, where the others were counted and priced; None where
    all were timed."""
    n_accepting: int | None = None
    """Prompts on which any drafted token was accepted; None where that is not known."""
    n_looks: int = 1
    """At growing data, this one included: the interval allows for them."""
    interval_reason: str | None = None
    ceiling: float | None = None
    """The most that the accepted tokens can give: that of ``PairedMeasurement.fastest``. None where
    that is not known."""

    @property
    def is_noise(self) -> bool:
        """Whether all of the interval, or the estimate without one, is above the ceiling.

        No gain follows from such a measurement.
        """
        return self.exceeds_ceiling(self.estimate if self.low is None else self.low)

    @property
    def is_capped(self) -> bool:
        """Whether any of its numbers is above the ceiling."""
        return self.exceeds_ceiling(max(self.estimate, self.high or 0.0))

    def exceeds_ceiling(self, value: float) -> bool:
        """Whether a speedup is above the ceiling: noise is part of it."""
        return self.ceiling is not None and round(value, CEILING_DIGITS) > self.ceiling

    @property
    def capped(self) -> "Speedup":
        """The speedup as it is shown: no number is above the ceiling."""
        ceiling = self.ceiling
        if ceiling is None or not self.is_capped:
            return self
        low, high = (None if end is None else min(end, ceiling) for end in (self.low, self.high))
        return replace(self, estimate=min(self.estimate, ceiling), low=low, high=high)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where the interval is unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def values(self) -> tuple[float, ...]:
        """The estimate, and both ends where they are known, as they are shown."""
        return (self.capped.estimate, *(self.capped.interval or ()))

    def document(self) -> Json:
        """The speedup as measured, with the most that the accepted tokens can give."""
        reason = self.interval_reason or NO_INTERVAL
        return {
            "speedup": self.estimate,
            **or_reason("speedup_ci95", self.interval, reason),
            **or_reason("speedup_at_most", self.ceiling, "it is not known what was accepted"),
            "speedup_is_noise": self.is_noise,
            "speedup_is_capped": self.is_capped,
        }


def gain_text(speedup: Speedup) -> str:
    """A gain such as ``+27 % (+20 to +34)``; without an interval if there is none."""
    interval = interval_text(speedup)
    value = gain_texts(speedup.values)[0]
    return f"{value} ({interval})" if interval else value


def interval_text(speedup: Speedup) -> str:
    """An interval such as ``+20 to +34``; empty if it is unknown."""
    _value, *ends = gain_texts(speedup.values)
    return " to ".join(end.removesuffix(" %") for end in ends)


def gain_texts(speedups: Sequence[float]) -> list[str]:
    """Speedups as gains such as ``+27 %``, all in the notation of the largest: they compare."""
    gains = [100 * (one - 1) for one in speedups]
    if is_large(max(gains)):
        return [f"{factor(one)}×" for one in speedups]
    return [gain_percent(gain, _decimals(gains)) for gain in gains]


def _decimals(gains: Sequence[float]) -> int:
    return int(all(abs(gain) < _SMALL_PERCENT for gain in gains))


def spread_text(speedups: Sequence[float]) -> str:
    """The interval of a gain as `` ± 4``, in the notation of ``gain_texts``.

    Empty without one, where its sides are uneven, where it holds 0 but a ± would not (or the other
    way round), and where gains are written as factors.

    Args:
        speedups: the estimate, and both ends of its interval.
    """
    gain, *ends = (100 * (one - 1) for one in speedups)
    if not ends or is_large(max(ends)):
        return ""
    below, above, half = gain - ends[0], ends[1] - gain, (ends[1] - ends[0]) / 2
    if max(below, above) > _EVEN * min(below, above) or (gain > half) != (ends[0] > 0):
        return ""
    return f" ± {half:.{_decimals([gain, *ends])}f}"
