"""Demand on every memory beside what is free there, and what would fit: draft, context, experts."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spectui.engine.host_memory import host_memory
from spectui.errors import DoesNotFitError
from spectui.format import bytes_text
from spectui.llama.buffers import HOST, DeviceMemory
from spectui.llama.planned import CONTEXT_STEP, ModelPlan, Plan, PlanRequest
from spectui.options.setup import ModelOptions, TensorOverride

MARGIN_BYTES = 1 << 30
"""Bytes that a search leaves free on every GPU, as llama-server's ``--fit-target`` does by default:
pools of the driver and the desktop grow after the models are loaded."""
_UNIFIED = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeMemory:
    """Free memory by name."""

    by_memory: Mapping[str, int] = field(default_factory=dict)
    """Free bytes by ``Buffer.memory``; a missing memory is unknown: nothing is too large then."""
    in_ram: frozenset[str] = frozenset()
    """GPUs whose memory is the host's, however much of it they may take."""
    slow_bytes: int = 0
    """Bytes beyond the free ones that the host gives slowly, as ``HostMemory.slow_bytes``."""
    limit: str | None = None
    """Limit of the host's, as ``HostMemory.limit``."""

    @property
    def total_bytes(self) -> int:
        """Free bytes in all memories together."""
        own = (n for name, n in self.by_memory.items() if name not in self.in_ram)
        return sum(own)


