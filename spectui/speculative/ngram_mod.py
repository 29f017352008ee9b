"""``ngram-mod``: a table from n-grams to the token that followed them last.

Its rules are those of llama.cpp's ``common/ngram-mod.cpp`` and of
``common_speculative_impl_ngram_mod`` in ``common/speculative.cpp``.
"""

from collections.abc import Sequence

from spectui.speculative.drafters import Draft, TextDrafter
from spectui.speculative.ngram_hash import RollingHash

N_ENTRIES = 4 << 20
"""Entries of the table."""
_FACTOR = 6364136223846793005
_CHUNK = 32
_MAX_LOW = 5


class NgramModDrafter(TextDrafter):
    """Proposes the token that followed the last ``n_match`` tokens, and goes on from there.

    The table does not know its n-grams: another one with the same slot is taken for them. It is
    emptied when a prompt leaves more than a quarter of it used, and after the fifth draft in a row
    of which less than a quarter was accepted, counting what the bound of a round cut off as not
    accepted. What is generated enters it some tokens late.
    """

    def __init__(self, n_match: int, n_max: int, *, n_min: int, n_entries: int = N_ENTRIES) -> None:
        """Look ``n_match`` tokens up and propose at most ``n_max``.

        Args:
            n_match: tokens of an n-gram, at least 1.
            n_max: most tokens per draft.
            n_min: a draft that ends at an empty entry before it is this long is dropped.
            n_entries: size of the table, a power of two. Tests take a small one, in which n-grams
                collide.
        """
        super().__init__()
        self._n_match = n_match
        self._n_max = n_max
        self._n_min = n_min
        self._n_entries = n_entries
        self._entries: dict[int, int] = {}
        """Tokens by slot of the n-gram before them; an empty entry is missing."""
        self._n_low = 0
        """Drafts in a row of which less than a quarter was accepted."""
        self._hash = RollingHash(n_match, _FACTOR, n_entries)
        self._learnt_to = 0
        """Position of the first n-gram that has not entered the table."""
        self._n_drafted = 0
        """Length of the last draft before a round's bound cut it."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far, and learn it."""
        super().begin(prompt)
        self._hash.slots.clear()
        self._learnt_to = 0
        self._hash.grow(self._tokens)
        if len(prompt) < self._n_match:
            return
        self._learn()
        if 4 * len(self._entries) > self._n_entries:
            # With this prompt, which is not learnt again.
            self._entries.clear()

    def draft(self, last: int, n_max: int) -> Draft:
        """Follow the table from the n-gram that ``last`` ends."""
        self._n_drafted = 0
        if len(self._tokens) < self._n_match:
            return Draft()
        self._hash.grow(self._tokens)
        if self._learnt_to + _CHUNK < len(self._tokens):
            self._learn()
        found = self._follow(last)
        self._n_drafted = len(found)
        return Draft(tokens=tuple(found[:n_max]))

    def _learn(self) -> None:
        """Enter the n-grams that a token follows; the latest takes the slot."""
        start, end = self._learnt_to, len(self._tokens) - self._n_match
        followers = self._tokens[start + self._n_match :]
        self._entries.update(zip(self._hash.slots[start:end], followers, strict=True))
        self._learnt_to = end

    def _follow(self, last: int) -> list[int]:
        tokens, entries = self._tokens, self._entries
        text = [*tokens[len(tokens) - self._n_match + 1 :], last]
        slot = self._hash.ending(tokens, last)
        for n_found in range(self._n_max):
            token = entries.get(slot)
            if token is None:
                if n_found < self._n_min:
                    return []
                break
            text.append(token)
            slot = self._hash.step(slot, text[n_found], token)
        return text[self._n_match :]

    def judged(self, n_accepted: int) -> None:
        """Count drafts with low acceptance; the fifth in a row empties the table."""
        if 4 * n_accepted >= self._n_drafted:
            self._n_low = 0
            return
        self._n_low += 1
        if self._n_low >= _MAX_LOW:
            self._entries.clear()
            self._n_low = 0
            # This text is learnt again, from its beginning.
            self._learnt_to = 0
