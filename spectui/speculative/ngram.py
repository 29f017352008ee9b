"""Drafters without a model: what the text itself says about how it goes on.

Their rules are llama.cpp's (``common/ngram-map.cpp``), so that the same drafts come out; how they
are looked up is our own. A new kind is a class here and a case in ``ngram_drafter``.
"""

from collections.abc import Sequence

from spectui.config import NgramConfig, NgramKind
from spectui.speculative.drafters import Draft, Drafter


class NgramSimpleDrafter:
    """Proposes what followed the last ``size_n`` tokens when they stood in the text before.

    The latest such place counts, and only it: where fewer than ``size_n`` tokens follow it, as in a
    run of one token, nothing is drafted although an earlier place may offer more. Llama.cpp never
    looks at the very first token, nor at the two n-grams that end the text, and drafts nothing
    before the text is longer than ``size_n + size_m + 1``.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        """Look ``size_n`` tokens up and propose at most ``size_m``."""
        self._size_n = size_n
        self._size_m = size_m
        self._tokens: list[int] = []
        """The sequence without its last token, as the target's cache has it."""
        self._batch: tuple[int, ...] = ()
        self._starts: dict[tuple[int, ...], int] = {}
        """Latest position of every n-gram that counts."""
        self._next_start = 1

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far."""
        self._tokens = list(prompt)
        self._starts = {}
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

    def verified(self, batch: Sequence[int]) -> None:
        """Remember the batch until it is known what of it counts."""
        self._batch = tuple(batch)

    def accept(self, n_accepted: int) -> None:
        """The text grows by what was accepted; rejected tokens never were part of it."""
        self._tokens += self._batch[: 1 + n_accepted]

    def _index(self) -> None:
        """Note where n-grams start, up to the last one that may be found."""
        tokens, n = self._tokens, self._size_n
        for start in range(self._next_start, len(tokens) - n):
            self._starts[tuple(tokens[start : start + n])] = start
        self._next_start = max(self._next_start, len(tokens) - n)


def ngram_drafter(config: NgramConfig, draft_max: int) -> Drafter:
    """The drafter of ``config``. Both schedules have the same: there is no model to keep in step.

    Args:
        config: which one, and how much it looks up.
        draft_max: most tokens per draft.
    """
    match config.kind:
        case NgramKind.SIMPLE:
            return NgramSimpleDrafter(config.size_n, draft_max)