def free_memory(gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
    """Free memory of every one of ``gpus`` that reports it, and of the host.

    The host's contains the page cache, in which mapped weights live. CUDA with unified memory goes
    on in RAM where a GPU is full, so that what is free there bounds nothing.
    """
    told = {
        gpu.name: gpu.free_bytes
        for gpu in gpus
        if gpu.free_bytes is not None and not (_UNIFIED in os.environ and gpu.name[:4] == "CUDA")
    }
    host = host_memory()
    return FreeMemory(
        by_memory={**told, HOST: host.free_bytes},
        in_ram=frozenset(gpu.name for gpu in gpus if gpu.in_ram),
        slow_bytes=host.slow_bytes,
        limit=host.limit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of a plan on one memory."""

    memory: str
    """Name of the memory, as in ``Buffer.memory``."""
    allocated_bytes: int
    mapped_bytes: int
    """Weights that mmap leaves in the page cache: without room for them they are read from disk
    again and again."""
    free_bytes: int | None
    """None where nobody knows."""
    includes: tuple[str, ...] = ()
    """GPUs that compute in this memory: what they take is counted here, too."""
    slow_bytes: int = 0
    """Bytes beyond the free ones that are given slowly, as ``FreeMemory.slow_bytes``."""
    limit: str | None = None
    """Limit of the free ones, as ``FreeMemory.limit``."""

    @property
    def where(self) -> str:
        """Name of the memory for display, and the GPUs that share it."""
        if self.includes:
            return f"RAM (with {', '.join(self.includes)})"
        return "RAM" if self.memory == HOST else self.memory

    @property
    def locked(self) -> "Demand":
        """The demand where mapped weights are locked in RAM: the kernel cannot drop them then."""
        return replace(
            self, allocated_bytes=self.allocated_bytes + self.mapped_bytes, mapped_bytes=0
        )

    @property
    def left_bytes(self) -> int | None:
        """Bytes that remain free; negative if it does not fit."""
        if self.free_bytes is None:
            return None
        return self.free_bytes - self.allocated_bytes - self.mapped_bytes

    @property
    def fits(self) -> bool:
        """Whether there is room for all of it, as far as is known."""
        return self.left_bytes is None or self.left_bytes >= 0

    @property
    def can_load(self) -> bool:
        """Whether there is room for all but what is mapped: it would work, from disk."""
        left = self.left_bytes
        return left is None or left + self.mapped_bytes + self.slow_bytes >= 0

    @property
    def is_tight(self) -> bool:
        """Whether it fits on a GPU, and leaves less than the margin there."""
        is_used = self.memory != HOST and self.allocated_bytes > 0
        return is_used and self.left_bytes is not None and 0 <= self.left_bytes < MARGIN_BYTES

    @property
    def shortage(self) -> str | None:
        """Sentence about the missing memory; None where it can be loaded."""
        if self.can_load:
            return None
        needed = bytes_text(self.allocated_bytes)
        mapped = f" (beside {bytes_text(self.mapped_bytes)} of mapped weights)"
        return (
            f"{self.where} has no room: {needed} are needed{mapped if self.mapped_bytes else ''}, "
            f"{self._free_text}"
        )

    @property
    def slowness(self) -> str | None:
        """Sentence about what RAM cannot hold though it can be loaded; None for nothing."""
        if self.fits or not self.can_load:
            return None
        missing = -(self.left_bytes or 0)
        if missing > self.mapped_bytes:
            return (
                f"{self.where} has no room for {bytes_text(missing)} of it, {self._free_text}: "
                "they are swapped out and in again, which decides the speed"
            )
        return (
            f"{bytes_text(missing)} of the weights have no room in {self.where}: they are read "
            "from disk again and again, which decides the speed"
        )

    @property
    def tightness(self) -> str | None:
        """Sentence about a GPU that is nearly full; None where it is not."""
        if not self.is_tight:
            return None
        return (
            f"{bytes_text(self.left_bytes or 0)} stay free on {self.where}; below "
            f"{bytes_text(MARGIN_BYTES)} the driver or another program can end a run"
        )

    @property
    def _free_text(self) -> str:
        text = f"{bytes_text(self.free_bytes or 0)} are free"
        text += f" below {self.limit}" if self.limit else ""
        return text + (f" and {bytes_text(self.slow_bytes)} of swap" if self.slow_bytes else "")


def demands(plan: Plan, free: FreeMemory) -> tuple[Demand, ...]:
    """Add up a plan by memory: every one that it uses or that is known, the host's last."""
    allocated: Counter[str] = Counter()
    mapped: Counter[str] = Counter()
    for buffer in plan.buffers:
        sizes = mapped if buffer.is_mapped else allocated
        sizes[buffer.memory] += buffer.size_bytes
    memories = {*allocated, *mapped, *free.by_memory}
    # Bytes of a GPU that has no memory of its own are the host's, and bound by either.
    allocated[HOST] += sum(allocated[gpu] for gpu in free.in_ram)
    if free.in_ram:
        memories.add(HOST)
    return tuple(
        Demand(
            memory=memory,
            allocated_bytes=allocated[memory],
            mapped_bytes=mapped[memory],
            free_bytes=free.by_memory.get(memory),
            includes=tuple(sorted(free.in_ram)) if memory == HOST else (),
            slow_bytes=free.slow_bytes if memory == HOST else 0,
            limit=free.limit if memory == HOST else None,
        )
        for memory in sorted(memories, key=lambda memory: (memory == HOST, memory))
    )


def can_load(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether every memory has room for what a plan allocates there."""
    return all(demand.can_load for demand in demands(plan, free))


def reads_from_disk(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether a plan can be loaded, and RAM does not hold all of its mapped weights."""
    found = demands(plan, free)
    return all(one.can_load for one in found) and not all(one.fits for one in found)


def least_left(found: Sequence[Demand], *, from_disk: bool = False) -> int:
    """Bytes beyond the margin that remain where that is least; negative if it does not fit.

    Args:
        found: memories that nothing is wanted of do not count.
        from_disk: whether mapped weights need no room.
    """
    left = [
        demand.left_bytes
        + (demand.mapped_bytes if from_disk else 0)
        - (0 if demand.memory == HOST else MARGIN_BYTES)
        for demand in found
        if demand.left_bytes is not None and demand.allocated_bytes + demand.mapped_bytes
    ]
    return min(left, default=0)


PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``."""

_FAR = 4
"""Steps from the smallest context at which its growth shows."""


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-c`` that fits, up to the context that the target was trained for.

    GPUs keep ``MARGIN_BYTES``. Mapped weights that RAM cannot hold with the smallest context are
    read from disk with any: then they bound nothing.

    Args:
        plan: asked for four contexts where caches grow along a line; a larger context never takes
            less. Best one that remembers: most are asked for twice.
        request: everything but the size of the context.
        free: free memory.

    Returns:
        A multiple of ``CONTEXT_STEP``, None if not even the smallest fits.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """

    def planned(n_steps: int) -> Plan:
        return plan(_with_context(request, n_steps))

    smallest = plan(with_smallest_context(request))
    from_disk = reads_from_disk(smallest, free)

    def left_bytes(n_steps: int) -> int:
        try:
            return least_left(demands(planned(n_steps), free), from_disk=from_disk)
        except DoesNotFitError:
            # By how much is not told.
            return -1

    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    # Caches grow along a line, or nearly so.
    n_asked = max(request.context.ctx_size // CONTEXT_STEP, _FAR)
    left, grown = left_bytes(1), left_bytes(1) - left_bytes(n_asked)
    guess = 1 + left * (n_asked - 1) // grown if grown > 0 else most
    return _last_with_room(left_bytes, 1, most, guess) * CONTEXT_STEP or None


def with_smallest_context(request: PlanRequest) -> PlanRequest:
    """Return the same with the smallest context that llama.cpp makes."""
    return _with_context(request, 1)


def _with_context(request: PlanRequest, n_steps: int) -> PlanRequest:
    context = replace(request.context, ctx_size=n_steps * CONTEXT_STEP)
    return replace(request, context=context)


def expert_overrides(options: ModelOptions) -> tuple[TensorOverride, ...]:
    """Return those ``-ot`` that place experts, which ``--n-cpu-moe`` would stand in for."""
    return tuple(one for one in options.override_tensor if "exps" in one.pattern)


def with_n_cpu_moe(options: ModelOptions, n_layers: int) -> ModelOptions:
    """Return the same with the experts of so many layers in RAM, and no other word on experts."""
    placed = expert_overrides(options)
    others = tuple(one for one in options.override_tensor if one not in placed)
    return replace(options, cpu_moe=False, n_cpu_moe=n_layers, override_tensor=others)


def smallest_n_cpu_moe(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the smallest ``--n-cpu-moe`` with which the target fits on the GPUs.

    GPUs keep ``MARGIN_BYTES``. RAM has to hold what is allocated there; mapped experts may be read
    from disk.

    Args:
        plan: asked three times where layers are alike; more experts in RAM never take more of a
            GPU. Best one that remembers.
        request: everything but where experts lie: ``expert_overrides`` are left out.
        free: free memory.

    Returns:
        0 if all experts fit on the GPUs; None for a model without experts or without layers on a
        GPU, and where the GPUs or the RAM do not suffice even so.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """

    def with_layers(n_layers: int) -> tuple[Demand, ...]:
        target = with_n_cpu_moe(request.target, n_layers)
        return demands(plan(replace(request, target=target)), free)

    planned = plan(request)
    model = planned.target
    if not model.info.n_experts or not request.target.n_gpu_layers:
        return None
    n_layers = model.info.n_layers

    def left_bytes(n_kept: int) -> int:
        """Bytes left on the GPUs, which keep the experts of the last ``n_kept - 1`` layers."""
        try:
            found = with_layers(n_layers + 1 - n_kept)
        except DoesNotFitError:
            return -1
        return _left_on_gpus(found)

    guess = _kept_layers(model, _left_on_gpus(demands(planned, free)))
    n_kept = _last_with_room(left_bytes, 1, n_layers + 1, 1 + guess)
    if not n_kept:
        return None
    smallest = n_layers + 1 - n_kept
    return smallest if all(one.can_load for one in with_layers(smallest)) else None


def largest_n_gpu_layers(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-ngl`` with which a pair fits: on the GPUs, and what is left over in RAM.

    GPUs keep ``MARGIN_BYTES``. RAM has to hold what is allocated there.

    Args:
        plan: asked some five times; more layers on the GPUs never take less of them.
        request: everything but the layers.
        free: free memory.

    Returns:
        None if the GPUs or the RAM do not suffice even with none there.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """

    def with_layers(n_layers: int) -> tuple[Demand, ...]:
        target = replace(request.target, n_gpu_layers=n_layers)
        return demands(plan(replace(request, target=target)), free)

    def left_bytes(n_and_one: int) -> int:
        try:
            return _left_on_gpus(with_layers(n_and_one - 1))
        except DoesNotFitError:
            return -1

    # The output is a layer, too.
    most = plan(request).target.info.n_layers + 1
    n_and_one = _last_with_room(left_bytes, 1, most + 1, 1 + most // 2)
    if not n_and_one:
        return None
    return n_and_one - 1 if all(one.can_load for one in with_layers(n_and_one - 1)) else None


def _left_on_gpus(found: tuple[Demand, ...]) -> int:
    return least_left(tuple(one for one in found if one.memory != HOST))


def _kept_layers(model: ModelPlan, left_bytes: int) -> int:
    """Guess of how many layers the GPUs can keep the experts, by what the plan leaves free there.

    Args:
        model: model with some or all experts on GPUs.
        left_bytes: free bytes of the GPUs beside that; negative if it does not fit.
    """
    on_gpus = model.traffic.gpu_expert_bytes
    per_layer = (on_gpus + model.traffic.cpu_expert_bytes) // max(model.info.n_layers, 1)
    return (on_gpus + left_bytes) // per_layer if per_layer else 0


def alone(request: PlanRequest) -> PlanRequest:
    """The request for the target without anything that drafts."""
    return replace(request, draft=None, mtp=False)


def _last_with_room(left_bytes: Callable[[int], int], first: int, last: int, guess: int) -> int:
    """Last number from ``first`` to ``last`` that leaves something, which never grows; 0 for none.

    By interpolation (regula falsi), and by halves where a step of that gains little.

    Args:
        left_bytes: negative for what does not fit. Asked twice where the guess is right.
        first: smallest number.
        last: largest number.
        guess: estimate of that number.
    """

    def at(number: int) -> tuple[int, int]:
        return number, left_bytes(number)

    guessed = at(min(max(guess, first), last))
    low = high = guessed
    # What is next to a good guess decides; what is far away bounds the search.
    if guessed[1] >= 0:
        for number in sorted({min(guessed[0] + 1, last), last}):
            high = at(number) if number != guessed[0] else guessed
            if high[1] < 0:
                break
            low = high
        else:
            return last
    else:
        for number in sorted({max(guessed[0] - 1, first), first}, reverse=True):
            low = at(number) if number != guessed[0] else guessed
            if low[1] >= 0:
                break
            high = low
        else:
            return 0
    by_halves = False
    while high[0] - low[0] > 1:
        gap = high[0] - low[0]
        share = 0.5 if by_halves else low[1] / (low[1] - high[1])
        middle = at(low[0] + min(max(int(gap * share), 1), gap - 1))
        low, high = (middle, high) if middle[1] >= 0 else (low, middle)
        by_halves = not by_halves and high[0] - low[0] > gap // 2
    return low[0]
