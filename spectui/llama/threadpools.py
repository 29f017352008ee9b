"""Compute threads of a target's context as llama-server has them: where they run, how they wait.

``common_threadpools`` of llama.cpp's ``common.cpp`` makes pools for the target alone: a draft's
context has none, whatever is said of its threads. What the machine does not allow is found out
beforehand: ggml would write it to standard error, for every thread and every decode.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spectui.closing import Closing
from spectui.cores import may_run_on
from spectui.errors import MissingLibraryError, UsageError
from spectui.llama.library import C
from spectui.llama.native import backend_function, ensure_backend, native_function
from spectui.options.context import MAX_THREADS
from spectui.options.setup import ContextOptions, CpuOptions, Numa

_NICE = {-1: 5, 0: 0, 1: -5, 2: -10, 3: -20}
"""Niceness by ``--prio`` (``set_process_priority``)."""
_REAL_TIME = {1: 40, 2: 80, 3: 90}
"""Priority among threads of real time (``ggml_thread_apply_priority``)."""
_POLL = 50
"""How long threads wait awake for work, from 0 to 100, in a llama-server that is not told."""
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
        self.warnings: list[str] = []
        """Requests that the machine refused, a sentence each."""
        self._set_niceness(options.cpu.prio)
        own = batch = self._params(options.cpu, n_threads)
        if options.threads_batch:
            # These have options of their own there (postprocess_cpu_params).
            batch = self._params(CpuOptions(), options.threads_batch)
        # A pool's number of threads has to be that of its decodes.
        wanted = (own,) if bytes(own) == bytes(batch) else (own, batch)
        own.paused = len(wanted) > 1
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

    def _params(self, cpu: CpuOptions, n_threads: int) -> _Params:
        cpu = self._allowed(cpu)
        if cpu.cpus and len(cpu.cpus) < n_threads:
            self.warnings.append(
                f"--cpu-mask has {len(cpu.cpus)} of the {n_threads} processors that "
                f"-t {n_threads} asks for, and threads wait for each other there"
            )
        found = _Params(n_threads=n_threads, prio=cpu.prio, poll=_POLL)
        for one in cpu.cpus:
            found.cpumask[one] = True
        return found

    def _allowed(self, cpu: CpuOptions) -> CpuOptions:
        """The part of the options that this machine allows."""
        usable = tuple(one for one in cpu.cpus if may_run_on(one))
        if usable != cpu.cpus:
            without = ", ".join(str(one) for one in cpu.cpus if one not in usable)
            left = "the others have the threads" if usable else "threads run on any"
            self.warnings.append(
                f"--cpu-mask: this process cannot run on processor {without}; {left}"
            )
        refused = _refused(lambda: _schedule(cpu.prio))
        if refused is not None:
            self.warnings.append(
                f"--prio {cpu.prio}: the system does not let threads have that priority "
                f"({refused}); they keep theirs"
            )
        return replace(cpu, cpus=usable, prio=0 if refused else cpu.prio)

    def _set_niceness(self, prio: int) -> None:
        """Set the niceness of this thread and of those that it starts."""
        if prio == 0:
            return
        try:
            os.setpriority(os.PRIO_PROCESS, 0, _NICE[prio])
        except OSError as error:
            self.warnings.append(
                f"--prio {prio}: the system does not let this process have that priority "
                f"({error.strerror}); it keeps its own"
            )


def _schedule(prio: int) -> None:
    """Have this thread scheduled as ggml has its threads.

    Raises:
        OSError: it may not be.
    """
    if prio == 0:
        return
    policy = os.SCHED_BATCH if prio < 0 else os.SCHED_FIFO
    os.sched_setscheduler(0, policy, os.sched_param(_REAL_TIME.get(prio, 0)))


def _refused(change: Callable[[], None]) -> str | None:
    """Try on a thread of its own what concerns a thread; return why the system refuses it."""
    reasons: list[str] = []

    def run() -> None:
        try:
            change()
        except OSError as error:
            reasons.append(error.strerror or str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return reasons[0] if reasons else None


def _function(name: str) -> Callable[..., Any]:
    """A function on thread pools, from whichever library computes with the processor."""
    found = backend_function("CPU", name)
    if found is None:
        raise MissingLibraryError(f"this llama.cpp has no backend for the CPU with {name}")
    return found
