"""Experts that tokens are routed to, watched while llama.cpp decodes; it slows decoding."""

import ctypes
import re
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from spectui.llama.library import C, native

Experts = npt.NDArray[np.int32]
"""[n_tokens, n_used]: numbers of the experts of each token."""

_CHOSEN = re.compile(rb"ffn_moe_topk-(\d+)$")
"""Name of the chosen experts, with the layer, as in ``build_moe_ffn`` of ``llama-graph.cpp``."""


class _Tensor(ctypes.Structure):
    """The first fields of ``struct ggml_tensor``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
    )


class RoutingObserver:
    """Collects the experts of every token and layer. Give its ``callback`` to one context."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        # The C side keeps only a pointer: the callback object must live as long as the context.
        self.callback = C.ggml_backend_sched_eval_callback(self._see)
        self._seen: defaultdict[int, list[Experts]] = defaultdict(list)
        self._base = native()
        self._base.ggml_get_name.restype = ctypes.c_char_p
        self._base.ggml_get_name.argtypes = [ctypes.c_void_p]
        self._base.ggml_nbytes.restype = ctypes.c_size_t
        self._base.ggml_nbytes.argtypes = [ctypes.c_void_p]
        self._base.ggml_backend_tensor_get.restype = None
        self._base.ggml_backend_tensor_get.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
        ]

    def take(self) -> dict[int, Experts]:
        """Return the experts seen since the last time, by layer, in the order of the tokens."""
        seen = {layer: np.concatenate(parts) for layer, parts in sorted(self._seen.items())}
        self._seen.clear()
        return seen

    def _see(self, tensor: int, asks: bool, _data: object) -> bool:  # noqa: FBT001 - llama.cpp calls
        """Asked of every tensor whether it is wanted, then told of those once computed."""
        match = _CHOSEN.match(self._base.ggml_get_name(tensor))
        if match and not asks:
            self._seen[int(match[1])].append(self._read(tensor))
        # In the second call this says whether to go on.
        return bool(match) or not asks

    def _read(self, tensor: int) -> Experts:
        shape = _Tensor.from_address(tensor)
        n_bytes = self._base.ggml_nbytes(tensor)
        content = np.empty(n_bytes, np.uint8)
        self._base.ggml_backend_tensor_get(tensor, content.ctypes.data, 0, n_bytes)
        # The best of longer rows: there are gaps between them.
        rows = np.ndarray(
            (shape.ne[1], shape.ne[0]),
            np.int32,
            buffer=content.data,
            strides=(shape.nb[1], shape.nb[0]),
        )
        return rows.copy()
