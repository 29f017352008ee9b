"""A gate before each load and measurement, which is closed while memory is short.

Memory is short where RAM, within all cgroup limits, or a GPU that the models use has next to
nothing left: then the kernel or the driver ends somebody soon. So it is where processes wait for
memory much of the time, because the kernel reclaims or swaps: what is measured then says nothing,
and is measured again. Whoever asked for weights that are read from disk again and again has that
always.

The gate opens once there is clearly more than what closed it, for some looks in a row. What takes
memory for a while, such as a compiler or a backup, is through within minutes. So the gate gives up
after ten: then something stays, and a person has to choose.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spectui.closing import Closing
from spectui.cores import cgroups
from spectui.engine.host_memory import host_memory
from spectui.errors import CancelledError, MemoryShortError
from spectui.format import bytes_text, percent_text
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError

MOST_S = 600.0
"""Seconds for which memory may stay short."""
_FLOORS = {"RAM": 256 << 20}
"""Bytes below which a memory is short; half of what it had at first, and when all was loaded, where
that is less: a pair that leaves little was wanted so."""
_GPU_FLOOR_BYTES = 64 << 20
_OURS_BYTES = 32 << 20
"""A GPU of which a load takes less is another's."""
_PLENTY = 1.5
"""Times as much opens the gate."""
_STALLED_SHARE = 0.10
"""Share of the time in which a process waited for memory, as in ``monitor/disturbance.py``."""
_CALM_SHARE = 0.05
_STALLED_S = 0.05
"""Below it a share says nothing."""
_LOOK_S = 1.0
_STEADY_LOOKS = 3
_EVERY_S = 0.5
_MOST_REPEATS = 2

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Memory at one moment."""

    free_bytes: Mapping[str, int]
    """By name: ``RAM``, and each GPU as ``GPU 0``."""
    limit: str | None = None
    """Limit of RAM, as ``HostMemory.limit``."""
    stalled_s: float | None = None
    """Seconds so far in which a process waited for memory; None where the kernel does not tell."""


class SystemMemory(Closing):
    """Reads memory from the kernel and, where there is one, NVIDIA's driver."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Begin a session with the driver.

        Args:
            root: folder of ``proc`` and of the mounts of cgroups.
        """
        own = (folder / "memory.pressure" for folder, _version in cgroups(root, "memory"))
        whole = root / "proc/pressure/memory"
        # In a container the machine's counts what others wait for.
        self._pressure = next((path for path in own if path.is_file()), whole)
        self._gpus: list[nvml.Handle] = []
        self._root = root
        self._session = ExitStack()
        with suppress(NvmlError):
            self._session.enter_context(nvml.session())
            self._gpus = nvml.gpus()

    def read(self) -> MemoryReading:
        """Read what is free now."""
        host = host_memory(self._root)
        free = {"RAM": host.free_bytes}
        for index, gpu in enumerate(self._gpus):
            # A driver that fails says nothing of memory.
            with suppress(NvmlError):
                left = nvml.memory_total_bytes(gpu) - nvml.memory_used_bytes(gpu)
                free[f"GPU {index}"] = int(left)
        return MemoryReading(free_bytes=free, limit=host.limit, stalled_s=self._stalled_s())

    def _stalled_s(self) -> float | None:
        with suppress(OSError, ValueError, IndexError):
            some = self._pressure.read_text().splitlines()[0]
            return int(some.rpartition("total=")[2]) / 1e6
        return None

    def close(self) -> None:
        """End the session."""
        self._session.close()
        self._gpus = []


class MemoryGate(Closing):
    """Lets loads and measurements through while there is memory. Used by one thread."""

    def __init__(
        self,
        memory: SystemMemory | None = None,
        *,
        from_disk: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the gate.

        Args:
            memory: is read, and closed with this; None for the system's.
            from_disk: whether weights may be read from disk again and again.
            clock: seconds.
            sleep: waits for so many seconds.
        """
        self._memory = memory or SystemMemory()
        self._from_disk = from_disk
        self._clock = clock
        self._sleep = sleep
        self._before = self._last = self._memory.read()
        self._last_s = clock()
        self._floors = {
            name: min(most, self._before.free_bytes.get(name, most) // 2)
            for name, most in _FLOORS.items()
        }
        self.n_pauses = 0
        self.waited_s = 0.0
        """Seconds for which it was closed."""

    def settle(self) -> None:
        """Take what is free now, after a load, for what there is."""
        now = self._look()[0]
        for name, free in now.free_bytes.items():
            most = _FLOORS.get(name, _GPU_FLOOR_BYTES)
            is_ours = self._before.free_bytes.get(name, free) - free >= _OURS_BYTES
            if name in self._floors or is_ours:
                self._floors[name] = min(most, free // 2)

    def measure(
        self,
        run: Callable[[], Done],
        *,
        tell: Callable[[str | None], None],
        again: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> Done:
        """Measure once there is memory, and again where it was short meanwhile.

        Args:
            run: measures.
            tell: told why nothing is measured now, and None once it goes on.
            again: told that what was measured does not count.
            is_over: whether nobody waits for it any more.

        Raises:
            CancelledError: nobody does.
            MemoryShortError: memory stays short.
        """
        for _repeat in range(_MOST_REPEATS):
            self.wait(tell, is_over)
            done = run()
            passed_s = self._clock() - self._last_s
            if self._from_disk or passed_s < _EVERY_S:
                return done
            if _stalled_share(self._last, self._memory.read(), passed_s) < _STALLED_SHARE:
                return done
            again()
        self.wait(tell, is_over)
        # The watch over the machine says what it is worth.
        return run()

    def wait(self, tell: Callable[[str | None], None], is_over: Callable[[], bool]) -> None:
        """Wait while memory is short; arguments and errors are those of ``measure``."""
        began_s = self._clock()
        if began_s - self._last_s < _EVERY_S:
            return
        reason = self._shortage(1.0, _STALLED_SHARE)
        if reason is None:
            return
        self.n_pauses += 1
        tell(f"paused, because {reason}; it goes on once there is memory again")
        try:
            n_well = 0
            while n_well < _STEADY_LOOKS:
                if is_over():
                    raise CancelledError("cancelled while memory was short")
                if self._clock() - began_s > MOST_S:
                    raise MemoryShortError(
                        f"memory stayed short for {MOST_S / 60:.0f} min ({reason}); close other "
                        "programs, or choose a shorter -c, and start the command again"
                    )
                self._sleep(_LOOK_S)
                shortage = self._shortage(_PLENTY, _CALM_SHARE)
                reason = shortage or reason
                n_well = 0 if shortage else n_well + 1
        finally:
            self.waited_s += self._clock() - began_s
        tell(None)

    def _shortage(self, factor: float, stalled_share: float) -> str | None:
        """The memory that is short; None for none."""
        now, share = self._look()
        for name, floor in self._floors.items():
            free = now.free_bytes.get(name)
            if free is not None and free < factor * floor:
                where = f" below {now.limit}" if name == "RAM" and now.limit else ""
                return f"{name} has {bytes_text(free)} left{where}"
        if share >= stalled_share and not self._from_disk:
            return f"programs wait for memory {percent_text(share)} of the time"
        return None

    def _look(self) -> tuple[MemoryReading, float]:
        """Read, and return the share of the time since the last look that was waited for memory."""
        now, now_s = self._memory.read(), self._clock()
        share = _stalled_share(self._last, now, now_s - self._last_s)
        self._last, self._last_s = now, now_s
        return now, share

    def close(self) -> None:
        """End the session with the driver."""
        self._memory.close()


def _stalled_share(before: MemoryReading, after: MemoryReading, seconds: float) -> float:
    if before.stalled_s is None or after.stalled_s is None or seconds <= 0:
        return 0.0
    stalled_s = after.stalled_s - before.stalled_s
    return stalled_s / seconds if stalled_s >= _STALLED_S else 0.0
