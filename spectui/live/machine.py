"""The machine beside a session: who holds its memories, what moves between them, how busy it is."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from spectui.engine.devices import concerned, devices_of, shown_gpus
from spectui.engine.events import Role
from spectui.format import percent_text
from spectui.live.rounds import N_MEAN, VerifyCost
from spectui.llama.buffers import HOST, Buffer, BufferKind, ModelMemory
from spectui.models.weights import WeightTraffic
from spectui.monitor.bottleneck import Samples, most, ratio
from spectui.monitor.readings import GpuReading, GpuSource, HostReading, Reading, Snapshot
from spectui.speculative.counters import Round

_NEAR_FULL = 0.92
"""Share of a memory: the rest is about as large as a longer context or another program needs."""
_FULL = 0.985
"""Share of VRAM: drivers keep a last part for themselves, and from here on spill or fail."""
_NOTABLE_READS_BYTES_PER_S = 1e6
"""Reads that are no longer a log being written or a module being imported."""
_SWAP_GROWTH_BYTES = 32e6
_DATED = "device memory: as measured after the load"


class Use(StrEnum):
    """Purpose of a part of a memory."""

    TARGET = "target"
    """The target's weights."""
    DRAFT = "draft"
    """The draft's weights."""
    KV = "KV"
    """Caches of both models, recurrent state included."""
    COMPUTE = "compute"
    """Scratch and logits of both."""
    OTHER = "other"
    """Other programs, and what the driver and this process take besides."""


def planned(models: Mapping[Role, ModelMemory], belongs: Callable[[Buffer], bool]) -> Counter[Use]:
    """Return bytes by use, of the buffers that belong to a memory."""
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        for buffer in model.buffers:
            if belongs(buffer):
                sizes[_use(role, buffer.kind)] += buffer.size_bytes
    return sizes


def mapped(models: Mapping[Role, ModelMemory]) -> Counter[Use]:
    """Return weights that must stay in the page cache for decoding to be fast.

    A mapping spans the file from its first to its last tensor in RAM; what lies between and went to
    a GPU is not needed again.
    """
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        size_bytes = sum(buffer.size_bytes for buffer in model.buffers if buffer.is_mapped)
        if model.traffic is not None:
            size_bytes = min(size_bytes, model.traffic.cpu_bytes)
        sizes[_use(role, BufferKind.WEIGHTS)] += size_bytes
    return sizes


def _use(role: Role, kind: BufferKind) -> Use:
    if kind is BufferKind.WEIGHTS:
        return Use.TARGET if role is Role.TARGET else Use.DRAFT
    return Use.KV if kind is BufferKind.KV else Use.COMPUTE


def fill(plan: Mapping[Use, float], used_bytes: float) -> tuple[tuple[Use, float], ...]:
    """Return parts that add up to ``used_bytes``: what nobody planned is another's."""
    left_bytes = used_bytes
    parts: list[tuple[Use, float]] = []
    for use in Use:
        wanted_bytes = left_bytes if use is Use.OTHER else plan.get(use, 0)
        size_bytes = min(wanted_bytes, left_bytes)
        left_bytes -= size_bytes
        parts.append((use, size_bytes))
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPool:
    """One memory: a GPU's or the host's."""

    name: str
    total_bytes: float | None
    parts: tuple[tuple[Use, float], ...]
    """Bytes by use, in the order of ``Use``; together at most ``total_bytes``."""
    free_bytes: float | None
    warning: str | None = None
    reason: str | None = None
    """Why total or free are missing, or what is particular about them."""

    @property
    def used_bytes(self) -> float | None:
        """All that is not free."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        return self.total_bytes - self.free_bytes


def gpu_pool(gpu: GpuReading, models: Mapping[Role, ModelMemory], *, alone: bool) -> MemoryPool:
    """Return the memory of one GPU; ``alone`` says that it is the only one."""
    are_named = bool(devices_of(models))
    plan = planned(
        models,
        lambda buffer: buffer.memory in gpu.devices or (not are_named and buffer.gpu == gpu.index),
    )
    name = _pool_name(gpu, alone=alone)
    total_bytes, used_bytes = gpu.memory_total_bytes.value, gpu.memory_used_bytes.value
    if total_bytes is None or used_bytes is None:
        return MemoryPool(
            name=name,
            total_bytes=total_bytes,
            parts=fill(plan, min(plan.total(), total_bytes or plan.total())),
            free_bytes=None,
            reason=gpu.memory_used_bytes.reason or gpu.memory_total_bytes.reason,
        )
    if gpu.memory_source is not None:
        # Some devices call all of it free, whatever they hold.
        used_bytes = max(used_bytes, plan.total())
    warning = None
    if used_bytes > _FULL * total_bytes:
        spills = ": the driver may spill into RAM" if gpu.source is not GpuSource.LLAMA_CPP else ""
        warning = f"{name} is full{spills}"
    pool = _filled(name, plan, used_bytes, total_bytes, warning)
    return pool if gpu.memory_source is None else replace(pool, reason=_DATED)


def _pool_name(gpu: GpuReading, *, alone: bool) -> str:
    if gpu.source is GpuSource.LLAMA_CPP:
        return gpu.name
    if gpu.devices and not alone:
        return gpu.label
    kind = "GPU RAM" if gpu.in_ram else "VRAM"
    return kind if alone else f"{kind} {gpu.label}"


def host_pool(
    host: HostReading, models: Mapping[Role, ModelMemory], spill: str | None
) -> MemoryPool:
    """RAM. What is mapped counts as used, although the kernel calls the page cache available.

    Args:
        host: the host now.
        models: plans of the loaded models.
        spill: warning that comes first.
    """
    held = planned(models, lambda buffer: buffer.memory == HOST and not buffer.is_mapped)
    kept = mapped(models)
    total_bytes = host.memory_total_bytes
    unavailable_bytes = max(total_bytes - host.memory_available_bytes, 0)
    plan = held + kept
    wanted_bytes = plan.total() + max(unavailable_bytes - held.total(), 0)
    missing_bytes = wanted_bytes - total_bytes
    if spill is None and missing_bytes > 0 and kept.total():
        spill = f"{missing_bytes / 1e9:.1f} GB more is wanted than there is: weights stay on disk"
    return _filled("RAM", plan, wanted_bytes, total_bytes, spill)


def _filled(
    name: str,
    plan: Mapping[Use, float],
    used_bytes: float,
    total_bytes: float,
    warning: str | None,
) -> MemoryPool:
    """A memory in use; that it is nearly full is told where there is no other warning."""
    used_bytes = min(used_bytes, total_bytes)
    share = ratio(used_bytes, total_bytes) or 0.0
    near_full = f"{name} is {percent_text(share)} full" if share > _NEAR_FULL else None
    return MemoryPool(
        name=name,
        total_bytes=total_bytes,
        parts=fill(plan, used_bytes),
        free_bytes=total_bytes - used_bytes,
        warning=warning or near_full,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """All memories, the GPUs' first."""

    pools: tuple[MemoryPool, ...] = ()
    gpus: tuple[GpuReading, ...] = ()
    """GPUs that the system knows, of those among them."""
    gpu_reason: str | None = None
    """Why there is no GPU among them."""
    reason: str | None = "the machine has not been read yet"
    resident: float | None = None
    """Share of the mapped weights that lies in RAM, at most; None where none is mapped."""
    joules_per_token: float | None = None
    """Energy of the GPUs for a token of this turn; None where a driver does not tell power."""


