"""Traffic over PCIe, out of DRAM and from the disk; load of the machine meanwhile."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.engine.events import Role
from spectui.live.rounds import N_MEAN, VerifyCost
from spectui.live.throughput import ratio
from spectui.llama.buffers import ModelMemory
from spectui.models.weights import WeightTraffic
from spectui.monitor.readings import GpuReading, Reading, Ring, Snapshot
from spectui.speculative.counters import Round

N_SAMPLES = 160
_UNREAD = Reading(None, "the machine has not been read yet")
_IDLE = Reading(None, "nothing is being decoded")
_UNKNOWN = Reading(None, "the target's file does not tell its weights")
_N_READINGS = 8
"""Readings: two seconds at the usual pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """PCIe link of one GPU."""

    gpu: int
    rx_bytes_per_s: Reading
    tx_bytes_per_s: Reading
    limit_bytes_per_s: Reading
    """Per direction."""
    generation: Reading
    width: Reading
    rx_history: tuple[float | None, ...] = ()
    tx_history: tuple[float | None, ...] = ()

    @property
    def use(self) -> float | None:
        """Share of the limit that the busier direction takes."""
        both = (self.rx_bytes_per_s.value, self.tx_bytes_per_s.value)
        rates = [rate for rate in both if rate is not None]
        return ratio(max(rates), self.limit_bytes_per_s.value) if rates else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficState:
    """All traffic, with a history each, oldest first."""

    links: tuple[LinkState, ...] = ()
    gpu_reason: str | None = _UNREAD.reason
    """Why there are no links; None if there are."""
    dram_bytes_per_s: Reading = _UNREAD
    """Estimate: active weights in RAM x decodes per second. Caches and activations add to it."""
    dram_best_bytes_per_s: float | None = None
    """The most that one kind of decode was seen to read."""
    dram_history: tuple[float | None, ...] = ()
    disk_bytes_per_s: Reading = _UNREAD
    major_faults_per_s: Reading = _UNREAD
    disk_history: tuple[float | None, ...] = ()


@dataclass(slots=True)
class TrafficHistory:
    """The last samples of everything."""

    rx: dict[int, Ring] = field(default_factory=dict)
    tx: dict[int, Ring] = field(default_factory=dict)
    dram: Ring = field(default_factory=lambda: Ring(N_SAMPLES))
    disk: Ring = field(default_factory=lambda: Ring(N_SAMPLES))

    def add(self, snapshot: Snapshot, dram: Reading) -> None:
        """Take a sample."""
        for gpu in snapshot.gpus:
            self.rx.setdefault(gpu.index, Ring(N_SAMPLES)).append(gpu.pcie_rx_bytes_per_s.value)
            self.tx.setdefault(gpu.index, Ring(N_SAMPLES)).append(gpu.pcie_tx_bytes_per_s.value)
        self.dram.append(dram.value)
        self.disk.append(snapshot.host.disk_read_bytes_per_s.value)

    def link(self, gpu: GpuReading) -> LinkState:
        """Return a GPU's link with its past."""
        return LinkState(
            gpu=gpu.index,
            rx_bytes_per_s=gpu.pcie_rx_bytes_per_s,
            tx_bytes_per_s=gpu.pcie_tx_bytes_per_s,
            limit_bytes_per_s=gpu.pcie_limit_bytes_per_s,
            generation=gpu.pcie_generation,
            width=gpu.pcie_width,
            rx_history=self.rx[gpu.index].values(),
            tx_history=self.tx[gpu.index].values(),
        )


def traffic_state(
    snapshot: Snapshot | None, history: TrafficHistory, dram: Reading, best: float | None
) -> TrafficState:
    """Put the numbers together."""
    if snapshot is None:
        return TrafficState(dram_bytes_per_s=dram, dram_best_bytes_per_s=best)
    return TrafficState(
        links=tuple(history.link(gpu) for gpu in snapshot.gpus),
        gpu_reason=snapshot.gpu_reason,
        dram_bytes_per_s=dram,
        dram_best_bytes_per_s=best,
        dram_history=history.dram.values(),
        disk_bytes_per_s=snapshot.host.disk_read_bytes_per_s,
        major_faults_per_s=snapshot.host.major_faults_per_s,
        disk_history=history.disk.values(),
    )


