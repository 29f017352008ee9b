"""Drafters without a model, which continue the text by its own repetitions.

Their rules are llama.cpp's (``common/ngram-map.cpp``), so that the same drafts come out; how they
are looked up is our own. A new kind is a class, here or in a module of its own, and a case in
``ngram_drafter``.
"""

from collections.abc import Sequence

from spectui.options.drafters import (
    Ngram,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.speculative.drafters import Draft, TextDrafter
from spectui.speculative.ngram_cache import NgramCacheDrafter
from spectui.speculative.ngram_map import NgramMapDrafter
from spectui.speculative.ngram_mod import NgramModDrafter


class NgramSimpleDrafter(TextDrafter):
    """Proposes what followed the last ``size_n`` tokens when they stood in the text before.

    The latest such place counts, and only it: where fewer than ``size_n`` tokens follow it, as in a
    run of one token, nothing is drafted although an earlier place may offer more. Llama.cpp never
    looks at the very first token, nor at the two n-grams that end the text, and drafts nothing
    before the text is longer than ``size_n + size_m + 1``.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        """Look ``size_n`` tokens up and propose at most ``size_m``."""
        super().__init__()
        self._size_n = size_n
        self._size_m = size_m
        self._starts: dict[tuple[int, ...], int] = {}
        """Latest position of every n-gram that counts."""
        self._next_start = 1

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far."""
        super().begin(prompt)
        self._starts.clear()
        self._next_start = 1
        self._index()

    def draft(self, last: int, n_max: int) -> Draft:
        """Look up the n-gram that ``last`` ends."""
        self._index()
        tokens, n = self._tokens, self._size_n
        if len(tokens) <= n + self._size_m + 1:
            return Draft()
        start = self._starts.get((*tokens[len(tokens) - n + 1 :], last))
        if start is None:
            return Draft()
        found = tokens[start + n : start + n + self._size_m]
        # The bound of this round may leave less than that, but must not decide.
        return Draft(tokens=tuple(found[:n_max])) if len(found) >= n else Draft()

    def _index(self) -> None:
        """Note where n-grams start, up to the last one that may be found."""
        tokens, n = self._tokens, self._size_n
        for start in range(self._next_start, len(tokens) - n):
            self._starts[tuple(tokens[start : start + n])] = start
        self._next_start = max(self._next_start, len(tokens) - n)


def ngram_drafter(options: Ngram) -> TextDrafter:
    """The drafter of ``options``.

    One that begins a further text drafts what a slot of llama-server drafts in a chat's next turn:
    it has learnt from the texts before. Measurements must not: each takes a new one.
    """
    match options:
        case NgramSimple(size_n=size_n, size_m=size_m):
            return NgramSimpleDrafter(size_n, size_m)
        case NgramMapK() | NgramMapK4V():
            return NgramMapDrafter(
                options.size_n,
                options.size_m,
                with_values=isinstance(options, NgramMapK4V),
                min_hits=options.min_hits,
            )
        case NgramMod(n_match=n_match, n_min=n_min, n_max=n_max):
            return NgramModDrafter(n_match, n_max, n_min=n_min)
        case NgramCache():
            return NgramCacheDrafter()
