"""Memory of a context and its model by buffer type, planned or allocated, by llama.cpp itself.

None of it is in llama.cpp's interface: functions of its library are called by their symbols, and
what they return is read as the compiler lays it out.
"""

import ctypes
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter

from spectui.llama.buffers import Buffer, BufferKind
from spectui.llama.native import buffer_name, native_function

_SYMBOL = "_Z26llama_get_memory_breakdownPK13llama_context"
_SCHEDULER = "_ZNK13llama_context9get_schedEv"


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


_SHARES = ("weights_bytes", "cache_bytes", "compute_bytes")


class Share(ctypes.Structure):
    """``llama_memory_breakdown_data``: bytes of the buffers of one type."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _SHARES)
    weights_bytes: int
    cache_bytes: int
    """KV and recurrent state."""
    compute_bytes: int


class _Node(ctypes.Structure):
    """A node with ``ggml_backend_buffer_type_t`` and ``llama_memory_breakdown_data``."""

    _fields_ = (
        ("colour", ctypes.c_size_t),
        ("parent", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("buffer_type", ctypes.c_void_p),
        ("share", Share),
    )


def memory_breakdown(context: object) -> tuple[tuple[str, Share], ...]:
    """Return the memory of a ``llama_context`` and its model, planned or allocated, by buffer type.

    Llama.cpp has it for its own fitting of models to memory (``common/fit.cpp``), as a C++ function
    that returns a ``std::map``. No other source has a plan's bytes: the log of a plan has zeros.
    The map is read as libstdc++ lays it out.

    The context's output buffer is missing there. The map's few nodes are never freed.
    """
    # By value in C++ is by hidden pointer here, as for a C structure of this size.
    found = native_function(_SYMBOL, _Map, ctypes.c_void_p)(context)
    return tuple(sorted(_shares(found.root), key=itemgetter(0)))


def bytes_beside_weights(context: object) -> Counter[str]:
    """Return the bytes of a context's caches and compute buffers, by ``Buffer.memory``."""
    needed = Counter[str]()
    for device, share in memory_breakdown(context):
        memory = Buffer(device=device, kind=BufferKind.KV, size_bytes=0).memory
        needed[memory] += share.cache_bytes + share.compute_bytes
    return needed


def _shares(node: int | None) -> Iterator[tuple[str, Share]]:
    if not node:
        return
    entry = _Node.from_address(node)
    yield buffer_name(entry.buffer_type), entry.share
    yield from _shares(entry.left)
    yield from _shares(entry.right)


_MOST_BACKENDS = 16


class _Scheduler(ctypes.Structure):
    """The beginning of ``ggml_backend_sched``."""

    _fields_ = (
        ("is_reset", ctypes.c_bool),
        ("is_alloc", ctypes.c_bool),
        ("n_backends", ctypes.c_int),
        ("backends", ctypes.c_void_p * _MOST_BACKENDS),
        ("buffer_types", ctypes.c_void_p * _MOST_BACKENDS),
        ("allocator", ctypes.c_void_p),
        ("tensors", ctypes.c_void_p * 5),
        ("node_backends", ctypes.c_void_p),
        ("leaf_backends", ctypes.c_void_p),
        ("previous", ctypes.c_void_p * 2),
        ("graph", ctypes.c_byte),
    )


def compute_bytes(context: object) -> dict[str, int]:
    """Return the compute buffers that a planned context would allocate, by buffer type.

    Llama.cpp's own plan is off by an activation where several devices compute: a graph that is
    built says of some tensors on which device they are, and ``ggml_backend_sched_reserve_size``
    forgets that, unlike ``ggml_backend_sched_reserve``. The last graph that a context is planned
    with is split without forgetting; that is measured here.
    """
    pointer = ctypes.c_void_p
    found = _Scheduler.from_address(native_function(_SCHEDULER, pointer, pointer)(context))
    graph = ctypes.addressof(found) + _Scheduler.graph.offset
    sizes = (ctypes.c_size_t * _MOST_BACKENDS)()
    reserve = native_function("ggml_gallocr_reserve_n_size", None, *[pointer] * 5)
    reserve(found.allocator, graph, found.node_backends, found.leaf_backends, sizes)
    # Backends with the same buffer type share one buffer, whose size each of them reports.
    types = found.buffer_types[: found.n_backends]
    return {buffer_name(one): n for one, n in dict(zip(types, sizes, strict=False)).items()}
