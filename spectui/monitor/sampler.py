"""Sources of snapshots of a machine, and the thread that reads one at a steady interval."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from spectui.errors import SpectuiError
from spectui.monitor.drm import KernelGpus
from spectui.monitor.host import Host
from spectui.monitor.nvml import NvidiaGpus
from spectui.monitor.readings import Snapshot


class Source(Protocol):
    """Source of snapshots of a machine, read from one thread."""

    def read(self) -> Snapshot:
        """Return the present snapshot. What cannot be read is None with a reason in it."""

    def close(self) -> None:
        """Give back what the source holds; it is not read again."""


class LiveSource:
    """Reads this machine. Readings of GPUs that are missing, refuse or get lost have reasons."""

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Look at the host; GPUs are looked for at the first ``read``.

        Args:
            root: folder with ``proc`` and ``sys``, where the kernel describes GPUs.
            process: asked at every reading for the process that has the models; None for this one.

        Raises:
            OSError: /proc is not there.
        """
        self._host = Host(time.monotonic, process=process)
        self._nvidia = NvidiaGpus()
        self._others = KernelGpus(root)

    def read(self) -> Snapshot:
        """Return the present snapshot."""
        now_s = time.monotonic()
        nvidia, reason = self._nvidia.read(now_s)
        gpus = nvidia + self._others.read(now_s, len(nvidia))
        return Snapshot(
            gpus=gpus,
            gpu_reason=None if gpus else reason,
            host=self._host.read(),
        )

    def close(self) -> None:
        """Close the driver."""
        self._nvidia.close()


_JOIN_S = 0.8


class Sampler:
    """Hands a snapshot to a sink every interval, from a daemon thread of its own."""

    def __init__(
        self,
        make_source: Callable[[], Source],
        sink: Callable[[Snapshot], None],
        *,
        interval_s: float = 0.25,
        on_failure: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """Prepare; ``start`` begins.

        Args:
            make_source: called on the thread, because a driver may take long to start.
            sink: called on the thread with every snapshot; it must only store or post it.
            interval_s: from the beginning of one read to the next.
            on_failure: called on the thread with one sentence if source or sink fail. That ends
                the sampling: a live source explains what it lacks and does not fail.
        """
        self._make_source = make_source
        self._sink = sink
        self._on_failure = on_failure
        self._interval_s = interval_s
        self._changed = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="spectui-monitor", daemon=True)

    @property
    def interval_s(self) -> float:
        """Seconds from the beginning of one read to the next. Setting it takes effect at once."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, value: float) -> None:
        self._interval_s = value
        self._changed.set()

    def start(self) -> None:
        """Begin, once."""
        self._thread.start()

    def close(self) -> None:
        """End the sampling. A thread that hangs in the driver is left behind, and stays silent."""
        self._closed = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            with closing(self._make_source()) as source:
                while not self._closed:
                    began_s = time.monotonic()
                    snapshot = source.read()
                    if not self._closed:
                        self._sink(snapshot)
                    self._pause(began_s)
        except Exception as error:  # noqa: BLE001 - a thread that dies silently leaves stale panels
            if not self._closed:
                self._on_failure(_sentence(error))

    def _pause(self, began_s: float) -> None:
        """Wait for the next read; a changed interval takes effect at once."""
        while not self._closed and (left_s := began_s + self._interval_s - time.monotonic()) > 0:
            self._changed.wait(left_s)
            self._changed.clear()


def _sentence(error: Exception) -> str:
    if isinstance(error, SpectuiError):
        return str(error)
    return f"the monitor stopped on an error of its own ({type(error).__name__}: {error})"