def memory_state(
    snapshot: Snapshot | None,
    models: Mapping[Role, ModelMemory],
    *,
    is_decoding: bool,
    swap_before_bytes: float | None,
    joules_per_token: float | None = None,
) -> MemoryState:
    """Put plan and readings together.

    Args:
        snapshot: the machine now.
        models: plans of the loaded models.
        is_decoding: whether weights are being used, so that disk reads are a bad sign.
        swap_before_bytes: swap in use when the models were loaded.
        joules_per_token: energy of the GPUs for a token of this turn.
    """
    if snapshot is None:
        return MemoryState()
    spill = _spill(snapshot.host, swap_before_bytes, is_decoding=is_decoding)
    gpus = shown_gpus(snapshot.gpus, devices_of(models))
    pools = (
        *(gpu_pool(gpu, models, alone=len(gpus) == 1) for gpu in gpus),
        host_pool(snapshot.host, models, spill),
    )
    # The process has mapped its libraries as well, so that this is an upper limit.
    resident = ratio(snapshot.host.mapped_bytes.value, mapped(models).total())
    return MemoryState(
        pools=pools,
        gpus=concerned(snapshot, models).gpus,
        gpu_reason=None if gpus else snapshot.gpu_reason,
        reason=None,
        resident=None if resident is None else min(resident, 1.0),
        joules_per_token=joules_per_token,
    )


def _spill(host: HostReading, swap_before_bytes: float | None, *, is_decoding: bool) -> str | None:
    """Say if memory does not suffice for what is being decoded."""
    disk = host.disk_read_bytes_per_s.value
    if is_decoding and disk is not None and disk > _NOTABLE_READS_BYTES_PER_S:
        return f"weights are read from disk, {disk / 1e6:.0f} MB/s"
    faults = host.major_faults_per_s.value
    if is_decoding and disk is None and faults:
        return f"weights are read from disk, {faults:.0f} page faults/s"
    if swap_before_bytes is not None:
        grown_bytes = host.swap_used_bytes - swap_before_bytes
        if grown_bytes > _SWAP_GROWTH_BYTES:
            return f"RAM spills into swap, {grown_bytes / 1e9:.1f} GB"
    return None


_IDLE = Reading(None, "nothing was decoded yet")
_UNKNOWN = Reading(None, "the target's file does not tell its weights")


class DramLimit(NamedTuple):
    """The most that RAM was seen to give."""

    bytes_per_s: float
    is_measured: bool
    """Whether reading alone was measured; else the best of any kind of decode."""


