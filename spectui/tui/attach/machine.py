"""The machine under an attached server: memory, GPUs, PCIe, disk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.live.memory import MemoryState, memory_state
from spectui.live.plan import Use
from spectui.live.pools import MemoryPool
from spectui.live.traffic import TrafficHistory, TrafficState, traffic_state
from spectui.monitor.readings import GpuReading, Reading, Snapshot
from spectui.server.watch.state import HostState
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, block, spread
from spectui.tui.panels.memory import MemoryPanel, pool_blocks
from spectui.tui.panels.paint import MUTED, STRONG, labelled, sentence
from spectui.tui.panels.traffic import disk_block, link_blocks
from spectui.tui.widgets.charts import spark

_UNREAD = TrafficState()
_NO_ESTIMATE = Reading(None, "it is only known of models that spectui runs itself")
_NOT_COUNTED = Reading(None, "page faults are only counted of spectui itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """What the machine's panel shows."""

    reason: str | None = "the machine has not been read yet"
    gpus: tuple[GpuReading, ...] = ()
    cpu_per_core: tuple[float, ...] = ()
    traffic: TrafficState = _UNREAD


class Machine:
    """The last readings, with the server's process in place of spectui's own."""

    def __init__(self) -> None:
        """Start without a reading."""
        self._snapshot: Snapshot | None = None
        self._history = TrafficHistory()
        self._reason: str | None = None

    def add(self, snapshot: Snapshot, host: HostState) -> None:
        """Take a reading."""
        disk = replace(
            snapshot.host,
            disk_read_bytes_per_s=host.read_bytes_per_s,
            major_faults_per_s=_NOT_COUNTED,
        )
        self._snapshot = replace(snapshot, host=disk)
        self._history.add(self._snapshot, _NO_ESTIMATE)

    def fail(self, reason: str) -> None:
        """There are no readings any more."""
        self._snapshot, self._reason = None, reason

    @property
    def memory(self) -> MemoryState:
        """All memories, without a plan: whose they are is not known."""
        if self._reason is not None:
            return MemoryState(reason=self._reason)
        state = memory_state(self._snapshot, {}, is_decoding=False, swap_before_bytes=None)
        return replace(state, pools=tuple(map(_undivided, state.pools)))

    @property
    def state(self) -> MachineState:
        """The rest."""
        if self._snapshot is None:
            return MachineState(reason=self._reason) if self._reason else MachineState()
        return MachineState(
            reason=None,
            gpus=self._snapshot.gpus,
            cpu_per_core=self._snapshot.host.cpu_per_core,
            traffic=traffic_state(self._snapshot, self._history, _NO_ESTIMATE, None),
        )


def _undivided(pool: MemoryPool) -> MemoryPool:
    used_bytes = sum(size_bytes for _use, size_bytes in pool.parts)
    return replace(pool, parts=((Use.OTHER, used_bytes),))


class HostMemoryPanel(MemoryPanel):
    """Shows a bar per memory, without saying whose parts they are."""

    def blocks(self, state: MemoryState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Bars and warnings."""
        return pool_blocks(state, width, glyphs)


class MachinePanel(Panel[MachineState]):
    """Shows cores, GPUs, links and disk."""

    heading = "CPU, GPU, PCIe, disk"

    def blocks(self, state: MachineState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """One block each."""
        if state.reason is not None:
            return (block((0, sentence(state.reason, MUTED, width, glyphs))),)
        return (
            _cores(state.cpu_per_core, width, glyphs),
            *(_gpu(gpu, width, glyphs) for gpu in state.gpus),
            *link_blocks(state.traffic, width, glyphs),
            disk_block(state.traffic, width, glyphs),
        )


def _cores(shares: tuple[float, ...], width: int, glyphs: Glyphs) -> Block:
    if not shares:
        return ()
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    bars = spark(shares, min(len(shares), width // 2), glyphs, maximum=1.0)[0]
    return block((1, (spread((*labelled("CPU", bars), ("", "")), ((busy, STRONG),), width),)))


def _gpu(gpu: GpuReading, width: int, glyphs: Glyphs) -> Block:
    power, heat = gpu.power_w.value, gpu.temperature_c.value
    left: Line = labelled(
        f"GPU {gpu.index}", f"{units.percent(gpu.utilisation.value, glyphs)} busy"
    )
    right = ", ".join(
        text
        for text, value in ((f"{power or 0:.0f} W", power), (f"{heat or 0:.0f} °C", heat))
        if value is not None
    )
    name: Line = ((gpu.name, MUTED),)
    line = spread(left, ((right, MUTED),), width)
    return block((2, (line,)), (30, (line, name)))
