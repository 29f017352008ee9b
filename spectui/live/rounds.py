"""Rounds: acceptance, and what verifying costs."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from spectui.format import counted
from spectui.monitor.bottleneck import Bottleneck, ratio
from spectui.speculative.counters import Counters, Round, RoundTimes

N_MEAN = 32
"""Rounds that the means are taken over: a few seconds, so that a change shows soon."""
_N_PER_SIZE = 32
_N_TRUSTED = 3
"""Decodes of one size from which on their mean is used, and the baseline's is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCost:
    """Decodes of the target with one batch size."""

    n_tokens: int
    seconds: float
    """V(n)."""
    ratio: float | None
    """V(n)/V(1); None before V(1) is known."""
    at_random: float | None = None
    """The same by the bytes that RAM gives, were experts routed at random; None without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The mean of the last rounds."""

    reason: str | None = "no round has been run yet"
    """Why there are no times; None if there are."""
    times: RoundTimes | None = None
    tokens_per_round: float | None = None
    batch: VerifyCost | None = None
    """Cost of verifying at the most frequent batch size."""
    verify_costs: tuple[VerifyCost, ...] = ()
    """Costs of verifying by batch size, ascending."""
    bottleneck: Bottleneck | None = None
    history_s: tuple[float | None, ...] = ()
    """Durations of the last rounds."""


class VerifyTimes:
    """Mean decode times of the target by batch size, of the last decodes of each."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_size: dict[int, deque[float]] = {}

    def add(self, n_tokens: int, seconds: float) -> None:
        """Take one decode."""
        self._by_size.setdefault(n_tokens, deque(maxlen=_N_PER_SIZE)).append(seconds)

    def step_s(self, baseline_s: float | None) -> float | None:
        """V(1): of rounds of this chat that drafted nothing, else of the baseline."""
        singles = self._by_size.get(1, ())
        if len(singles) >= _N_TRUSTED or (singles and baseline_s is None):
            return sum(singles) / len(singles)
        return baseline_s

    def costs(self, baseline_s: float | None) -> tuple[VerifyCost, ...]:
        """Return V(n) by batch size; V(1) may be the baseline's."""
        step_s = self.step_s(baseline_s)
        sizes = {n: sum(times) / len(times) for n, times in self._by_size.items()}
        if step_s is not None and len(self._by_size.get(1, ())) < _N_TRUSTED:
            sizes[1] = step_s
        return tuple(
            VerifyCost(n_tokens=n, seconds=mean_s, ratio=ratio(mean_s, step_s))
            for n, mean_s in sorted(sizes.items())
        )


def round_state(recent: Sequence[Round], costs: tuple[VerifyCost, ...]) -> RoundState:
    """Return means, costs and history of the last rounds, without the bottleneck.

    Args:
        recent: the last rounds, oldest first.
        costs: V(n) by batch size.
    """
    last = recent[-N_MEAN:]
    if not last:
        return RoundState(verify_costs=costs)
    sizes = Counter(finished.n_drafted + 1 for finished in last)
    (usual, _n), *_ = sizes.most_common(1)
    return RoundState(
        reason=None,
        times=sum((one.times for one in last), RoundTimes()).scaled(1 / len(last)),
        tokens_per_round=sum(len(finished.tokens) for finished in last) / len(last),
        batch=next((cost for cost in costs if cost.n_tokens == usual), None),
        verify_costs=costs,
        history_s=tuple(finished.times.total_s for finished in recent),
    )


def draft_step_s(counters: Counters) -> float | None:
    """Return the mean seconds per drafted token; of a drafter without a model, of all its work."""
    if counters.n_steps:
        return counters.chain_s / counters.n_steps
    return ratio(counters.times.draft_s, counters.n_drafted)


_NOTHING = Counters()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceState:
    """Acceptance of this turn, or why there is none."""

    reason: str | None = "nothing has been drafted yet"
    """Why there is no acceptance rate; None if there is one."""
    turn: Counters = _NOTHING
    """Counters of this turn."""
    setting: Counters = _NOTHING
    """Counters of all turns with the present settings."""
    recent: tuple[tuple[int, int], ...] = ()
    """Drafted and accepted tokens of the last rounds, oldest first."""


def undrafted_reason(turn: Counters, *, by_ngrams: bool) -> str | None:
    """Return why a turn has drafted nothing; None where it has.

    Args:
        turn: counters of the turn.
        by_ngrams: whether the text itself is drafted from, without a model.
    """
    if turn.n_drafted:
        return None
    if not turn.n_rounds:
        return "this turn has drafted nothing yet"
    if by_ngrams:
        return f"no draft in {counted(turn.n_rounds, 'round')} of this turn: too little to repeat"
    why = "draft_p_min or draft_min drops them all"
    return f"no draft in {counted(turn.n_rounds, 'round')}: {why}"
