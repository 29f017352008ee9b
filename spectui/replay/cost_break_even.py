"""What would have to change for speculation to pay: a faster draft, or one that guesses better.

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
    """What a round with drafts of one length costs, in seconds."""

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
    """More per token that such a round had accepted."""
    off_s: float
    """One token of the target alone."""

    def speedup(self, alpha: float, draft_scale: float = 1.0) -> float:
        """Throughput over the target's alone.

        Args:
            alpha: acceptance per token.
            draft_scale: share of its seconds that the draft would take.
        """
        draft_s = draft_scale * (self.chain_s + self.again_s)
        seconds = draft_s + self._other_s(alpha)
        return self.off_s * expected_tokens(alpha, self.drafted) / seconds

    def draft_scale(self, alpha: float, wanted: float) -> float | None:
        """Share of the draft's seconds at which the speedup is ``wanted``.

        Negative where even a draft for nothing would not do; None for one that costs nothing.
        """
        draft_s = self.chain_s + self.again_s
        if draft_s <= 0:
            return None
        allowed_s = self.off_s * expected_tokens(alpha, self.drafted) / wanted
        return (allowed_s - self._other_s(alpha)) / draft_s

    def _other_s(self, alpha: float) -> float:
        """Seconds besides the draft's."""
        p_full: float = alpha**self.drafted
        emitted = expected_tokens(alpha, self.drafted)
        # Of the accepted tokens those of the rounds that accepted all are never decoded again.
        redone = max(0.0, emitted - 1 - self.drafted * p_full)
        rollback_s = self.rejection_s * (1 - p_full) + self.redone_s * redone
        return self.verify_s + self.fixed_s + self.token_s * emitted + rollback_s

    def without(self, part: str) -> "MeanRound":
        """The same round if one of its costs were nothing."""
        return replace(self, **{part: 0.0})


class Outlook:
    """What one draft could do for one target if it were faster, or guessed better."""

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
            speedup: of the setting, measured or replayed.
        """
        self.own = own
        self.alpha = alpha
        self.now = speedup
        self._emitted = emitted
        estimate = own.speedup(alpha)
        self._level = speedup / estimate
        self._rounds = tuple(
            (one, speedup / max(estimate, one.speedup(alpha))) for one in (own, *lengths)
        )

    def speedup(self, *, alpha: float | None = None, draft_scale: float = 1.0) -> float:
        """Speedup at the best length."""
        tried = self.alpha if alpha is None else alpha
        best = max(level * one.speedup(tried, draft_scale) for one, level in self._rounds)
        return best * self._not_missed(tried)

    def changed(self, own: MeanRound, *, alpha: float | None = None) -> float:
        """Speedup of the setting itself if its round were ``own``."""
        tried = self.alpha if alpha is None else alpha
        return self._level * own.speedup(tried) * self._not_missed(tried)

    def _not_missed(self, alpha: float) -> float:
        """Share by which the model misses less in tokens per round at a higher ``alpha``.

        As tokens per round go from those of the setting to all that are drafted, so that more is
        never worth less.
        """
        most, known = self.own.drafted + 1, expected_tokens(self.alpha, self.own.drafted)
        gained = math.log(expected_tokens(alpha, self.own.drafted) / known)
        if gained <= 0:
            return 1.0
        missed = math.log(self._emitted / known) / math.log(most / known)
        return math.exp(-missed * gained)

    def break_even_draft(self, wanted: float = 1.0) -> float | None:
        """Share of its present seconds that the draft may take for a speedup of ``wanted``.

        Returns:
            More than 1 where it may be slower than it is; None where even a draft for nothing
            would not do, or where the draft costs nothing.
        """
        found = [one.draft_scale(self.alpha, wanted / level) for one, level in self._rounds]
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
        return self._level * best.speedup(1.0, 0.0) * self._not_missed(1.0), best
