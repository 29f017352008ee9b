"""The process in which plans are made: ``python -m spectui.llama.plan_child FD``.

It answers the requests that come over a connection, one after the other. What llama.cpp makes of a
broken header, an abort, all memory, or no end, happens here and not in the program that asks.
"""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from spectui.errors import SpectuiError
from spectui.llama.devices import gpu_memories
from spectui.llama.plan import PlanMaker
from spectui.llama.planned import DeviceMemory, Plan, PlanRequest

HEADER_BYTES = 400 << 20
"""What reading one header may take: several times what the largest vocabulary needs."""

Answer = Path | Plan | tuple[DeviceMemory, ...] | SpectuiError
"""A path says which file is looked at next; the answer itself comes after it."""


def main() -> None:
    """Answer until nobody asks any more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Connection(int(sys.argv[1])) as connection:
        # Drivers start before memory is bounded: what they take is no header's fault.
        gpu_memories()
        # A recurrent state is allocated even for a plan. One that does not fit is said so.
        at_most = psutil.virtual_memory().available
        with _bounded(at_most), PlanMaker(reading=connection.send, bounded=_header) as maker:
            while True:
                try:
                    request = connection.recv()
                except EOFError:
                    return
                connection.send(_answer(maker, request))


def _answer(maker: PlanMaker, request: PlanRequest | None) -> Answer:
    if request is None:
        return gpu_memories()
    try:
        return maker.plan(request)
    except SpectuiError as error:
        return error


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open as long as it lives."""
    os.read(0, 1)
    os._exit(0)


def _header() -> AbstractContextManager[None]:
    return _bounded(HEADER_BYTES)


@contextmanager
def _bounded(n_bytes: int) -> Iterator[None]:
    """Bound what this process takes on top of what it has."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + n_bytes
    bound = min(limit for limit in (bound, before, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


if __name__ == "__main__":
    main()
