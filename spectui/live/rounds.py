"""Where the time of a round goes, and what verifying costs by the size of the batch."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from spectui.live.bottleneck import Bottleneck
from spectui.live.throughput import ratio
from spectui.speculative.counters import Round, RoundTimes

N_MEAN = 32
"""Rounds that the means are taken over: a few seconds, so that a change shows soon."""
_N_PER_SIZE = 32
_N_TRUSTED = 3
"""Decodes of one size from which on their mean stands before the baseline's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCost:
    """Decodes of the target with one batch size."""

    n_tokens: int
    seconds: float
    """V(n)."""
    ratio: float | None
    """V(n)/V(1); None before V(1) is known."""
    n_rounds: int
    """Rounds behind it; 0 for the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The mean of the last rounds."""

    reason: str | None = "no round has been run yet"
    """Why there are no times; None if there are."""
    times: RoundTimes | None = None
    tokens_per_round: float | None = None
    n_rounds: int = 0
    """Behind the means."""
    batch: VerifyCost | None = None
    """What verifying costs at the most frequent batch size."""
    verify_costs: tuple[VerifyCost, ...] = ()
    """By batch size, ascending."""
    bottleneck: Bottleneck | None = None
    history_s: tuple[float | None, ...] = ()
    """Durations of the last rounds."""


class VerifyTimes:
    """Mean decode times of the target by batch size, of the last decodes of each."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_size: dict[int, deque[float]] = {}
        self.baseline_s: float | None = None
        """V(1) as measured by the baseline."""

    def add(self, n_tokens: int, seconds: float) -> None:
        """Take one decode."""
        self._by_size.setdefault(n_tokens, deque(maxlen=_N_PER_SIZE)).append(seconds)

    @property
    def step_s(self) -> float | None:
        """V(1): of rounds of this chat that drafted nothing, else of the baseline."""
        singles = self._by_size.get(1, ())
        if len(singles) >= _N_TRUSTED or (singles and self.baseline_s is None):
            return sum(singles) / len(singles)
        return self.baseline_s

    def costs(self) -> tuple[VerifyCost, ...]:
        """Return V(n) by batch size."""
        step_s = self.step_s
        sizes = {n: (sum(times) / len(times), len(times)) for n, times in self._by_size.items()}
        if step_s is not None and len(self._by_size.get(1, ())) < _N_TRUSTED:
            sizes[1] = step_s, 0
        return tuple(
            VerifyCost(n_tokens=n, seconds=mean_s, ratio=ratio(mean_s, step_s), n_rounds=count)
            for n, (mean_s, count) in sorted(sizes.items())
        )


def mean_times(rounds: Sequence[Round]) -> RoundTimes:
    """Return the mean of each part. There must be a round."""
    n = len(rounds)
    return RoundTimes(
        draft_s=sum(r.times.draft_s for r in rounds) / n,
        verify_s=sum(r.times.verify_s for r in rounds) / n,
        sample_s=sum(r.times.sample_s for r in rounds) / n,
        rollback_s=sum(r.times.rollback_s for r in rounds) / n,
        other_s=sum(r.times.other_s for r in rounds) / n,
    )


def usual_batch(rounds: Sequence[Round], costs: Sequence[VerifyCost]) -> VerifyCost | None:
    """Return the cost at the batch size that most of ``rounds`` have."""
    sizes = [finished.n_drafted + 1 for finished in rounds]
    usual = max(set(sizes), key=sizes.count, default=None)
    return next((cost for cost in costs if cost.n_tokens == usual), None)


def round_state(
    recent: Sequence[Round], costs: tuple[VerifyCost, ...], bottleneck: Bottleneck | None
) -> RoundState:
    """Put the numbers together.

    Args:
        recent: the last rounds, oldest first.
        costs: V(n) by batch size.
        bottleneck: what limits them.
    """
    last = recent[-N_MEAN:]
    if not last:
        return RoundState(verify_costs=costs)
    return RoundState(
        reason=None,
        times=mean_times(last),
        tokens_per_round=sum(len(finished.tokens) for finished in last) / len(last),
        n_rounds=len(last),
        batch=usual_batch(last, costs),
        verify_costs=costs,
        bottleneck=bottleneck,
        history_s=tuple(finished.times.total_s for finished in recent),
    )
