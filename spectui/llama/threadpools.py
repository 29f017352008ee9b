"""Compute threads of a target's context as llama-server has them, which stay between decodes.

``common_threadpools`` of llama.cpp's ``common.cpp`` makes pools for the target alone: a draft's
context has none.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from spectui.closing import Closing
from spectui.errors import MissingLibraryError, UsageError
from spectui.llama.library import C
from spectui.llama.native import backend_function, ensure_backend, native_function
from spectui.options.catalogue import MAX_THREADS
from spectui.options.setup import ContextOptions, Numa

_POLL = 50
"""llama-server's ``--poll``: how long a thread waits awake."""
_used_numa: list[Numa] = []
"""The strategy of this process, once a model was loaded: llama.cpp takes it once."""


def use_numa(strategy: Numa | None) -> None:
    """Spread threads over the nodes of the machine, for the rest of the process.

    Raises:
        UsageError: the process does it in another way already.
    """
    if strategy is not None and not _used_numa:
        _used_numa.append(strategy)
        ensure_backend()
        C.llama_numa_init(getattr(C, f"GGML_NUMA_STRATEGY_{strategy.name}"))
    if _used_numa and strategy is not _used_numa[0]:
        raise UsageError(
            f"--numa {strategy or 'none'}: this process runs with --numa {_used_numa[0]}, which "
            "stays for as long as it runs; start another one"
        )


class _Params(ctypes.Structure):
    """``struct ggml_threadpool_params``."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * MAX_THREADS),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class ThreadPools(Closing):
    """One pool for tokens, and another for batches where their threads are others."""

    def __init__(self, context: Any, options: ContextOptions, *, n_threads: int) -> None:  # noqa: ANN401 - a C pointer
        """Start the threads, and have a ``llama_context`` use them, which is closed before them.

        Args:
            context: its pointer.
            options: what it was made with.
            n_threads: its threads per token, where the options leave the number open.
        """
        # A pool's number of threads has to be that of its decodes.
        numbers = sorted({n_threads, options.threads_batch or n_threads} - {n_threads})
        own = _Params(n_threads=n_threads, poll=_POLL, paused=bool(numbers))
        wanted = (own, *(_Params(n_threads=n, poll=_POLL) for n in numbers))
        new = _function("ggml_threadpool_new")
        self._pools: list[int] = [new(ctypes.byref(one)) for one in reversed(wanted)]
        self.attach(context)

    def attach(self, context: Any) -> None:  # noqa: ANN401 - a C pointer
        """Have another ``llama_context`` with as many threads use them too."""
        pointer = ctypes.c_void_p
        attach = native_function("llama_attach_threadpool", None, pointer, pointer, pointer)
        attach(context, self._pools[-1], self._pools[0])

    def close(self) -> None:
        """End the threads."""
        free = _function("ggml_threadpool_free")
        while self._pools:
            free(self._pools.pop())


def _function(name: str) -> Callable[..., Any]:
    """A function on thread pools, from whichever library computes with the processor."""
    found = backend_function("CPU", name)
    if found is None:
        raise MissingLibraryError(f"this llama.cpp has no backend for the CPU with {name}")
    return found
