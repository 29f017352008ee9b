"""What was measured of a target with one drafter, before any cost is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.speculative.counters import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A round, and where it took place."""

    group: int
    """The generation."""
    n_past: int
    """Tokens in the cache when it began."""
    catches_up: bool
    """Whether its chain began with two tokens."""
    round: Round


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedOff:
    """A generation of the target alone."""

    group: int
    """The generation with drafts that it was run next to."""
    n_past: float
    """Tokens in the cache in its middle."""
    token_s: float
    """Seconds per token, the first one left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What was measured of a target with one drafter."""

    observed: Sequence[Observed]
    """Rounds of several generations with drafts of varied lengths, the first of each left out."""
    off: Sequence[ObservedOff]


def pooled(all_probed: Sequence[Probed]) -> Probed:
    """All together; generations of different drafters are different ones."""
    observed: list[Observed] = []
    off: list[ObservedOff] = []
    first = 0
    for probed in all_probed:
        observed += [replace(one, group=first + one.group) for one in probed.observed]
        off += [replace(one, group=first + one.group) for one in probed.off]
        first += 1 + max((one.group for one in probed.observed), default=0)
    return Probed(observed=observed, off=off)
