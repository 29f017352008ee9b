"""What follows n-grams, counted: the tables of ``ngram-cache``.

Llama.cpp keeps them in a ``std::unordered_map`` of such maps (``common/ngram-cache.h``). Where two
followers are equally good, it takes the one that the map walks over first. With libstdc++, that
order follows from the order of insertion (``bits/hashtable.h``, ``src/c++11/hashtable_c++0x.cc``),
and copies keep it; other C++ libraries may walk otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.errors import BadInputError

MAX_SIZE = 4
"""Tokens of the longest n-gram: ``LLAMA_NGRAM_MAX``."""
_NO_TOKEN = -1
_BUCKETS = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229),
    *(172933, 351061, 712697, 1447153, 2938679),
)
"""How libstdc++ grows a map one insertion at a time: it holds as many elements as buckets."""


@dataclass(slots=True)
class Followers:
    """Which tokens followed an n-gram, and how often."""

    counts: dict[int, int] = field(default_factory=dict)
    """By token, in the order of first appearance."""
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
        """The token with the highest count, each weighted with what a static table says.

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
"""By n-gram, of up to ``MAX_SIZE`` tokens."""


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


def parse_lookup_cache(data: bytes) -> NgramCounts:
    """Read a lookup cache, as ``--lookup-cache-static`` and ``--lookup-cache-dynamic`` name one.

    32-bit integers of this machine's byte order: per n-gram its four tokens, -1 for those that a
    shorter one lacks, and how many followers there are; then token and count of each.

    Args:
        data: the whole file.

    Raises:
        BadInputError: the file ends early, or holds a count below 1.
    """
    # As llama.cpp, that overlooks the rest where too little is left for an n-gram.
    numbers = memoryview(data[: len(data) // 4 * 4]).cast("i")
    found: NgramCounts = {}
    at = 0
    while at + MAX_SIZE <= len(numbers):
        ngram = tuple(token for token in numbers[at : at + MAX_SIZE] if token != _NO_TOKEN)
        at += MAX_SIZE
        n_followers = numbers[at] if at < len(numbers) else 0
        pairs = numbers[at + 1 : at + 1 + 2 * max(n_followers, 0)]
        at += 1 + len(pairs)
        followers = _followers(pairs)
        if n_followers < 1 or len(pairs) < 2 * n_followers or min(pairs[1::2]) < 1:
            raise BadInputError(
                f"this is no whole lookup cache: what it says of n-gram {ngram} is cut off or no "
                "count; make it anew with llama-lookup-create"
            )
        found.setdefault(ngram, followers)
    return found


def _followers(pairs: Sequence[int]) -> Followers:
    followers = Followers()
    for token, count in zip(pairs[::2], pairs[1::2], strict=False):
        # The first one stays, as in a map.
        if token not in followers.counts:
            followers.add(token, count)
    return followers
