"""Counters of a generation. Counts are exact; times come from the injected clock."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import IntEnum, StrEnum
from functools import reduce
from itertools import zip_longest
from typing import Any


class RoundEnd(StrEnum):
    """Why a round accepted no more of its draft."""

    MISMATCH = "mismatch"
    """The target sampled another token than the drafted one."""
    EXHAUSTED = "exhausted"
    """Every drafted token was accepted, or nothing was drafted."""
    END_OF_GENERATION = "eog"
    """The target ended the text inside the draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTimes:
    """Seconds of a round by its parts."""

    draft_s: float = 0.0
    """All work of the draft: the chain, and evaluating the verified batch again."""
    verify_s: float = 0.0
    sample_s: float = 0.0
    rollback_s: float = 0.0
    """Forgetting what was rejected; and saving the state before the batch, where it takes that."""
    other_s: float = 0.0
    """The rest, up to the end of the previous round."""

    @property
    def total_s(self) -> float:
        """Wall time of the round."""
        return self.draft_s + self.verify_s + self.sample_s + self.rollback_s + self.other_s

    def scaled(self, factor: float) -> "RoundTimes":
        """All parts ``factor`` times as long."""
        return RoundTimes(**{part.name: getattr(self, part.name) * factor for part in fields(self)})

    def __add__(self, other: "RoundTimes") -> "RoundTimes":
        return RoundTimes(**_sums(self, other))


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One draft, verify, accept, rollback cycle."""

    draft: tuple[int, ...]
    probabilities: tuple[float, ...]
    """Probability of each drafted token under the draft model's top-10 softmax; empty without a
    model."""
    tokens: tuple[int, ...]
    """Emitted: the accepted draft tokens, then the bonus token unless the text has ended, and one
    token more where the round was redone."""
    n_accepted: int
    """Drafted tokens that the target confirmed."""
    end: RoundEnd
    n_steps: int
    """Decodes of the draft chain."""
    chain_s: float
    """Seconds of those decodes."""
    times: RoundTimes
    mark_s: float = 0.0
    """Seconds of ``times.rollback_s`` in which the target's state was saved before the batch."""
    is_redone: bool = False
    """Whether the target, which could not forget what it rejected, went back and decoded the rest
    again."""

    @property
    def n_drafted(self) -> int:
        """Tokens proposed."""
        return len(self.draft)


class Detail(IntEnum):
    """Level of detail that is known of rounds, from least to most."""

    TOTALS = 0
    """Drafted and accepted tokens alone; every other field is 0 and means nothing."""
    N_ROUNDS = 1
    """The number of rounds as well."""
    ROUNDS = 2
    """Every single round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """Numbers of drafted tokens, and of those that were accepted."""

    n_drafted: int = 0
    n_accepted: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Drafted):
    """Sums over rounds, and the ratios that follow from them."""

    n_rounds: int = 0
    n_rejections: int = 0
    """Rounds that ended in a mismatch."""
    n_redone: int = 0
    """Rounds that were redone (``Round.is_redone``): each emits one token more."""
    detail: Detail = Detail.ROUNDS
    """Detail; where it is less, a ratio that needs more is None."""

    @property
    def mean_accepted_length(self) -> float | None:
        """1 + accepted / rounds, as llama-server reports it. None before the first round."""
        n_rounds = self.known_rounds
        return 1 + self.n_accepted / n_rounds if n_rounds else None

    @property
    def known_rounds(self) -> int | None:
        """Number of rounds, None where that is not known."""
        return None if self.detail is Detail.TOTALS else self.n_rounds

    @property
    def tokens_per_round(self) -> float | None:
        """Tokens that a round emits. None before the first round."""
        n_rounds = self.known_rounds
        return (n_rounds + self.n_accepted + self.n_redone) / n_rounds if n_rounds else None

    @property
    def alpha(self) -> float | None:
        """Maximum-likelihood acceptance per token: accepted / (accepted + rejections).

        Leviathan et al. 2023 (arXiv 2211.17192) assume that each token is accepted independently
        with probability α; a round that ends for another reason is a censored observation.
        """
        tried = self.n_accepted + self.n_rejections
        return self.n_accepted / tried if tried and self.detail is Detail.ROUNDS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters(Tally):
    """Sums over rounds, of one generation or of many (they add up)."""

    accepted_per_position: tuple[int, ...] = ()
    """[draft_max]: rounds that accepted the draft's i-th token."""
    reached_per_position: tuple[int, ...] = ()
    """[draft_max]: rounds whose i-th drafted token was compared with the target's."""
    n_steps: int = 0
    chain_s: float = 0.0
    mark_s: float = 0.0
    """Seconds of ``times.rollback_s`` before the batches."""
    times: RoundTimes = RoundTimes()

    @property
    def conditional_acceptance(self) -> tuple[float | None, ...]:
        """[draft_max]: accepted at i / rounds that reached i."""
        pairs = zip(self.accepted_per_position, self.reached_per_position, strict=True)
        return tuple(accepted / reached if reached else None for accepted, reached in pairs)

    def scaled(self, factor: float) -> "Counters":
        """The same counts in ``factor`` times the seconds."""
        chain_s, mark_s = self.chain_s * factor, self.mark_s * factor
        return replace(self, chain_s=chain_s, mark_s=mark_s, times=self.times.scaled(factor))

    def __add__(self, other: "Counters") -> "Counters":
        reached = _by_position(self.reached_per_position, other.reached_per_position)
        accepted = _by_position(self.accepted_per_position, other.accepted_per_position)
        return replace(
            Counters(**_sums(self, other)),
            accepted_per_position=accepted,
            reached_per_position=reached,
            detail=min(self.detail, other.detail),
        )


def count(rounds: Iterable[Round]) -> Counters:
    """Add up ``rounds``."""
    return reduce(Counters.__add__, map(_count_one, rounds), Counters())


def _count_one(finished: Round) -> Counters:
    # Every emitted token was compared with a drafted one, except the bonus after a full draft, and
    # what a redone round emits beyond its own.
    n_reached = min(len(finished.tokens) - finished.is_redone, finished.n_drafted)
    positions = range(finished.n_drafted)
    return Counters(
        n_rounds=1,
        n_drafted=finished.n_drafted,
        n_accepted=finished.n_accepted,
        n_rejections=int(finished.end is RoundEnd.MISMATCH),
        n_redone=int(finished.is_redone),
        accepted_per_position=tuple(int(i < finished.n_accepted) for i in positions),
        reached_per_position=tuple(int(i < n_reached) for i in positions),
        n_steps=finished.n_steps,
        chain_s=finished.chain_s,
        mark_s=finished.mark_s,
        times=finished.times,
    )


def _sums(one: Any, other: Any) -> dict[str, Any]:  # noqa: ANN401 - two of one dataclass
    names = (field.name for field in fields(one))
    return {name: getattr(one, name) + getattr(other, name) for name in names}


def _by_position(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
