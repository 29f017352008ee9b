"""``ngram-cache``: the token that most often followed what stands at the end of the text.

Its rules are those of llama.cpp's ``common/ngram-cache.cpp`` and of
``common_speculative_impl_ngram_cache`` in ``common/speculative.cpp``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.options.drafters import NgramCache
from spectui.speculative.drafters import Draft, TextDrafter

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

    Llama.cpp keeps counts in a ``std::unordered_map`` of such maps (``common/ngram-cache.h``).
    Where two followers are equally good, it takes the one that the map walks over first. With
    libstdc++, that order follows from the order of insertion (``bits/hashtable.h``,
    ``src/c++11/hashtable_c++0x.cc``), and copies keep it; other C++ libraries may walk otherwise.

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


_STATIC_SIZE = 2
"""Tokens of the n-grams that a static table is asked for: ``LLAMA_NGRAM_STATIC``."""
_Bound = tuple[int, int]
_LAX: tuple[_Bound, ...] = ((2, 66), (2, 50), (1, 50), (1, 50))
"""Bounds by size of n-gram: fewest times it was seen, least share of one follower in percent."""
_STRICT: tuple[_Bound, ...] = ((4, 75), (3, 66), (2, 66), (2, 66))


@dataclass(slots=True, kw_only=True)
class NgramCacheState:
    """State of ``ngram-cache`` that a slot of llama-server keeps between generations."""

    context: NgramCounts = field(default_factory=dict)
    """Counted in the texts so far."""
    n_counted: int = 0
    """Tokens of the longest text so far; those of the next one are counted from there on."""
    dynamic: NgramCounts = field(default_factory=dict)
    """Counts of earlier runs: ``--lookup-cache-dynamic``, which llama-server only reads."""
    static: NgramCounts = field(default_factory=dict)
    """Counts of a large corpus: ``--lookup-cache-static``."""


class NgramCacheDrafter(TextDrafter):
    """Proposes token by token the likeliest follower of the last four to one tokens.

    The longest n-gram decides whose followers are certain enough; first those counted in the text,
    then the dynamic table's, then the static one's, which also weighs the followers in the others.

    Llama-server counts the text in pieces: before each draft, what is new of it, on its own.
    N-grams that reach from one piece into the next are not counted, so that rounds of a single
    token teach nothing.
    """

    def __init__(
        self, n_max: int = NgramCache.LONGEST, state: NgramCacheState | None = None
    ) -> None:
        """Propose at most ``n_max`` tokens.

        Args:
            n_max: ``NgramCache.LONGEST`` is what llama-server does; other lengths have no flags.
            state: tables to ask, and to go on from as llama-server does from one generation to
                the next; None to know nothing.
        """
        super().__init__()
        self._n_max = n_max
        self._state = NgramCacheState() if state is None else state
        self._ahead: NgramCounts = {}
        """Counted in the prompt of a first generation, before the first draft makes it count."""
        self._n_ahead = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far. It is known from the first draft on."""
        super().begin(prompt)
        self._n_ahead = 0
        self._ahead = {}
        if not self._state.context and self._state.n_counted == 0:
            # Llama-server does this in the first round, in a fraction of the time.
            self._n_ahead = len(prompt)
            count_ngrams(self._ahead, prompt)

    def draft(self, last: int, n_max: int) -> Draft:
        """Count what is new, and follow the tables from the end of the text."""
        self._count(last)
        found: list[int] = []
        text = [*self._tokens[1 - MAX_SIZE :], last]
        if len(text) < _STATIC_SIZE:
            return Draft()
        while len(found) < min(self._n_max, n_max):
            token = self._next(text)
            if token is None:
                break
            found.append(token)
            text = [*text[1 - MAX_SIZE :], token]
        return Draft(tokens=tuple(found))

    def _count(self, last: int) -> None:
        state, tokens = self._state, self._tokens
        if state.n_counted > len(tokens):
            return
        new = [*tokens[state.n_counted :], last]
        n_ahead = self._n_ahead if state.n_counted == 0 else 0
        if n_ahead:
            state.context = self._ahead
        count_ngrams(state.context, new, n_ahead)
        state.n_counted = len(tokens) + 1

    def _next(self, text: Sequence[int]) -> int | None:
        """The token after ``text``, None if none is certain enough."""
        state = self._state
        static = state.static.get(tuple(text[-_STATIC_SIZE:]))
        token = _lookup(state.context, text, _LAX, static)
        if token is None:
            token = _lookup(state.dynamic, text, _STRICT, static)
        if token is None and static is not None:
            token = _certain(static, _LAX[_STATIC_SIZE - 1], None)
        return token


def _lookup(
    counts: NgramCounts, text: Sequence[int], bounds: Sequence[_Bound], static: Followers | None
) -> int | None:
    # Where the text is shorter than an n-gram, llama.cpp reads what lies before it in memory.
    for size in range(min(MAX_SIZE, len(text)), 0, -1):
        followers = counts.get(tuple(text[-size:]))
        if followers is not None:
            token = _certain(followers, bounds[size - 1], static)
            if token is not None:
                return token
    return None


def _certain(followers: Followers, bound: _Bound, static: Followers | None) -> int | None:
    n_least, percent = bound
    if followers.total < n_least:
        return None
    token = followers.likeliest(static)
    return token if 100 * followers.counts[token] >= percent * followers.total else None
