"""The bottleneck of a round, by the machine's readings meanwhile, and histories of these."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.format import percent_text
from spectui.monitor.readings import GpuReading, HostReading, Reading, Snapshot
from spectui.speculative.counters import RoundTimes

_DISK_BYTES_PER_S = 50e6
"""Mapped weights come in at hundreds of MB/s from the slowest SSD; logs and the like need less."""
_PCIE_USE = 0.6
"""Share of the link's limit. Protocol overhead leaves 0.8 to 0.9 of it; bursts and idle gaps
between layers bring a link that is waited for down to about this mean."""
_GPU_USE = 0.9
"""NVML's utilisation is time with a kernel running: a GPU that is waited for is near 1."""
_RAM_SHARE = 0.1
"""Share of the bytes that a decode reads. VRAM is about ten times faster, so less hardly counts."""
_DRAM_OF_LIMIT = 0.6
"""Share of the measured limit, or of the best rate that other decodes reached on this machine. One
that reads weights much slower is not waiting for the memory but computing."""
_OTHERS_BUSY = 0.25
"""Share of all cores that other programs take: with so much, threads that compute together wait."""
_CORES_BUSY = 0.8
"""Share of the busier half of the cores: one compute thread per physical core fills these."""
_N_SAMPLES = 160
Samples = tuple[float | None, ...]
"""A history, oldest first; None where a sample is missing."""


