"""Index of the tokens that follow every n-gram of a growing text."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from spectui.speculative.ngram_hash import RollingHash

_FACTOR = 6364136223846793005
_N_CODES = 1 << 64


class Occurrences(NamedTuple):
    """Positions of an n-gram, and the tokens that follow it there."""

    places: list[int]
    """Position of its first token, rising."""
    codes: list[int]
    """Codes of the tokens behind it."""


class Continuations:
    """Knows of every n-gram where it stands, and tells continuations apart by a code of 64 bits.

    To compare tokens instead would take ten times as long, which adds up where a text repeats
    itself. Two continuations of one n-gram share a code by an accident that no text will see.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        """Take n-grams of ``size_n`` tokens and continuations of ``size_m``."""
        self._size_n = size_n
        self._codes = RollingHash(size_m, _FACTOR, _N_CODES)
        self._known: defaultdict[tuple[int, ...], Occurrences] = defaultdict(_none)
        self._n_known = 0

    def grow(self, tokens: Sequence[int]) -> None:
        """Add the n-grams that ``tokens`` has gained and whose continuation it has, too."""
        self._codes.grow(tokens)
        n, known, first = self._size_n, self._known, self._n_known
        codes = self._codes.slots[first + n :]
        for place, code in enumerate(codes, first):
            # One look at the dictionary: to hash an n-gram takes half of a turn.
            places, others = known[tuple(tokens[place : place + n])]
            places.append(place)
            others.append(code)
        self._n_known = first + len(codes)

    def code(self, start: int) -> int | None:
        """Code of the continuation from position ``start`` on, None where the text is too short."""
        codes = self._codes.slots
        return codes[start] if start < len(codes) else None

    def of(self, ngram: tuple[int, ...], first: int, last: int) -> Occurrences:
        """Occurrences from position ``first`` to ``last``, both included."""
        places, codes = self._known[ngram]
        part = slice(bisect_left(places, first), bisect_right(places, last))
        return Occurrences(places[part], codes[part])


def _none() -> Occurrences:
    return Occurrences([], [])
