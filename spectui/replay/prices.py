"""What a round costs: seconds of each of its parts, at several depths of the context."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Curve = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPrices:
    """Seconds of a round's parts at one depth of the context."""

    chain: Curve
    """[depth + 1]: a chain of n decodes, n = 0 for none."""
    catch_up: float
    """More for a chain that begins with two tokens, on the ``fast`` schedule."""
    batch: Curve
    """[depth + 1]: verifying a draft of n tokens, and what the draft does with it afterwards."""
    token: float
    """Per emitted token: sampling, and telling of it."""
    fixed: float
    """Per round: everything else."""
    rollback: float
    """More where drafted tokens were rejected."""
    rollback_token: float
    """More than that per token that was accepted before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices at some depths; between them, and beyond, along straight lines."""

    depths: tuple[int, ...]
    """Ascending: tokens in the cache when the round begins."""
    rounds: tuple[RoundPrices, ...]
    """At each depth."""

    def at(self, n_past: int) -> RoundPrices:
        """Prices of a round that begins with ``n_past`` tokens in the cache."""
        if len(self.depths) == 1:
            return self.rounds[0]
        last = len(self.depths) - 2
        left = min(max(int(np.searchsorted(self.depths, n_past, "right")) - 1, 0), last)
        near, far = self.rounds[left], self.rounds[left + 1]
        share = (n_past - self.depths[left]) / (self.depths[left + 1] - self.depths[left])
        share = max(share, 0.0)
        return RoundPrices(
            chain=near.chain + share * (far.chain - near.chain),
            catch_up=near.catch_up + share * (far.catch_up - near.catch_up),
            batch=near.batch + share * (far.batch - near.batch),
            token=near.token + share * (far.token - near.token),
            fixed=near.fixed + share * (far.fixed - near.fixed),
            rollback=near.rollback + share * (far.rollback - near.rollback),
            rollback_token=near.rollback_token + share * (far.rollback_token - near.rollback_token),
        )
