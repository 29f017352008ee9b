"""A ``llama_batch`` for one sequence, allocated once and filled through numpy views."""

from collections.abc import Sequence

import numpy as np

from spectui.llama.c import C
from spectui.speculative.models import Outputs


class Batch:
    """Room for ``capacity`` tokens of sequence 0."""

    def __init__(self, capacity: int) -> None:
        """Allocate, and set once what never changes: every token belongs to sequence 0."""
        self.capacity = capacity
        self.c = C.llama_batch_init(capacity, 0, 1)
        as_array = np.ctypeslib.as_array
        self._tokens = as_array(self.c.token, (capacity,))
        """[capacity] int32"""
        self._positions = as_array(self.c.pos, (capacity,))
        """[capacity] int32"""
        self._logits = as_array(self.c.logits, (capacity,))
        """[capacity] int8"""
        self._steps = np.arange(capacity, dtype=np.int32)
        as_array(self.c.n_seq_id, (capacity,))[:] = 1
        for index in range(capacity):
            self.c.seq_id[index][0] = 0

    def fill(self, tokens: Sequence[int], first_position: int, outputs: Outputs) -> None:
        """Hold ``tokens`` at consecutive positions, with logits where ``outputs`` asks for them."""
        n = len(tokens)
        self.c.n_tokens = n
        self._tokens[:n] = tokens
        np.add(self._steps[:n], first_position, out=self._positions[:n])
        self._logits[:n] = outputs is Outputs.ALL
        if outputs is Outputs.LAST:
            self._logits[n - 1] = 1

    def close(self) -> None:
        """Free the native arrays."""
        C.llama_batch_free(self.c)