def dram_limit(measured: float | None, best: float | None) -> DramLimit | None:
    """Return what was measured, or what decodes were seen to reach where that is more."""
    if measured is None or (best is not None and best > measured):
        return None if best is None else DramLimit(best, is_measured=False)
    return DramLimit(measured, is_measured=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReads:
    """Weights that the target reads for one token without a draft, and the speed they allow."""

    ram_bytes: float
    gpu_bytes: float
    at_most_tokens_per_s: float | None
    """By the measured bandwidth of RAM alone; None with no weights there, or before it is known."""
    alone_tokens_per_s: float | None
    """Measured speed without a draft; None before that."""
    shifted: tuple[tuple[int, float, float], ...] = ()
    """(``--n-cpu-moe``, the speed that RAM allows with it, VRAM's bytes that it takes more)."""


class Reads(NamedTuple):
    """Weights that the pair's decodes read, as far as its files tell."""

    target: WeightTraffic | None = None
    draft: WeightTraffic | None = None
    """Of a draft step: of a draft model or, without one, of the target's MTP layers."""
    shifted: tuple[tuple[int, WeightTraffic], ...] = ()
    """The target's by another ``--n-cpu-moe``."""

    @classmethod
    def of(cls, models: Mapping[Role, ModelMemory]) -> "Reads":
        """Reads of the loaded models."""
        target, draft = models.get(Role.TARGET), models.get(Role.DRAFT)
        own = None if target is None else target.mtp_traffic
        return cls(
            target=None if target is None else target.traffic,
            draft=own if draft is None else draft.traffic,
            shifted=() if target is None else tuple(target.shifted.items()),
        )

    def token(self, limit: DramLimit | None, alone_tokens_per_s: float | None) -> TokenReads | None:
        """Return what a token of the target reads; None where its file does not tell its weights.

        Args:
            limit: limit of the RAM.
            alone_tokens_per_s: measured speed without a draft.
        """
        if self.target is None:
            return None
        ram_bytes, held_bytes = self.target.cpu_bytes_per_decode(1), self.target.gpu_expert_bytes
        measured = limit.bytes_per_s if limit is not None and limit.is_measured else None
        shifted = [
            (n, measured / other.cpu_bytes_per_decode(1), other.gpu_expert_bytes - held_bytes)
            for n, other in self.shifted
            if measured is not None and other.cpu_bytes_per_decode(1)
        ]
        return TokenReads(
            ram_bytes=ram_bytes,
            gpu_bytes=self.target.gpu_bytes_per_decode(1),
            at_most_tokens_per_s=ratio(measured, ram_bytes),
            alone_tokens_per_s=alone_tokens_per_s,
            shifted=tuple(shifted),
        )

    def at_random(self, n_tokens: int) -> float | None:
        """Return V(n)/V(1) by bytes of RAM, were experts routed at random; None without any."""
        if self.target is None or not self.target.cpu_expert_bytes:
            return None
        read_bytes = self.target.cpu_bytes_per_decode
        return ratio(read_bytes(n_tokens), read_bytes(1))

    def dram(self, recent: Sequence[Round]) -> Reading:
        """Estimate what the last rounds read from RAM per second.

        The draft's second pass over the verified batch is left out: a round does not
        tell it apart.
        """
        if not recent:
            return _IDLE
        if self.target is None:
            return _UNKNOWN
        last = recent[-N_MEAN:]
        read_bytes = sum(self.target.cpu_bytes_per_decode(r.n_drafted + 1) for r in last)
        if self.draft is not None:
            read_bytes += self.draft.cpu_bytes_per_decode(1) * sum(r.n_steps for r in last)
        seconds = sum(r.times.total_s for r in last)
        return Reading(read_bytes / seconds) if seconds > 0 else _IDLE

    def ram_share(self, n_tokens: int) -> float | None:
        """Return the share of the bytes read by one decode of the target that comes from RAM."""
        if self.target is None:
            return None
        cpu_bytes = self.target.cpu_bytes_per_decode(n_tokens)
        return ratio(cpu_bytes, cpu_bytes + self.target.gpu_bytes_per_decode(n_tokens))

    def verify_rate(self, cost: VerifyCost) -> float | None:
        """Return the bytes per second that decodes of one batch size read from RAM."""
        if self.target is None:
            return None
        return ratio(self.target.cpu_bytes_per_decode(cost.n_tokens), cost.seconds)

    def best_rate(self, costs: Sequence[VerifyCost], draft_step_s: float | None) -> float | None:
        """Return the highest rate of any batch size of the target, and of the draft."""
        step = None if self.draft is None else self.draft.cpu_bytes_per_decode(1)
        return most((*map(self.verify_rate, costs), ratio(step, draft_step_s)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficState:
    """All traffic, with a history each, oldest first."""

    machine: Snapshot | None
    """The last reading, with the GPUs that concern the session; None before the first."""
    received_history: Samples
    """Bytes per second that the GPU has received; empty where there are several, or none."""
    dram_bytes_per_s: Reading
    """Estimate: active weights in RAM x decodes per second. Caches and activations add to it."""
    is_decoding: bool
    """Whether that is of now; else it is of the last turn."""
    dram_limit: DramLimit | None
    token: TokenReads | None
    """Bytes that a token reads; None before a target is loaded, or where its file does not say."""
    dram_history: Samples
    disk_history: Samples
