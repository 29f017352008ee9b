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
from spectui.server.watch.sample import (
    HostState,
    ServerFacts,
    context_facts,
    model_facts,
    model_name,
)
from spectui.server.watch.tracker import AttachState, LinkState
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    block,
    labelled,
    prose,
    sentence,
    spread,
)
from spectui.tui.panels.machine import disk_block, link_blocks

_LONGEST_LIST = 8
_NO_ESTIMATE = Reading(None, "it is only known of models that spectui runs itself")
_NOT_COUNTED = Reading(None, "page faults are only counted of spectui itself")


class ServerPanel(Panel[AttachState]):
    """Shows facts that hardly change."""

    heading = "Server"

    def blocks(self, state: AttachState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Model, context, sleep, process, address, build, connection."""
        facts = state.facts.value
        link = block((40, sentence(_link(state.link, glyphs), Look.MUTED, width, glyphs)))
        process = "" if state.link.failure is not None else _process(state.host, glyphs)
        around = (
            prose(20, process, width, glyphs, look=Look.PLAIN, step=10),
            prose(25, _where(state, facts), width, glyphs, step=10),
        )
        if facts is None:
            return (prose(0, state.facts.reason or "", width, glyphs), *around, link)
        asleep = "asleep: the model is unloaded until the next request" if facts.is_sleeping else ""
        drafters = f"drafts by {', '.join(state.drafts.drafters)}" if state.drafts.drafters else ""
        context = ", ".join(filter(None, (*context_facts(facts), drafters)))
        return (
            prose(0, model_name(facts), width, glyphs, look=Look.STRONG, step=15),
            block((3, sentence(asleep, Look.WARNING, width, glyphs))),
            prose(5, ", ".join(model_facts(facts)), width, glyphs, look=Look.PLAIN, step=25),
            prose(10, context, width, glyphs, look=Look.PLAIN, step=25),
            *around,
            link,
            block((45, _models(facts, width, glyphs))),
        )


def _process(host: HostState, glyphs: Glyphs) -> str:
    process = host.process.value
    if process is None:
        return str(host.process.reason)
    busy = "" if host.cores is None else f", {glyphs.number(host.cores, 1)} cores busy"
    size = glyphs.size(process.rss_bytes)
    return f"{process.name} {process.pid}: {size} of RAM{busy}"


def _where(state: AttachState, facts: ServerFacts | None) -> str:
    build = "" if facts is None or facts.build is None else f", llama.cpp {facts.build}"
    return f"{state.link.url}{build}"


def _link(link: LinkState, glyphs: Glyphs) -> str:
    took = f"answers in {glyphs.duration(link.took_s)}" if link.is_connected else ""
    restarts = f"restarted {counted(link.n_restarts, 'time')}" if link.n_restarts else ""
    return ", ".join(filter(None, (took, restarts)))


def _models(facts: ServerFacts, width: int, glyphs: Glyphs) -> Lines:
    """List what a router runs."""
    if len(facts.models) <= 1:
        return ()
    more = len(facts.models) - _LONGEST_LIST
    names = ", ".join(facts.models[:_LONGEST_LIST])
    tail = f" and {more} more" if more > 0 else ""
    return sentence(f"models: {names}{tail}", Look.MUTED, width, glyphs)


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

    def blocks(self, state: TrafficState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """One block each."""
        if state.reason is not None:
            return (block((0, sentence(state.reason, Look.MUTED, width, glyphs))),)
        return (
            _cores(state.cpu_per_core, width, glyphs),
            *(_gpu(gpu, width, glyphs) for gpu in state.links),
            *link_blocks(state, width, glyphs),
            disk_block(state, width, glyphs),
        )


def _cores(shares: tuple[float, ...], width: int, glyphs: Glyphs) -> Block:
    if not shares:
        return ()
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    bars = glyphs.spark(shares, min(len(shares), width // 2), maximum=1.0)[0]
    return block((1, (spread((*labelled("CPU", bars), ("", "")), ((busy, Look.STRONG),), width),)))


def _gpu(gpu: GpuReading, width: int, glyphs: Glyphs) -> Block:
    power, heat = gpu.power_w.value, gpu.temperature_c.value
    left: Line = labelled(f"GPU {gpu.index}", f"{glyphs.percent(gpu.utilisation.value)} busy")
    right = ", ".join(
        text
        for text, value in ((f"{power or 0:.0f} W", power), (f"{heat or 0:.0f} °C", heat))
        if value is not None
    )
    name: Line = ((gpu.name, Look.MUTED),)
    line = spread(left, ((right, Look.MUTED),), width)
    return block((2, (line,)), (30, (line, name)))
