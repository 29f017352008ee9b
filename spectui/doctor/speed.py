"""Bandwidth of memories, and bounds by it: throughput, longer batches, what a draft must do.

Decoding one token reads every active weight once. Where that is what it waits for, bytes over
bandwidth is its time, and everything else comes on top: these are bounds, not predictions.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from spectui.llama.buffers import DeviceMemory
from spectui.models.weights import WeightTraffic
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError
from spectui.monitor.readings import pci_address
from spectui.speculative.expectation import ideal_speedup

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Drafts that are looked at."""
_BISECTIONS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Bandwidth of the memories that weights lie in."""

    ram_bytes_per_s: float | None
    """None where it is not known, as ``gpu_bytes_per_s``: what lies there is left out."""
    gpu_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBound:
    """Bound of a draft at the best of ``LENGTHS``."""

    draft_step: float
    """c: seconds that reading takes in a draft step, over those in a target step."""
    break_even_alpha: float | None
    """α from which on it pays if tokens were routed to experts at random; None if never so."""
    speedup_if_perfect: float
    """Upper bound: every token right, and all of a batch routed to the same experts."""

    @property
    def can_pay(self) -> bool:
        """Whether anything at all could make it pay."""
        return self.speedup_if_perfect > 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedBound:
    """Bound of one target, by bandwidth alone."""

    token_s: float
    """One token of the target alone, at least."""
    ram_bytes_per_token: float
    gpu_bytes_per_token: float
    verify: dict[int, float]
    """V(n + 1)/V(1) by drafted tokens n, if tokens were routed to experts at random."""
    left_out_bytes_per_token: float = 0.0
    """In memories of unknown speed."""

    @property
    def tokens_per_s(self) -> float:
        """Upper bound of the throughput."""
        return 1 / self.token_s


def speed_bound(traffic: WeightTraffic, bandwidth: Bandwidth) -> SpeedBound | None:
    """Bound a target's speed; None where all its weights lie in a memory of unknown speed."""
    token_s = _decode_s(traffic, bandwidth, 1)
    if not token_s:
        return None
    return SpeedBound(
        token_s=token_s,
        ram_bytes_per_token=traffic.cpu_bytes_per_decode(1),
        gpu_bytes_per_token=traffic.gpu_bytes_per_decode(1),
        verify={n: _decode_s(traffic, bandwidth, n + 1) / token_s for n in LENGTHS},
        left_out_bytes_per_token=_left_out_bytes(traffic, bandwidth),
    )


def draft_bound(
    target: SpeedBound, draft: WeightTraffic, bandwidth: Bandwidth
) -> DraftBound | None:
    """Compute the acceptance that a draft would need if only reading weights took time.

    None where weights of either lie in a memory of unknown speed: times that leave something out
    cannot be compared.
    """
    if target.left_out_bytes_per_token or _left_out_bytes(draft, bandwidth):
        return None
    step = _decode_s(draft, bandwidth, 1) / target.token_s

    def best(alpha: float) -> float:
        return max(ideal_speedup(alpha, n, step, verify) for n, verify in target.verify.items())

    return DraftBound(
        draft_step=step,
        break_even_alpha=_first(lambda alpha: best(alpha) > 1.0) if best(1.0) > 1.0 else None,
        speedup_if_perfect=max(ideal_speedup(1.0, n, step) for n in target.verify),
    )


def _decode_s(traffic: WeightTraffic, bandwidth: Bandwidth, n_tokens: int) -> float:
    reads = _reads(traffic, bandwidth, n_tokens)
    return sum(n_bytes / speed for n_bytes, speed in reads if speed)


def _left_out_bytes(traffic: WeightTraffic, bandwidth: Bandwidth) -> float:
    return sum(n_bytes for n_bytes, speed in _reads(traffic, bandwidth, 1) if not speed)


def _reads(
    traffic: WeightTraffic, bandwidth: Bandwidth, n_tokens: int
) -> Iterator[tuple[float, float | None]]:
    """Yield bytes, and the speed of their memory in bytes/s."""
    yield traffic.cpu_bytes_per_decode(n_tokens), bandwidth.ram_bytes_per_s
    yield traffic.gpu_bytes_per_decode(n_tokens), bandwidth.gpu_bytes_per_s


def _first(holds: Callable[[float], bool]) -> float:
    """Smallest value of 0 to 1 from which on it ``holds``."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gpu_bytes_per_s(devices: Collection[DeviceMemory]) -> float | None:
    """Return the fastest GPU's memory bandwidth, by its clock and width; None if not told.

    Args:
        devices: those of llama.cpp that count. A card is found by its address, or by its model
            where that is not known.
    """
    addresses = {address for one in devices if (address := pci_address(one.id)) is not None}
    names = {one.description for one in devices if pci_address(one.id) is None}
    try:
        with nvml.session():
            gpus = [nvml.by_index(index) for index in range(nvml.count())]
            used = [
                gpu for gpu in gpus if nvml.address(gpu) in addresses or nvml.name(gpu) in names
            ]
            return max((nvml.memory_bytes_per_s(gpu) for gpu in used), default=None)
    except NvmlError:
        # No driver, or one that does not tell: then nothing is said of it.
        return None
