"""Bounds by the bandwidth of memories: throughput, costs of batches, and a draft's break-even.

Decoding one token reads every active weight once. Its time is at least bytes over bandwidth, and
everything else comes on top: these are bounds, not predictions.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from spectui.llama.buffers import DeviceMemory
from spectui.models.weights import WeightTraffic
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError
from spectui.monitor.readings import pci_address
from spectui.trace.terms import ideal_speedup

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Lengths of drafts, in tokens, for which bounds are computed."""


class DraftBound(NamedTuple):
    """Bound of a draft beside its target, by bandwidth alone."""

    draft_step: float
    """c: seconds that reading takes in a draft step, over those in a target step."""
    break_even_alpha: float | None
    """α from which on it pays, in hundredths, if tokens were routed to experts at random; None if
    it never does."""
    speedup_if_perfect: float
    """Upper bound: every token right, and all of a batch routed to the same experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedBound:
    """Bound of one target, by bandwidth alone."""

    ram_bytes_per_s: float | None
    """Bandwidth of the memory, as ``gpu_bytes_per_s``; None where it is not known."""
    gpu_bytes_per_s: float | None
    token_s: float
    """One token of the target alone, at least."""
    ram_bytes_per_token: float
    gpu_bytes_per_token: float
    verify: dict[int, float]
    """V(n + 1)/V(1) by drafted tokens n, if tokens were routed to experts at random."""

    @property
    def tokens_per_s(self) -> float:
        """Upper bound of the throughput."""
        return 1 / self.token_s

    def draft_bound(self, draft: WeightTraffic) -> DraftBound | None:
        """Bound a draft; None where its weights lie in a memory of unknown speed."""
        step_s = decode_s(draft, 1, self.ram_bytes_per_s, self.gpu_bytes_per_s)
        if step_s is None:
            return None
        step = step_s / self.token_s
        alphas = (percent / 100 for percent in range(100))
        lengths = self.verify.items()
        return DraftBound(
            draft_step=step,
            break_even_alpha=next(
                (a for a in alphas if any(ideal_speedup(a, n, step, v) > 1 for n, v in lengths)),
                None,
            ),
            speedup_if_perfect=max(ideal_speedup(1.0, n, step) for n in LENGTHS),
        )


def decode_s(
    traffic: WeightTraffic,
    n_tokens: int,
    ram_bytes_per_s: float | None,
    gpu_bytes_per_s: float | None,
) -> float | None:
    """Seconds of reading what a decode of ``n_tokens`` reads; None if some speed is unknown."""
    reads = (
        (traffic.cpu_bytes_per_decode(n_tokens), ram_bytes_per_s),
        (traffic.gpu_bytes_per_decode(n_tokens), gpu_bytes_per_s),
    )
    if any(n_bytes and not speed for n_bytes, speed in reads):
        return None
    return sum(n_bytes / speed for n_bytes, speed in reads if speed)


def speed_bound(
    traffic: WeightTraffic, ram_bytes_per_s: float | None, gpu_bytes_per_s: float | None = None
) -> SpeedBound | None:
    """Bound a target's speed; None where weights lie in a memory of unknown speed."""
    token_s = decode_s(traffic, 1, ram_bytes_per_s, gpu_bytes_per_s)
    if not token_s:
        return None
    batches = {n: decode_s(traffic, n + 1, ram_bytes_per_s, gpu_bytes_per_s) for n in LENGTHS}
    return SpeedBound(
        ram_bytes_per_s=ram_bytes_per_s,
        gpu_bytes_per_s=gpu_bytes_per_s,
        token_s=token_s,
        ram_bytes_per_token=traffic.cpu_bytes_per_decode(1),
        gpu_bytes_per_token=traffic.gpu_bytes_per_decode(1),
        verify={n: batch_s / token_s for n, batch_s in batches.items() if batch_s is not None},
    )


def fastest_gpu_bytes_per_s(devices: Collection[DeviceMemory]) -> float | None:
    """Return the fastest GPU's memory bandwidth, by its clock and width; None if unknown.

    Args:
        devices: those of llama.cpp that count; a card is found by its address.
    """
    addresses = {pci_address(one.id) for one in devices} - {None}
    try:
        with nvml.session():
            used = [gpu for gpu in nvml.gpus() if nvml.address(gpu) in addresses]
            return max((nvml.memory_bytes_per_s(gpu) for gpu in used), default=None)
    except NvmlError:
        # No driver, or one without this reading: the bound is left out.
        return None
