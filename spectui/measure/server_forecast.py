"""Replay of draft lengths on what one llama-server with the longest drafts has accepted.

A streamed answer tells after each round how many tokens were drafted and accepted, and when. Output
does not depend on drafts, so that one answer with long drafts holds the rounds of every shorter
length: a draft agrees with the text up to the same places, whatever its length. A round of a length
costs what it costs where nothing is accepted (``--spec-synth-rates 0,0,...``): there an answer of n
tokens has rounds that draft n - 2, n - 3, ..., 0, since no more is drafted than is wanted.
"""

import statistics
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectui.server.rounds import Round
from spectui.trace.costs import Vector
from spectui.trace.grid import N_PARTS, part_ends

Turn = tuple[Sequence[Round], Sequence[Round]]
"""Rounds of the target alone, and those of which nothing was accepted, close in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer by a server with the longest drafts."""

    rounds: tuple[Round, ...]
    longest: int
    """Tokens of its drafts, as far as so many were wanted."""
    n_wanted: int
    """Tokens that were wanted behind the first one, which comes with the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """Rounds of one draft length along an answer, by the parts that they begin in: [n_parts]."""

    tokens: Vector
    """Emitted."""
    drafted: Vector
    accepted: Vector
    cost: Vector
    """In tokens of the target alone."""


def replayed(answer: Answer, longest: int, prices: Mapping[int, float]) -> Replayed:
    """Count the rounds that drafts of ``longest`` tokens take for an answer.

    Args:
        answer: of drafts that are at least as long.
        longest: tokens of a draft, as far as so many are wanted.
        prices: cost of a round by its drafted tokens, 0 included, in tokens of the target alone.
    """
    found = np.zeros((4, N_PARTS))
    ends = part_ends(sum(one.n_emitted for one in answer.rounds))
    n_emitted = 0
    for n_tokens in _stretches(answer):
        end = n_emitted + n_tokens
        while n_emitted < end:
            drafted = max(0, min(longest, answer.n_wanted - n_emitted - 1))
            accepted = min(drafted, end - n_emitted - 1)
            part = bisect_right(ends, n_emitted)
            found[:, part] += (accepted + 1, drafted, accepted, prices[drafted])
            n_emitted += accepted + 1
    tokens, drafts, agreed, cost = found
    return Replayed(tokens=tokens, drafted=drafts, accepted=agreed, cost=cost)


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


def prices_of(turns: Sequence[Turn], longest: int) -> dict[int, float]:
    """Cost of a round by its drafted tokens, in tokens of the target alone.

    Args:
        turns: medians are taken over them. A length that none shows lies between its neighbours.
        longest: drafted tokens of the longest rounds.
    """
    found: dict[int, list[float]] = {}
    for off, ladder in turns:
        token_s = _token_s(off)
        for one in ladder:
            found.setdefault(one.n_drafted, []).append(one.seconds / token_s)
    lengths = sorted(found)
    costs = [statistics.median(found[n]) for n in lengths]
    return {n: float(np.interp(n, lengths, costs)) for n in range(longest + 1)}


def off_token_s(turns: Sequence[Turn]) -> float:
    """Seconds of a token of the target alone."""
    return statistics.median(_token_s(off) for off, _ladder in turns)


def _token_s(off: Sequence[Round]) -> float:
    return statistics.median(one.seconds / one.n_emitted for one in off)
