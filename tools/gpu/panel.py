"""What the monitor reads of the device, against memory and traffic of known size."""

import ctypes
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from spectui.engine.planning import Planner
from spectui.llama.context import Context
from spectui.llama.devices import buffer_types, use_rpc
from spectui.llama.library import native
from spectui.llama.model import Model
from spectui.llama.planned import PlanRequest
from spectui.monitor.readings import GpuReading, Snapshot
from spectui.monitor.sampler import LiveSource
from spectui.speculative.models import Outputs
from tools.gpu.card import CONTEXT, Card


def panel(card: Card) -> dict[str, Any]:
    """What the monitor reads of the GPU, against memory and traffic of known size."""
    n_bytes = (16 << 20) if card.is_small else (256 << 20)
    seconds = 1.0 if card.is_small else 6.0
    readings: dict[str, Any] = {}
    with closing(LiveSource()) as source:
        idle = source.read()
        readings["gpus"] = [gpu.name for gpu in idle.gpus]
        readings["reason"] = idle.gpu_reason
        readings["memory"] = memory(card, source)
        for direction in ("to", "from"):
            watched = Watched(source)
            copied, took_s = copy(card, n_bytes, seconds, direction)
            seen = watched.end()
            readings[f"{direction}_the_gpu"] = {
                "bytes": copied,
                "bytes_per_s": copied / took_s,
                "read_bytes_per_s": mean(seen, f"pcie_{'rx' if direction == 'to' else 'tx'}"),
                "readings": [asdict(one) for one in seen],
            }
        readings["last"] = [asdict(gpu) for gpu in source.read().gpus]
    return readings


def memory(card: Card, source: LiveSource) -> dict[str, Any]:
    """Memory in use on the GPU, by the driver, and what llama.cpp planned for this process."""
    with Planner(rpc=card.devices.rpc) as planner:
        buffers = planner.plan(PlanRequest(target=card.dense, context=CONTEXT)).buffers
    with (
        Model(card.dense) as model,
        Context(model, CONTEXT, max_outputs=1) as context,
    ):
        context.decode([1], Outputs.LAST)
        time.sleep(1.5)
        gpus = source.read().gpus
    return {
        "planned_bytes": sum(one.size_bytes for one in buffers if one.memory == card.memory),
        "used_bytes": [gpu.memory_used_bytes for gpu in gpus],
    }


class Watched:
    """Reads the machine four times a second on a thread, until it is ended."""

    def __init__(self, source: LiveSource) -> None:
        """Begin."""
        self._source = source
        self._ended = threading.Event()
        self._seen: list[Snapshot] = []
        source.read()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.wait(0.25):
            self._seen.append(self._source.read())

    def end(self) -> tuple[GpuReading, ...]:
        """Readings of the first GPU; none where there is none."""
        self._ended.set()
        self._thread.join()
        return tuple(one.gpus[0] for one in self._seen if one.gpus)


def mean(seen: Sequence[GpuReading], link: str) -> float | None:
    """Mean traffic of one direction in bytes/s; None where it was never read."""
    rates = [getattr(one, f"{link}_bytes_per_s") for one in seen]
    known = [rate.value for rate in rates if rate.value is not None]
    return statistics.mean(known) if known else None


def copy(card: Card, n_bytes: int, seconds: float, direction: str) -> tuple[int, float]:
    """Copy a tensor to the device, or from it, for so long; bytes that were copied, and seconds."""
    use_rpc(card.devices.rpc)
    base = native()
    for name, restype, argtypes in _COPYING:
        function = getattr(base, name)
        function.restype, function.argtypes = restype, argtypes
    host = ctypes.create_string_buffer(n_bytes)
    buffer = base.ggml_backend_buft_alloc_buffer(buffer_types()[card.memory], n_bytes)
    context = base.ggml_init(_Init(size=1 << 16, buffer=None, no_alloc=True))
    tensor = base.ggml_new_tensor_1d(context, _GGML_TYPE_I8, n_bytes)
    base.ggml_backend_tensor_alloc(buffer, tensor, base.ggml_backend_buffer_get_base(buffer))
    move = base.ggml_backend_tensor_set if direction == "to" else base.ggml_backend_tensor_get
    n_copied, began_s = 0, time.monotonic()
    while time.monotonic() - began_s < seconds:
        move(tensor, host, 0, n_bytes)
        n_copied += n_bytes
    took_s = time.monotonic() - began_s
    base.ggml_backend_buffer_free(buffer)
    base.ggml_free(context)
    return n_copied, took_s


_GGML_TYPE_I8 = 24


class _Init(ctypes.Structure):
    """``struct ggml_init_params``."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_COPYING: tuple[tuple[str, Any, list[Any]], ...] = (
    ("ggml_backend_buft_alloc_buffer", _POINTER, [_POINTER, _SIZE]),
    ("ggml_backend_buffer_get_base", _POINTER, [_POINTER]),
    ("ggml_backend_buffer_free", None, [_POINTER]),
    ("ggml_init", _POINTER, [_Init]),
    ("ggml_free", None, [_POINTER]),
    ("ggml_new_tensor_1d", _POINTER, [_POINTER, ctypes.c_int, ctypes.c_int64]),
    ("ggml_backend_tensor_alloc", ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    ("ggml_backend_tensor_set", None, [_POINTER, _POINTER, _SIZE, _SIZE]),
    ("ggml_backend_tensor_get", None, [_POINTER, _POINTER, _SIZE, _SIZE]),
)
