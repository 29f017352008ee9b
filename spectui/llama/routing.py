"""The experts to which a model's layers route the tokens of a text, seen while it is read.

llama.cpp asks ``cb_eval`` before each node of a graph whether to stop behind it. It does so behind
``ffn_moe_topk-LAYER`` alone, the node with the experts of each token, so that the rest of a graph
is computed as usual.
"""

import ctypes
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spectui.llama.context import Context
from spectui.llama.library import C
from spectui.llama.model import Model
from spectui.llama.native import native_function
from spectui.options.setup import ContextOptions
from spectui.speculative.models import Outputs

Experts = npt.NDArray[np.uint16]
"""[n_tokens, n_used] experts of one layer."""

_NODE = re.compile(rb"ffn_moe_topk-(\d+)")
_AT_ONCE = 64
"""Tokens of a batch. Of each the logits are computed: llama.cpp leaves tokens without them out of
the last layer."""
_INT32 = np.dtype(np.int32)


class RoutingContext(Context):
    """A context beside the target's own, which reads texts and records their tokens' experts."""

    def __init__(self, model: Model, options: ContextOptions, *, n_tokens: int) -> None:
        """Room for one text.

        Args:
            model: the loaded target.
            options: of its own context, for threads, attention and where caches lie.
            n_tokens: of the longest text.

        Raises:
            DoesNotFitError: there is no memory for it.
        """
        self._rows: defaultdict[int, list[Experts]] = defaultdict(list)
        self._observe = C.ggml_backend_sched_eval_callback(self._on_node)
        own = replace(options, ctx_size=n_tokens, batch_size=_AT_ONCE, ubatch_size=_AT_ONCE)
        super().__init__(model, own, max_outputs=_AT_ONCE)

    def _adapt(self, params: Any) -> None:  # noqa: ANN401 - a C structure
        params.cb_eval = self._observe

    def read(self, tokens: Sequence[int]) -> Mapping[int, Experts]:
        """Read a text from its beginning; the experts of all its tokens, by layer.

        Raises:
            SpectuiError: as ``decode``.
        """
        self.clear()
        self._rows.clear()
        for at in range(0, len(tokens), _AT_ONCE):
            self.decode(tokens[at : at + _AT_ONCE], Outputs.ALL)
        return {layer: np.concatenate(rows) for layer, rows in sorted(self._rows.items())}

    def _on_node(self, tensor: int, is_question: bool, _data: object) -> bool:  # noqa: FBT001 - C's
        """``ggml_backend_sched_eval_callback``: whether to stop behind a node, or to go on."""
        name = native_function("ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)(tensor)
        node = _NODE.fullmatch(name)
        if node is not None and not is_question:
            self._rows[int(node[1])].append(_experts(tensor))
        return node is not None or not is_question


def _experts(tensor: int) -> Experts:
    """The values of a node, whose rows may be the beginnings of longer ones."""
    n_rows, size = _number(tensor, "ggml_nrows"), _number(tensor, "ggml_nbytes")
    n_used = _number(tensor, "ggml_nelements") // max(n_rows, 1)
    data = np.empty(size // _INT32.itemsize, _INT32)
    pointer, n_bytes = ctypes.c_void_p, ctypes.c_size_t
    copy = native_function("ggml_backend_tensor_get", None, pointer, pointer, n_bytes, n_bytes)
    copy(tensor, data.ctypes.data, 0, size)
    stride = (len(data) - n_used) // max(n_rows - 1, 1)
    rows = np.lib.stride_tricks.as_strided(
        data, (n_rows, n_used), (stride * _INT32.itemsize, _INT32.itemsize)
    )
    return rows.astype(np.uint16)


def _number(tensor: int, name: str) -> int:
    """A size of a tensor, by the name of ggml's function for it."""
    return int(native_function(name, ctypes.c_int64, ctypes.c_void_p)(tensor))
