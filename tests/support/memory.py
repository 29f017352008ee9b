"""Memory as a test says, for the gate that waits while it is short."""

from collections.abc import Callable

from spectui.engine.pressure import MemoryGate, MemoryReading, SystemMemory

GIB = 1 << 30


class Scripted(SystemMemory):
    """Memory as a test says; a look takes no time, a sleep as long as it is told."""

    def __init__(self) -> None:
        self.ram = 8 * GIB
        self.gpu: int | None = None
        self.stalled_s = 0.0
        self.now_s = 0.0
        self.on_sleep: Callable[[float], None] = lambda _now_s: None

    def read(self) -> MemoryReading:
        free = {"RAM": self.ram, **({} if self.gpu is None else {"GPU 0": self.gpu})}
        return MemoryReading(free_bytes=free, limit="memory.max", stalled_s=self.stalled_s)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.on_sleep(self.now_s)

    def close(self) -> None:
        """Nothing is open."""

    def gate(self, *, from_disk: bool = False) -> MemoryGate:
        """A gate that reads this memory and this clock."""
        return MemoryGate(self, from_disk=from_disk, clock=lambda: self.now_s, sleep=self.sleep)