class Limit(StrEnum):
    """Possible bottlenecks."""

    DRAFT = "draft cost"
    VERIFY = "verify cost"
    ROLLBACK = "rollback"
    OVERHEAD = "sampling and the rest"
    DISK = "disk"
    PCIE = "PCIe"
    GPU = "GPU"
    DRAM = "DRAM"
    CPU = "CPU"
    OTHERS = "other programs"


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return their quotient; None if one is missing or there is nothing to divide by."""
    return part / whole if part is not None and whole else None


Bottleneck = tuple[Limit, str]
"""The limit, and the evidence for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Input of the rule; None is unknown."""

    times: RoundTimes
    """Mean of the last rounds."""
    disk_bytes_per_s: float | None = None
    pcie_use: float | None = None
    """Used share of the limit of the busier direction of the busiest link."""
    gpu_use: float | None = None
    ram_share: float | None = None
    """Share of the bytes read by a decode of the target that lies in RAM."""
    dram_bytes_per_s: float | None = None
    """Weights in RAM / time of verifying."""
    dram_limit_bytes_per_s: float | None = None
    """As measured, or the most seen of any other batch size or the draft; None for neither."""
    is_limit_measured: bool = True
    cores_busy: float | None = None
    others_busy: float | None = None
    """Share of all cores that programs without the models take."""


def find_bottleneck(evidence: Evidence) -> Bottleneck | None:
    """Name the part of the round that takes longest and, if it is verifying, its resource.

    None if no time was spent at all.
    """
    times = evidence.times
    if times.total_s <= 0:
        return None
    longest_s, limit = max(
        (times.verify_s, Limit.VERIFY),
        (times.draft_s, Limit.DRAFT),
        (times.rollback_s, Limit.ROLLBACK),
        (times.sample_s + times.other_s, Limit.OVERHEAD),
        key=lambda part: part[0],
    )
    resource = _resource(evidence) if limit is Limit.VERIFY else None
    return resource or (limit, f"{percent_text(longest_s / times.total_s)} of a round")


def _resource(evidence: Evidence) -> Bottleneck | None:
    """Name the resource that verifying waits for; None where none is full."""
    disk, pcie, gpu = evidence.disk_bytes_per_s, evidence.pcie_use, evidence.gpu_use
    if disk is not None and disk > _DISK_BYTES_PER_S:
        return Limit.DISK, "mapped weights are being read from disk"
    if pcie is not None and pcie > _PCIE_USE:
        return Limit.PCIE, f"the link is {percent_text(pcie)} used"
    if gpu is not None and gpu > _GPU_USE:
        return Limit.GPU, f"the GPU is {percent_text(gpu)} busy"
    if evidence.ram_share is not None and evidence.ram_share >= _RAM_SHARE:
        # Batches below some 32 tokens: llama.cpp computes what is in RAM on the CPU.
        return _host(evidence)
    return None


def _host(evidence: Evidence) -> Bottleneck:
    rate, limit = evidence.dram_bytes_per_s, evidence.dram_limit_bytes_per_s
    busy = evidence.cores_busy
    if rate is None:
        return Limit.VERIFY, "weights in RAM, read at an unknown rate"
    if not limit:
        return Limit.VERIFY, f"RAM is read at {rate / 1e9:.0f} GB/s; its limit is not known yet"
    others = evidence.others_busy or 0.0
    beside_others = Limit.OTHERS, f"they take {percent_text(others)} of the cores"
    if not evidence.is_limit_measured and others >= _OTHERS_BUSY:
        # The most that was seen beside them is less than RAM can give.
        return beside_others
    if rate >= _DRAM_OF_LIMIT * limit:
        return Limit.DRAM, f"verifying reads {rate / 1e9:.0f} GB/s from RAM"
    if others >= _OTHERS_BUSY:
        return beside_others
    if busy is None or busy >= _CORES_BUSY:
        return Limit.CPU, f"RAM is read at {percent_text(rate / limit)} of its limit, cores compute"
    return Limit.VERIFY, f"cores are {percent_text(busy)} busy, no link is full"


class TrafficHistory:
    """The last samples of everything."""

    def __init__(self) -> None:
        """Start without a sample."""
        self._samples: defaultdict[tuple[str, int], deque[float | None]] = defaultdict(
            lambda: deque(maxlen=_N_SAMPLES)
        )

    def add(self, snapshot: Snapshot, dram: Reading) -> None:
        """Take a sample."""
        for gpu in snapshot.gpus:
            self._samples["rx", gpu.index].append(gpu.pcie_rx_bytes_per_s.value)
        self._samples["dram", 0].append(dram.value)
        self._samples["disk", 0].append(snapshot.host.disk_read_bytes_per_s.value)

    def of(self, what: str, gpu: int = 0) -> Samples:
        """Return the samples of ``rx`` of a GPU, of ``dram``, or of ``disk``."""
        return tuple(self._samples[what, gpu])


def mean_load(snapshots: Sequence[Snapshot]) -> dict[str, float | None]:
    """Mean load of the machine over some readings, by field of ``Evidence``."""
    return {
        "disk_bytes_per_s": _mean(one.host.disk_read_bytes_per_s.value for one in snapshots),
        "pcie_use": _mean(most(map(link_use, one.gpus)) for one in snapshots),
        "gpu_use": _mean(most(gpu.utilisation.value for gpu in one.gpus) for one in snapshots),
        "cores_busy": _mean(map(_busier_half, snapshots)),
        "others_busy": _mean(_others_share(one.host) for one in snapshots),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def most(values: Iterable[float | None]) -> float | None:
    """Return the largest value; None where none is known."""
    return max((value for value in values if value is not None), default=None)


def link_use(gpu: GpuReading) -> float | None:
    """Return the share of its PCIe limit that the busier direction takes."""
    busier = most((gpu.pcie_rx_bytes_per_s.value, gpu.pcie_tx_bytes_per_s.value))
    return ratio(busier, gpu.pcie_limit_bytes_per_s.value)


def _others_share(host: HostReading) -> float | None:
    own, cores = host.process_cores.value, host.cpu_per_core
    return None if own is None or not cores else max(sum(cores) - own, 0.0) / len(cores)


def _busier_half(snapshot: Snapshot) -> float | None:
    cores = sorted(snapshot.host.cpu_per_core, reverse=True)
    return _mean(cores[: (len(cores) + 1) // 2])
