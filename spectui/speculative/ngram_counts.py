"""Counts of the tokens that follow n-grams: the tables of ``ngram-cache``.

Llama.cpp keeps them in a ``std::unordered_map`` of such maps (``common/ngram-cache.h``). Where two
followers are equally good, it takes the one that the map walks over first. With libstdc++, that
order follows from the order of insertion (``bits/hashtable.h``, ``src/c++11/hashtable_c++0x.cc``),
and copies keep it; other C++ libraries may walk otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MAX_SIZE = 4
"""Tokens of the longest n-gram: ``LLAMA_NGRAM_MAX``."""
_NO_TOKEN = -1
_BUCKETS = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229),
    *(172933, 351061, 712697, 1447153, 2938679),
)
"""Sizes by which libstdc++ grows a map one insertion at a time: as many elements as buckets."""


@dataclass(slots=True)
class Followers:
    """Counts of the tokens that followed an n-gram."""

    counts: dict[int, int] = field(default_factory=dict)
    """Counts by token, in the order of first appearance."""
    total: int = 0
    _most: int = 0
    _leader: int = _NO_TOKEN
    """The token that first reached ``_most``."""

    def add(self, token: int, count: int = 1) -> None:
        """Count ``token`` ``count`` times more."""
        known = self.counts.get(token, 0) + count
        self.counts[token] = known
        self.total += count
        if known > self._most:
            self._most, self._leader = known, token

    def likeliest(self, static: "Followers | None") -> int:
        """The token with the highest count, each weighted with a static table's count.

        Without one, ties are decided only between two tokens that have half of the total each: in
        any other tie no token has half, and such drafts are dropped.

        Args:
            static: followers of the same text there; those that it does not know weigh next to
                nothing. None if it does not know the text.
        """
        if static is not None:
            return self._weighted(static.counts)
        if len(self.counts) == 2 and 2 * self._most == self.total:  # noqa: PLR2004 - a tie of two
            # What was inserted last is walked over first.
            return next(reversed(self.counts))
        return self._leader

    def _weighted(self, static: Mapping[int, int]) -> int:
        weights = {
            token: count * (100 * static[token] if token in static else 1)
            for token, count in self.counts.items()
        }
        heaviest = max(weights.values())
        tied = {token for token, weight in weights.items() if weight == heaviest}
        order = tied if len(tied) == 1 else walked(self.counts)
        return next(token for token in order if token in tied)


NgramCounts = dict[tuple[int, ...], Followers]
"""Followers by n-gram, of up to ``MAX_SIZE`` tokens."""


def walked(tokens: Iterable[int]) -> list[int]:
    """The order in which libstdc++ walks over a map into which ``tokens`` were inserted.

    A new bucket's elements come before all others, and a new element before those of its bucket.
    When the map grows, all are inserted anew as they were walked.

    Args:
        tokens: all different and none negative, in the order of insertion.
    """
    inserted = list(tokens)
    order: list[int] = []
    for n_buckets in _BUCKETS:
        chains: dict[int, list[int]] = {}
        for token in (*order, *inserted[len(order) : n_buckets]):
            chains.setdefault(token % n_buckets, []).append(token)
        order = [token for bucket in reversed(chains.values()) for token in reversed(bucket)]
        if len(order) == len(inserted):
            break
    return order


def count_ngrams(counts: NgramCounts, tokens: Sequence[int], start: int = 0) -> None:
    """Count what follows every n-gram inside ``tokens``, from position ``start`` on."""
    for size in range(1, MAX_SIZE + 1):
        for end in range(max(size, start), len(tokens)):
            ngram = tuple(tokens[end - size : end])
            followers = counts.get(ngram)
            if followers is None:
                followers = counts[ngram] = Followers()
            followers.add(tokens[end])
