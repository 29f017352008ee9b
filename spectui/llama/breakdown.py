"""Memory of a context, in bytes: ``llama_get_memory_breakdown``.

Llama.cpp has it for its own fitting of models to memory (``common/fit.cpp``), as a C++ function
that returns a ``std::map``. It is the one thing that tells a plan's bytes: the log of a plan has
zeros. The map is read as libstdc++ lays it out.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from spectui.llama.c import C
from spectui.llama.library import ggml

_SYMBOL = "_Z26llama_get_memory_breakdownPK13llama_context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bytes of the buffers of one type."""

    buffer_type: str
    """Name in llama.cpp: ``CPU``, ``CUDA0``, ``CUDA_Host``."""
    weights_bytes: int
    cache_bytes: int
    """KV and recurrent state."""
    compute_bytes: int


class _Map(ctypes.Structure):
    """``std::map``: an ordering, the head of a red-black tree, the number of nodes."""

    _fields_ = (
        ("ordering", ctypes.c_size_t),
        ("colour", ctypes.c_size_t),
        ("root", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("n_nodes", ctypes.c_size_t),
    )


class _Node(ctypes.Structure):
    """A node with ``ggml_backend_buffer_type_t`` and ``llama_memory_breakdown_data``."""

    _fields_ = (
        ("colour", ctypes.c_size_t),
        ("parent", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("buffer_type", ctypes.c_void_p),
        ("model", ctypes.c_size_t),
        ("context", ctypes.c_size_t),
        ("compute", ctypes.c_size_t),
    )


def memory_breakdown(context: object) -> tuple[Share, ...]:
    """Return the memory of a ``llama_context`` and its model, planned or allocated, by buffer type.

    The buffer of its outputs is not among it. The map's few nodes are never freed.
    """
    found = _function()(context)
    return tuple(sorted(_shares(found.root), key=lambda share: share.buffer_type))


@cache
def _function() -> Any:  # noqa: ANN401 - a ctypes function
    function = getattr(C._lib, _SYMBOL)  # noqa: SLF001 - how the binding exposes the library
    # By value in C++ is by hidden pointer here, as for a C structure of this size.
    function.argtypes, function.restype = [ctypes.c_void_p], _Map
    return function


def _shares(node: int | None) -> Iterator[Share]:
    if not node:
        return
    base = ggml("ggml-base")
    base.ggml_backend_buft_name.argtypes = [ctypes.c_void_p]
    base.ggml_backend_buft_name.restype = ctypes.c_char_p
    entry = _Node.from_address(node)
    yield Share(
        buffer_type=base.ggml_backend_buft_name(entry.buffer_type).decode(),
        weights_bytes=entry.model,
        cache_bytes=entry.context,
        compute_bytes=entry.compute,
    )
    yield from _shares(entry.left)
    yield from _shares(entry.right)
