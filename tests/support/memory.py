"""Memory as a test says, for the gate that waits while it is short."""

from collections.abc import Callable

from spectui.engine.host_memory import HostMemory
from spectui.engine.pressure import MemoryGate

GIB = 1 << 30


class Scripted:
    """Memory as a test says; a look takes no time, a sleep as long as it is told."""

    def __init__(self) -> None:
        self.ram = 8 * GIB
        self.now_s = 0.0
        self.on_sleep: Callable[[float], None] = lambda _now_s: None

    def read(self) -> HostMemory:
        return HostMemory(free_bytes=self.ram, limit="memory.max")

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.on_sleep(self.now_s)

    def gate(self) -> MemoryGate:
        """A gate that reads this memory and this clock."""
        return MemoryGate(self.read, clock=lambda: self.now_s, sleep=self.sleep)
