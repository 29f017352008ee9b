"""Break-even of speculation: how much faster, or how much better, a draft would have to be.

Tokens per round follow from α as if every drafted token were accepted independently of the others
(Leviathan et al. 2023, arXiv 2211.17192, eq. 1). What that misses at the setting in question is
taken off by scaling the estimate to its known speedup. Of a draft that is always right it misses
nothing: as α grows towards 1, what it misses in tokens per round goes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.speculative.expectation import expected_tokens

_BISECTIONS = 60
"""Halvings of the interval of α: beyond the precision of a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanRound:
    """Costs of a round with drafts of one length, in seconds."""

    drafted: float
    """γ: drafted tokens per round; a mean need not be whole."""
    chain_s: float
    again_s: float
    """The draft evaluates the verified batch again, on the ``server`` schedule."""
    verify_s: float
    fixed_s: float
    """Everything else that a round takes whatever comes of it."""
    token_s: float
    """Per emitted token."""
    rejection_s: float
    """Rollback, per round that ends in a mismatch."""
    redone_s: float
    """Additional seconds per token that such a round had accepted."""
    off_s: float
    """One token of the target alone."""

    def speedup(
        self, alpha: float, draft_scale: float = 1.0, *, emitted: float | None = None
    ) -> float:
        """Throughput over the target's alone.

        Args:
            alpha: acceptance per token.
            draft_scale: share of its seconds that the draft would take.
            emitted: tokens per round; None for those that follow from ``alpha``.
        """
        emitted = expected_tokens(alpha, self.drafted) if emitted is None else emitted
        draft_s = draft_scale * (self.chain_s + self.again_s)
        return self.off_s * emitted / (draft_s + self._other_s(alpha, emitted))

    def draft_scale(self, alpha: float, wanted: float, *, emitted: float) -> float | None:
        """Share of the draft's seconds at which the speedup is ``wanted``.

        Negative where even a draft for nothing would not do; None for one that costs nothing.
        """
        draft_s = self.chain_s + self.again_s
        if draft_s <= 0:
            return None
        allowed_s = self.off_s * emitted / wanted
        return (allowed_s - self._other_s(alpha, emitted)) / draft_s

    def _other_s(self, alpha: float, emitted: float) -> float:
        """Seconds besides the draft's."""
        p_full: float = alpha**self.drafted
        # Of the accepted tokens those of the rounds that accepted all are never decoded again.
        redone = max(0.0, emitted - 1 - self.drafted * p_full)
        rollback_s = self.rejection_s * (1 - p_full) + self.redone_s * redone
        return self.verify_s + self.fixed_s + self.token_s * emitted + rollback_s

    def without(self, part: str) -> "MeanRound":
        """A copy in which one of the costs is 0."""
        return replace(self, **{part: 0.0})


class Outlook:
    """Speedups of one draft for one target if it were faster, or guessed better."""

    def __init__(
        self,
        own: MeanRound,
        lengths: Sequence[MeanRound],
        *,
        alpha: float,
        emitted: float,
        speedup: float,
    ) -> None:
        """Scale the model so that it says ``speedup`` of the setting as it is.

        Args:
            own: the mean round of the setting.
            lengths: rounds of other draft lengths that may be chosen as well. None of them is
                taken to be better than ``own`` as things are: the setting is the best one found.
            alpha: acceptance per token of the setting.
            emitted: tokens per round of the setting.
            speedup: speedup of the setting, measured or replayed.
        """
        self.own = own
        self.alpha = alpha
        self.now = speedup
        self._known = emitted
        estimate = self._estimate(own, alpha)
        self._level = speedup / estimate
        self._rounds = tuple(
            (one, speedup / max(estimate, self._estimate(one, alpha))) for one in (own, *lengths)
        )

    def speedup(self, *, alpha: float | None = None, draft_scale: float = 1.0) -> float:
        """Speedup at the best length."""
        tried = self.alpha if alpha is None else alpha
        return max(level * self._estimate(one, tried, draft_scale) for one, level in self._rounds)

    def changed(self, own: MeanRound, *, alpha: float | None = None) -> float:
        """Speedup of the setting itself if its round were ``own``."""
        return self._level * self._estimate(own, self.alpha if alpha is None else alpha)

    def _estimate(self, one: MeanRound, alpha: float, draft_scale: float = 1.0) -> float:
        return one.speedup(alpha, draft_scale, emitted=self._emitted(one, alpha))

    def _emitted(self, one: MeanRound, alpha: float) -> float:
        """Tokens per round: at the setting's own acceptance what they are, at 1 all of them."""
        own, drafted = expected_tokens(self.alpha, self.own.drafted), self.own.drafted
        share = self._known / own
        if alpha > self.alpha:
            # In step with what is gained on the way to all, so that more is never worth less.
            way = math.log(expected_tokens(alpha, drafted) / own) / math.log((drafted + 1) / own)
            share **= 1 - way
        return min(share * expected_tokens(alpha, one.drafted), one.drafted + 1)

    def break_even_draft(self, wanted: float = 1.0) -> float | None:
        """Share of its present seconds that the draft may take for a speedup of ``wanted``.

        Returns:
            More than 1 where it may be slower than it is; None where even a draft for nothing
            would not do, or where the draft costs nothing.
        """
        found = [
            one.draft_scale(self.alpha, wanted / level, emitted=self._emitted(one, self.alpha))
            for one, level in self._rounds
        ]
        best = max((scale for scale in found if scale is not None), default=-1.0)
        return best if best > 0 else None

    def break_even_alpha(self, wanted: float = 1.0) -> float | None:
        """Acceptance per token from which on the speedup is ``wanted``.

        Returns:
            None where even perfect acceptance would not do.
        """
        if self.speedup(alpha=1.0) < wanted:
            return None
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.speedup(alpha=middle) >= wanted else (middle, high)
        return high

    def limit(self, lengths: Sequence[MeanRound]) -> tuple[float, MeanRound]:
        """Speedup of a perfect draft for nothing, at the best of ``lengths``, and that round."""
        best = max((self.own, *lengths), key=lambda one: one.speedup(1.0, 0.0))
        return self._level * best.speedup(1.0, 0.0), best
