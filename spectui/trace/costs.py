"""The cost model: seconds of a round's parts, by length of the draft and depth of the context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta

Vector = npt.NDArray[np.float64]
MAX_DEPTH = 254
"""Longest draft that a replay takes."""
MAX_INT = 2**31 - 1
"""Largest number of llama.cpp's."""
_HOUR_S = 3600.0
"""Limit of any part of a round."""
Seconds = Annotated[float, Meta(ge=0, le=_HOUR_S)]
Taken = Annotated[float, Meta(ge=1e-9, le=_HOUR_S)]
"""At least a nanosecond: no decode is faster, and speedups divide by these."""
Lengths = Annotated[tuple[Annotated[int, Meta(ge=0, le=MAX_DEPTH)], ...], Meta(min_length=1)]
Count = Any
"""A number, or an array of numbers."""


class Prices(NamedTuple):
    """Seconds of a round's parts in an empty context, and their growth with the tokens in it."""

    chain: Vector
    """[depth + 1]: a chain of n decodes, n = 0 for none."""
    batch: Vector
    """[depth + 1]: verifying a draft of n tokens, what the draft does with it afterwards, and
    saving the target's state before it."""
    token: float
    """Per emitted token: sampling, and emitting its event."""
    fixed: float
    """Per round: everything else."""
    rollback: float
    """Additional price where drafted tokens were rejected."""
    rollback_token: float
    """Further price per token that was accepted before them."""
    chain_growth: Vector | float = 0.0
    """Growth of ``chain`` per token in the cache when the round begins."""
    batch_growth: Vector | float = 0.0

    def at(self, n_past: int) -> "Prices":
        """Prices of rounds that begin with ``n_past`` tokens in the cache."""
        chain = self.chain + n_past * self.chain_growth
        return self._replace(chain=chain, batch=self.batch + n_past * self.batch_growth)

    def seconds(
        self, steps: Count, drafted: Count, accepted: Count, emitted: Count, wrong: Count
    ) -> Vector:
        """Seconds of rounds; all arguments have one shape, or none.

        Args:
            steps: decodes of the draft's chain.
            drafted: tokens.
            accepted: of these.
            emitted: tokens.
            wrong: whether the round ends in a mismatch, or how probable that is.
        """
        found: Vector = self.batch[drafted] + self.chain[steps]
        found += self.fixed + self.token * emitted
        found += (self.rollback + self.rollback_token * accepted) * wrong
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of rounds at one depth of the context, and the growth with each token of depth.

    Every token of a batch attends to all of the context, so long drafts grow dearer with depth
    than single tokens do, which mostly wait for the weights.
    """

    n_past: Annotated[float, Meta(ge=0, le=MAX_INT)]
    """The depth, in tokens."""
    lengths: Lengths
    """Drafted tokens of the rounds that were measured, ascending; between them along lines."""
    verify_s: tuple[Taken, ...]
    """V(n + 1) for each length; never falling."""
    verify_growth_s: tuple[Seconds, ...]
    """Growth of V(n + 1) per token of depth, for each length; never so much that an empty context
    would cost nothing. That holds for all growth here."""
    again_s: tuple[Seconds, ...]
    """D(n + 1): the draft evaluates the batch again. Never falling.
    Without a draft model, what looking the n-gram up takes."""
    again_growth_s: tuple[Seconds, ...]
    """Growth of D(n + 1) per token of depth, for each length."""
    step_s: Seconds
    """d(1): one decode of the chain; 0 without a draft model."""
    step_growth_s: Seconds
    """Growth of d(1) per token of depth."""
    token_s: Seconds
    """Per emitted token."""
    fixed_s: Seconds
    """Per round."""
    off_s: Taken
    """One token of the target alone, without a draft beside it; no more than a round that drafts
    nothing."""
    off_growth_s: Seconds
    """Growth of ``off_s`` per token of depth."""
    rollback_s: Seconds
    """Per round that ended in a mismatch."""
    rollback_token_s: Seconds
    """Additional seconds per token that such a round had accepted: after going back to a checkpoint
    they are decoded again. About 0 where a cache just forgets."""
    mark_s: Seconds = 0.0
    """Per round that drafted something: saving the target's state before it is verified, where it
    cannot forget. 0 in older traces, which lack it: their ``verify_s`` includes it."""

    def at(self, n_past: float) -> "Costs":
        """These costs at another depth."""
        more = n_past - self.n_past
        verify = zip(self.verify_s, self.verify_growth_s, strict=True)
        again = zip(self.again_s, self.again_growth_s, strict=True)
        return replace(
            self,
            n_past=n_past,
            verify_s=tuple(seconds + growth_s * more for seconds, growth_s in verify),
            again_s=tuple(seconds + growth_s * more for seconds, growth_s in again),
            step_s=self.step_s + self.step_growth_s * more,
            off_s=self.off_s + self.off_growth_s * more,
        )

    def prices(self, depth: int) -> Prices:
        """Prices in an empty context, for drafts of up to ``depth`` tokens."""
        empty, lengths = self.at(0), np.arange(depth + 1.0)
        curves = empty.verify_s, empty.again_s, self.verify_growth_s, self.again_growth_s
        verify, again, *growth = (along(self.lengths, curve, lengths) for curve in curves)
        return Prices(
            chain=empty.step_s * lengths,
            chain_growth=self.step_growth_s * lengths,
            batch=verify + again + self.mark_s * (lengths > 0),
            batch_growth=growth[0] + growth[1],
            token=self.token_s,
            fixed=self.fixed_s,
            rollback=self.rollback_s,
            rollback_token=self.rollback_token_s,
        )

    def without_draft(self) -> "Costs":
        """These costs if drafts cost nothing: those of an n-gram drafter, which look something up.

        A round that drafts nothing is then one of the target alone, whatever it took beside a
        draft. So the level is the target's, and the curve gives how lengths compare.
        """
        alone = self.off_s - self.token_s - self.fixed_s
        scale = alone / self.verify_s[0] if self.lengths[0] == 0 and alone > 0 else 1.0
        free = (0.0,) * len(self.lengths)
        return replace(
            self,
            verify_s=tuple(scale * seconds for seconds in self.verify_s),
            step_s=0.0,
            step_growth_s=0.0,
            again_s=free,
            again_growth_s=free,
        )

    def off_seconds(self, n_tokens: Count, n_past: Count) -> Count:
        """Seconds of the target alone for tokens that are decoded at a depth, in the mean."""
        return n_tokens * (self.off_s + self.off_growth_s * (n_past - self.n_past))


def along(lengths: Sequence[int], values: Sequence[float], wanted: Vector) -> Vector:
    """Values at ``wanted``, along lines between the measured ones and beyond the last two."""
    inside: Vector = np.interp(wanted, lengths, values)
    if len(lengths) == 1:
        return inside
    slope = (values[-1] - values[-2]) / (lengths[-1] - lengths[-2])
    beyond: Vector = slope * np.maximum(wanted - lengths[-1], 0.0)
    return inside + beyond
