"""Replay of draft lengths on what one llama-server with the longest drafts has accepted.

A streamed answer tells after each round how many tokens were drafted and accepted, and when. Output
does not depend on drafts, so that one answer with long drafts holds the rounds of every shorter
length: a draft agrees with the text up to the same places, whatever its length. A round of a length
costs what it costs where nothing is accepted (``--spec-synth-rates 0,0,...``): there an answer of n
tokens has rounds that draft n - 2, n - 3, ..., 0, since no more is drafted than is wanted.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectui.server.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer by a server with the longest drafts."""

    rounds: tuple[Round, ...]
    longest: int
    """Tokens of its drafts, as far as so many were wanted."""
    n_wanted: int
    """Tokens that were wanted behind the first one, which comes with the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Rounds of one draft length along answers."""

    n_emitted: int
    n_drafted: int
    n_accepted: int
    cost: float
    """In tokens of the target alone."""

    @property
    def speedup(self) -> float:
        """Tokens/s over those of the target alone."""
        return self.n_emitted / self.cost

    def __add__(self, other: "Replayed") -> "Replayed":
        """Return the sum over both answers."""
        return Replayed(
            n_emitted=self.n_emitted + other.n_emitted,
            n_drafted=self.n_drafted + other.n_drafted,
            n_accepted=self.n_accepted + other.n_accepted,
            cost=self.cost + other.cost,
        )


def replayed(answer: Answer, longest: int, prices: Mapping[int, float]) -> Replayed:
    """Count the rounds that drafts of ``longest`` tokens take for an answer.

    Args:
        answer: of drafts that are at least as long.
        longest: tokens of a draft, as far as so many are wanted.
        prices: cost of a round by its drafted tokens, 0 included, in tokens of the target alone.
    """
    n_emitted = n_drafted = n_accepted = 0
    cost = 0.0
    for n_tokens in _stretches(answer):
        end = n_emitted + n_tokens
        while n_emitted < end:
            drafted = max(0, min(longest, answer.n_wanted - n_emitted - 1))
            accepted = min(drafted, end - n_emitted - 1)
            n_emitted += accepted + 1
            n_drafted += drafted
            n_accepted += accepted
            cost += prices[drafted]
    return Replayed(n_emitted=n_emitted, n_drafted=n_drafted, n_accepted=n_accepted, cost=cost)


def _stretches(answer: Answer) -> Iterator[int]:
    """Tokens up to and with each one that the draft did not foresee.

    What follows a draft of the longest kind that was accepted as a whole is taken for foreseen.
    """
    before = 0
    for one in answer.rounds:
        before += one.n_emitted
        if one.n_accepted < answer.longest:
            yield before
            before = 0
    if before:
        yield before


def prices_of(
    turns: Sequence[tuple[Sequence[Round], Sequence[Round]]], longest: int
) -> dict[int, float]:
    """Cost of a round by its drafted tokens, in tokens of the target alone.

    Args:
        turns: rounds of the target alone, and those of which nothing was accepted, close in time;
            medians over the turns. A length that no turn shows lies between its neighbours.
        longest: drafted tokens of the longest rounds.
    """
    found: dict[int, list[float]] = {}
    for off, ladder in turns:
        token_s = statistics.median(one.seconds / one.n_emitted for one in off)
        for one in ladder:
            found.setdefault(one.n_drafted, []).append(one.seconds / token_s)
    lengths = sorted(found)
    costs = [statistics.median(found[n]) for n in lengths]
    return {n: float(np.interp(n, lengths, costs)) for n in range(longest + 1)}
