"""Panels of an attached server itself: its model and process, and the machine under it."""

from collections.abc import Sequence
from dataclasses import replace

from spectui.format import counted
from spectui.live.machine import (
    MemoryPool,
    MemoryState,
    TrafficHistory,
    TrafficState,
    Use,
    memory_state,
    traffic_state,
)
from spectui.monitor.readings import GpuReading, Reading, Snapshot
from spectui.server.watch.sample import ServerFacts
from spectui.server.watch.state import AttachState, HostState, LinkState
from spectui.server.watch.words import context_facts, model_facts, model_name
from spectui.tui.panels.base import Block, Line, Lines, Look, Panel, Pen, block, labelled
from spectui.tui.panels.machine import disk_block, link_blocks

_LONGEST_LIST = 8
_NO_ESTIMATE = Reading(None, "it is only known of models that spectui runs itself")
_NOT_COUNTED = Reading(None, "page faults are only counted of spectui itself")


class ServerPanel(Panel[AttachState]):
    """Shows facts that hardly change."""

    heading = "Server"

    def blocks(self, state: AttachState, pen: Pen) -> Sequence[Block]:
        """Model, context, sleep, process, address, build, connection."""
        facts = state.facts.value
        link = block((40, pen.sentence(_link(state.link, pen))))
        process = "" if state.link.failure is not None else _process(state.host, pen)
        around = (
            pen.prose(20, process, look=Look.PLAIN, step=10),
            pen.prose(25, _where(state, facts), step=10),
        )
        if facts is None:
            return (pen.prose(0, state.facts.reason or ""), *around, link)
        asleep = "asleep: the model is unloaded until the next request" if facts.is_sleeping else ""
        drafters = f"drafts by {', '.join(state.drafts.drafters)}" if state.drafts.drafters else ""
        context = ", ".join(filter(None, (*context_facts(facts), drafters)))
        return (
            pen.prose(0, model_name(facts), look=Look.STRONG, step=15),
            block((3, pen.sentence(asleep, Look.WARNING))),
            pen.prose(5, ", ".join(model_facts(facts)), look=Look.PLAIN, step=25),
            pen.prose(10, context, look=Look.PLAIN, step=25),
            *around,
            link,
            block((45, _models(facts, pen))),
        )


def _process(host: HostState, pen: Pen) -> str:
    process = host.process.value
    if process is None:
        return str(host.process.reason)
    busy = "" if host.cores is None else f", {pen.number(host.cores, 1)} cores busy"
    size = pen.size(process.rss_bytes)
    return f"{process.name} {process.pid}: {size} of RAM{busy}"


def _where(state: AttachState, facts: ServerFacts | None) -> str:
    build = "" if facts is None or facts.build is None else f", llama.cpp {facts.build}"
    return f"{state.link.url}{build}"


def _link(link: LinkState, pen: Pen) -> str:
    took = f"answers in {pen.duration(link.took_s)}" if link.is_connected else ""
    restarts = f"restarted {counted(link.n_restarts, 'time')}" if link.n_restarts else ""
    return ", ".join(filter(None, (took, restarts)))


def _models(facts: ServerFacts, pen: Pen) -> Lines:
    """List what a router runs."""
    if len(facts.models) <= 1:
        return ()
    more = len(facts.models) - _LONGEST_LIST
    names = ", ".join(facts.models[:_LONGEST_LIST])
    tail = f" and {more} more" if more > 0 else ""
    return pen.sentence(f"models: {names}{tail}")


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
    def traffic(self) -> TrafficState:
        """Load of cores and GPUs, and what moves between them."""
        state = traffic_state(self._snapshot, self._history, _NO_ESTIMATE, None)
        return state if self._reason is None else replace(state, reason=self._reason)


def _undivided(pool: MemoryPool) -> MemoryPool:
    used_bytes = sum(size_bytes for _use, size_bytes in pool.parts)
    return replace(pool, parts=((Use.OTHER, used_bytes),))


class MachinePanel(Panel[TrafficState]):
    """Shows cores, GPUs, links and disk."""

    heading = "CPU, GPU, PCIe, disk"

    def blocks(self, state: TrafficState, pen: Pen) -> Sequence[Block]:
        """One block each."""
        if state.reason is not None:
            return (block((0, pen.sentence(state.reason))),)
        return (
            _cores(state.cpu_per_core, pen),
            *(_gpu(gpu, pen) for gpu in state.links),
            *link_blocks(state, pen),
            disk_block(state, pen),
        )


def _cores(shares: tuple[float, ...], pen: Pen) -> Block:
    if not shares:
        return ()
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    bars = pen.spark(shares, min(len(shares), pen.width // 2), maximum=1.0)[0]
    return block((1, (pen.spread((*labelled("CPU", bars), ("", "")), ((busy, Look.STRONG),)),)))


def _gpu(gpu: GpuReading, pen: Pen) -> Block:
    power, heat = gpu.power_w.value, gpu.temperature_c.value
    left: Line = labelled(f"GPU {gpu.index}", f"{pen.percent(gpu.utilisation.value)} busy")
    right = ", ".join(
        text
        for text, value in ((f"{power or 0:.0f} W", power), (f"{heat or 0:.0f} °C", heat))
        if value is not None
    )
    name: Line = ((gpu.name, Look.MUTED),)
    line = pen.spread(left, ((right, Look.MUTED),))
    return block((2, (line,)), (30, (line, name)))