def dram_estimate(
    models: Mapping[Role, ModelMemory], recent: Sequence[Round], *, is_decoding: bool
) -> Reading:
    """Estimate what the last rounds read from RAM per second.

    The draft's own verification pass (schedule ``server``) is left out: a round does not
    tell it apart.
    """
    if not is_decoding or not recent:
        return _IDLE
    target, draft = _traffic(models, Role.TARGET), _draft_traffic(models)
    if target is None:
        return _UNKNOWN
    last = recent[-N_MEAN:]
    read_bytes = sum(target.cpu_bytes_per_decode(r.n_drafted + 1) for r in last)
    if draft is not None:
        read_bytes += draft.cpu_bytes_per_decode(1) * sum(r.n_steps for r in last)
    seconds = sum(r.times.total_s for r in last)
    return Reading(read_bytes / seconds) if seconds > 0 else _IDLE


def ram_share(models: Mapping[Role, ModelMemory], n_tokens: int) -> float | None:
    """Return the share of the bytes read by one decode of the target that comes from RAM."""
    target = _traffic(models, Role.TARGET)
    if target is None:
        return None
    cpu_bytes = target.cpu_bytes_per_decode(n_tokens)
    return ratio(cpu_bytes, cpu_bytes + target.gpu_bytes_per_decode(n_tokens))


def verify_rate(models: Mapping[Role, ModelMemory], cost: VerifyCost) -> float | None:
    """Return the bytes per second that decodes of one batch size read from RAM."""
    target = _traffic(models, Role.TARGET)
    if target is None:
        return None
    return ratio(target.cpu_bytes_per_decode(cost.n_tokens), cost.seconds)


def best_rate(
    models: Mapping[Role, ModelMemory], costs: Sequence[VerifyCost], draft_step_s: float | None
) -> float | None:
    """Return the highest rate of any batch size of the target, and of the draft."""
    rates = [verify_rate(models, cost) for cost in costs]
    draft = _draft_traffic(models)
    if draft is not None:
        rates.append(ratio(draft.cpu_bytes_per_decode(1), draft_step_s))
    return max((rate for rate in rates if rate is not None), default=None)


def _traffic(models: Mapping[Role, ModelMemory], role: Role) -> WeightTraffic | None:
    model = models.get(role)
    return None if model is None else model.traffic


def _draft_traffic(models: Mapping[Role, ModelMemory]) -> WeightTraffic | None:
    """Traffic of a draft step: of a draft model or, without one, of the target's MTP layers."""
    if Role.DRAFT in models:
        return _traffic(models, Role.DRAFT)
    target = models.get(Role.TARGET)
    return None if target is None else target.mtp_traffic


class MachineLoad:
    """Mean load of the machine over readings made while something was decoded."""

    def __init__(self) -> None:
        """Start without any."""
        self._snapshots: deque[Snapshot] = deque(maxlen=_N_READINGS)

    def add(self, snapshot: Snapshot) -> None:
        """Take one."""
        self._snapshots.append(snapshot)

    def pcie_use(self) -> float | None:
        """Share of its limit that the busiest link takes, in its busier direction."""
        return self._mean(lambda snapshot: _most(map(_link_use, snapshot.gpus)))

    def gpu_use(self) -> float | None:
        """Share of time that the busiest GPU computes."""
        return self._mean(lambda snapshot: _most(gpu.utilisation.value for gpu in snapshot.gpus))

    def cores_busy(self) -> float | None:
        """Share of time that the busier half of the logical cores computes."""
        return self._mean(_busier_half)

    def disk_bytes_per_s(self) -> float | None:
        """Bytes per second that this process reads from disk."""
        return self._mean(lambda snapshot: snapshot.host.disk_read_bytes_per_s.value)

    def _mean(self, read: Callable[[Snapshot], float | None]) -> float | None:
        values = [value for value in map(read, self._snapshots) if value is not None]
        return sum(values) / len(values) if values else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _link_use(gpu: GpuReading) -> float | None:
    busier = _most((gpu.pcie_rx_bytes_per_s.value, gpu.pcie_tx_bytes_per_s.value))
    return ratio(busier, gpu.pcie_limit_bytes_per_s.value)


def _busier_half(snapshot: Snapshot) -> float | None:
    cores = sorted(snapshot.host.cpu_per_core, reverse=True)
    half = cores[: (len(cores) + 1) // 2]
    return sum(half) / len(half) if half else None
