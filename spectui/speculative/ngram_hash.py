"""Slots of a growing text's n-grams in a hash table, each found from the one before."""

from collections.abc import Sequence
from functools import reduce


class RollingHash:
    """Slots of all n-grams of a text, in a table whose size is a power of two.

    A slot is the n-gram read as a number in base ``factor``, modulo the size of the table.
    Llama.cpp works it out for every n-gram anew, in 32 or 64 bits that wrap around, and takes the
    remainder last. Since the size divides those powers of two, the remainder may as well be taken
    at every step, and the first token taken out again when the next n-gram is read.
    """

    def __init__(self, size_n: int, factor: int, n_slots: int) -> None:
        """Take n-grams of ``size_n`` tokens, at least 1, and a table of ``n_slots``."""
        self._size_n = size_n
        self._mask = n_slots - 1
        self._factor = factor & self._mask
        self._leaving = pow(factor, size_n, n_slots)
        self.slots: list[int] = []
        """Slots of the n-grams that begin at each token; the last ``size_n`` - 1 begin none."""

    def grow(self, tokens: Sequence[int]) -> None:
        """Add the n-grams that ``tokens``, to which tokens were appended, has gained."""
        size_n, slots = self._size_n, self.slots
        if not slots:
            if len(tokens) < size_n:
                return
            slots.append(reduce(lambda slot, token: self.step(slot, 0, token), tokens[:size_n], 0))
        # As ``step``, whose call would take as long as the step.
        slot, factor, out, mask = slots[-1], self._factor, self._leaving, self._mask
        start = len(slots) - 1
        entering = tokens[start + size_n :]
        for leaving, token in zip(tokens[start:], entering, strict=False):
            slot = (slot * factor - leaving * out + token) & mask
            slots.append(slot)

    def step(self, slot: int, leaving: int, entering: int) -> int:
        """Slot of the next n-gram: without the token ``leaving``, and ``entering`` at its end."""
        return (slot * self._factor - leaving * self._leaving + entering) & self._mask

    def ending(self, tokens: Sequence[int], last: int) -> int:
        """Slot of the n-gram that ``last`` would end after ``tokens``, which has been added."""
        return self.step(self.slots[-1], tokens[-self._size_n], last)
