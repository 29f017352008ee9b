"""``ngram-cache``: the token that most often followed what stands at the end of the text.

Its rules are those of llama.cpp's ``common/ngram-cache.cpp`` and of
``common_speculative_impl_ngram_cache`` in ``common/speculative.cpp``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spectui.options.drafters import NgramCache
from spectui.speculative.drafters import Draft, TextDrafter

MAX_SIZE = 4
"""Tokens of the longest n-gram: ``LLAMA_NGRAM_MAX``."""
_NO_TOKEN = -1


@dataclass(slots=True)
class Followers:
    """Counts of the tokens that followed an n-gram."""

    counts: dict[int, int] = field(default_factory=dict)
    """Counts by token, in the order of first appearance."""
    total: int = 0
    _most: int = 0
    _leader: int = _NO_TOKEN
    """The token that first reached ``_most``."""

    def add(self, token: int) -> None:
        """Count ``token`` once more."""
        known = self.counts.get(token, 0) + 1
        self.counts[token] = known
        self.total += 1
        if known > self._most:
            self._most, self._leader = known, token

    @property
    def likeliest(self) -> int:
        """The token with the highest count.

        Ties are decided only between two tokens that have half of the total each: in any other tie
        no token has half, and such drafts are dropped. Of two, llama.cpp's map with libstdc++ walks
        first over what was inserted last (``bits/hashtable.h``).
        """
        if len(self.counts) == 2 and 2 * self._most == self.total:  # noqa: PLR2004 - a tie of two
            return next(reversed(self.counts))
        return self._leader


NgramCounts = dict[tuple[int, ...], Followers]
"""Followers by n-gram, of up to ``MAX_SIZE`` tokens."""


def count_ngrams(counts: NgramCounts, tokens: Sequence[int], start: int = 0) -> None:
    """Count what follows every n-gram inside ``tokens``, from position ``start`` on."""
    for size in range(1, MAX_SIZE + 1):
        for end in range(max(size, start), len(tokens)):
            ngram = tuple(tokens[end - size : end])
            followers = counts.get(ngram)
            if followers is None:
                followers = counts[ngram] = Followers()
            followers.add(tokens[end])


_BOUNDS = ((2, 66), (2, 50), (1, 50), (1, 50))
"""Bounds by size of n-gram: fewest times it was seen, least share of one follower in percent."""


class NgramCacheDrafter(TextDrafter):
    """Proposes token by token the likeliest follower of the last four to one tokens.

    The longest n-gram decides whose followers are certain enough. llama-server asks tables in files
    after the text (``--lookup-cache-static``, ``--lookup-cache-dynamic``); here there are none.

    Llama-server counts the text in pieces: before each draft, what is new of it, on its own.
    N-grams that reach from one piece into the next are not counted, so that rounds of a single
    token teach nothing.
    """

    def __init__(self) -> None:
        """Know no text yet."""
        super().__init__()
        self._context: NgramCounts = {}
        """Counted in the texts so far."""
        self._n_counted = 0
        """Tokens of the longest text so far; those of the next one are counted from there on."""
        self._ahead: NgramCounts = {}
        """Counted in the prompt of a first generation, before the first draft makes it count."""
        self._n_ahead = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far. It is known from the first draft on."""
        super().begin(prompt)
        self._ahead, self._n_ahead = {}, 0
        if not self._context and self._n_counted == 0:
            # Llama-server does this in the first round, in a fraction of the time.
            self._n_ahead = len(prompt)
            count_ngrams(self._ahead, prompt)

    def draft(self, last: int, n_max: int) -> Draft:
        """Count what is new, and follow the tables from the end of the text."""
        self._count(last)
        found: list[int] = []
        text = [*self._tokens[1 - MAX_SIZE :], last]
        if len(text) == 1:
            return Draft()
        while len(found) < min(NgramCache.LONGEST, n_max):
            token = self._next(text)
            if token is None:
                break
            found.append(token)
            text = [*text[1 - MAX_SIZE :], token]
        return Draft(tokens=tuple(found))

    def _count(self, last: int) -> None:
        tokens = self._tokens
        if self._n_counted > len(tokens):
            return
        new = [*tokens[self._n_counted :], last]
        n_ahead = self._n_ahead if self._n_counted == 0 else 0
        if n_ahead:
            self._context = self._ahead
        count_ngrams(self._context, new, n_ahead)
        self._n_counted = len(tokens) + 1

    def _next(self, text: Sequence[int]) -> int | None:
        """The token after ``text``, None if none is certain enough."""
        # Where the text is shorter than an n-gram, llama.cpp reads what lies before it in memory.
        for size in range(min(MAX_SIZE, len(text)), 0, -1):
            followers = self._context.get(tuple(text[-size:]))
            least, percent = _BOUNDS[size - 1]
            if followers is not None and followers.total >= least:
                token = followers.likeliest
                if 100 * followers.counts[token] >= percent * followers.total:
                    return token
        return None
