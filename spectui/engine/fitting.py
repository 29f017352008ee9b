"""What fits in memory: whether a plan does, with which context, with how many experts in RAM."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spectui.config import ModelOptions, TensorOverride
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.buffers import HOST
from spectui.llama.planned import Plan, PlanRequest
from spectui.models.sizes import bytes_text

PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``."""

FreeBytes = Mapping[str, int]
"""Free memory by ``Buffer.memory``; what is missing is not known, and then nothing is too large."""

CONTEXT_STEP = 256
"""Llama.cpp rounds contexts up to multiples of it."""
MARGIN_BYTES = 1 << 30
"""What a search leaves free on every GPU, as llama-server's ``--fit-target`` does by default: pools
of the driver and the desktop grow after the models are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a plan wants of one memory."""

    memory: str
    """As ``Buffer.memory``."""
    allocated_bytes: int
    mapped_bytes: int
    """Weights that mmap leaves in the page cache: without room for them they are read from disk
    again and again."""
    free_bytes: int | None
    """None where nobody knows."""

    @property
    def where(self) -> str:
        """The memory's name for people."""
        return "RAM" if self.memory == HOST else self.memory

    @property
    def left_bytes(self) -> int | None:
        """What remains free; negative if it does not fit."""
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
        return self.left_bytes is None or self.left_bytes + self.mapped_bytes >= 0

    @property
    def is_tight(self) -> bool:
        """Whether it fits on a GPU, and leaves less than the margin there."""
        is_used = self.memory != HOST and self.allocated_bytes > 0
        return is_used and self.left_bytes is not None and 0 <= self.left_bytes < MARGIN_BYTES

    @property
    def shortage(self) -> str | None:
        """What is missing, in words; None where it can be loaded."""
        if self.can_load:
            return None
        needed, free = bytes_text(self.allocated_bytes), bytes_text(self.free_bytes or 0)
        return f"{self.where} has no room: {needed} are needed, {free} are free"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFit:
    """What became of one draft."""

    draft: ModelOptions
    plan: Plan | None
    """None where it could not be made: its file or an option of it is unusable."""
    fits: bool | None
    """Whether the pair can be loaded; None where its file is unusable."""
    reason: str | None
    """Why it cannot be used; None if it can serve, and be loaded."""

    @property
    def is_compatible(self) -> bool | None:
        """Whether it can serve the target; None where that did not become known."""
        return None if self.plan is None else self.plan.incompatibility is None


def demands(plan: Plan, free: FreeBytes) -> tuple[Demand, ...]:
    """Add up a plan by memory: every one that it uses or that is known, the host's last."""
    allocated: Counter[str] = Counter()
    mapped: Counter[str] = Counter()
    for buffer in plan.buffers:
        sizes = mapped if buffer.is_mapped else allocated
        sizes[buffer.memory] += buffer.size_bytes
    memories = {*allocated, *mapped, *free}
    return tuple(
        Demand(
            memory=memory,
            allocated_bytes=allocated[memory],
            mapped_bytes=mapped[memory],
            free_bytes=free.get(memory),
        )
        for memory in sorted(memories, key=lambda memory: (memory == HOST, memory))
    )


def can_load(plan: Plan, free: FreeBytes) -> bool:
    """Tell whether every memory has room for what a plan allocates there."""
    return all(demand.can_load for demand in demands(plan, free))


def reads_from_disk(plan: Plan, free: FreeBytes) -> bool:
    """Tell whether a plan can be loaded, and RAM does not hold all of its mapped weights."""
    found = demands(plan, free)
    return all(one.can_load for one in found) and not all(one.fits for one in found)


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeBytes) -> int | None:
    """Find the largest ``-c`` that fits, up to the context that the target was trained for.

    GPUs keep ``MARGIN_BYTES``. Mapped weights that RAM cannot hold with the smallest context are
    read from disk with any: then they bound nothing.

    Args:
        plan: asked some five times, as caches grow with the context along a line, or nearly so; a
            larger context never takes less. Best one that remembers: the smallest is asked twice.
        request: everything but the size of the context.
        free: free memory.

    Returns:
        A multiple of ``CONTEXT_STEP``, None if not even the smallest fits.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """

    def planned(n_steps: int) -> Plan:
        context = replace(request.context, ctx_size=n_steps * CONTEXT_STEP)
        return plan(replace(request, context=context))

    smallest = planned(1)
    from_disk = reads_from_disk(smallest, free)

    def left_bytes(n_steps: int) -> int:
        try:
            return _least_left(demands(planned(n_steps), free), from_disk=from_disk)
        except DoesNotFitError:
            # By how much is not told.
            return -1

    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    return _last_with_room(left_bytes, 1, most) * CONTEXT_STEP or None


def expert_overrides(options: ModelOptions) -> tuple[TensorOverride, ...]:
    """Return those ``-ot`` that place experts, which ``--n-cpu-moe`` would stand in for."""
    return tuple(one for one in options.override_tensor if "exps" in one.pattern)


def with_n_cpu_moe(options: ModelOptions, n_layers: int) -> ModelOptions:
    """Return the same with the experts of so many layers in RAM, and no other word on experts."""
    placed = expert_overrides(options)
    others = tuple(one for one in options.override_tensor if one not in placed)
    return replace(options, cpu_moe=False, n_cpu_moe=n_layers, override_tensor=others)


def smallest_n_cpu_moe(plan: PlanCall, request: PlanRequest, free: FreeBytes) -> int | None:
    """Find the smallest ``--n-cpu-moe`` with which the target fits on the GPUs.

    GPUs keep ``MARGIN_BYTES``. RAM has to hold what is allocated there; mapped experts may be read
    from disk.

    Args:
        plan: asked some four times; more experts in RAM never take more of a GPU.
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

    model = plan(request).target
    if not model.n_experts or not request.target.n_gpu_layers:
        return None
    n_layers = model.info.n_layers

    def left_bytes(n_kept: int) -> int:
        """Of the GPUs, which keep the experts of all layers but the first ``n + 1 - n_kept``."""
        try:
            found = with_layers(n_layers + 1 - n_kept)
        except DoesNotFitError:
            return -1
        return _least_left(tuple(one for one in found if one.memory != HOST))

    n_kept = _last_with_room(left_bytes, 1, n_layers + 1)
    if not n_kept:
        return None
    smallest = n_layers + 1 - n_kept
    return smallest if all(one.can_load for one in with_layers(smallest)) else None


def fitting_drafts(
    plan: PlanCall, request: PlanRequest, drafts: Sequence[ModelOptions], free: FreeBytes
) -> tuple[DraftFit, ...]:
    """Try every draft beside the target.

    Raises:
        SpectuiError: as ``plan`` does, for the target.
    """
    # What is wrong with the target is not to be said of each draft.
    plan(replace(request, draft=None))
    return tuple(_draft_fit(plan, replace(request, draft=draft), draft, free) for draft in drafts)


def _draft_fit(
    plan: PlanCall, request: PlanRequest, draft: ModelOptions, free: FreeBytes
) -> DraftFit:
    try:
        planned = plan(request)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        # The target alone could be planned: whatever is wrong is the draft's.
        fits = False if isinstance(error, DoesNotFitError) else None
        return DraftFit(draft=draft, plan=None, fits=fits, reason=str(error))
    shortages = [text for one in demands(planned, free) if (text := one.shortage) is not None]
    beside = f"beside the target, {'; '.join(shortages)}" if shortages else None
    return DraftFit(
        draft=draft, plan=planned, fits=beside is None, reason=planned.incompatibility or beside
    )


def _least_left(found: Sequence[Demand], *, from_disk: bool = False) -> int:
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


def _last_with_room(left_bytes: Callable[[int], int], first: int, last: int) -> int:
    """Last number from ``first`` to ``last`` that leaves something, which never grows; 0 for none.

    By interpolation (regula falsi), and by halves where a step of that gains little.
    """
    low, high = (first, left_bytes(first)), (last, left_bytes(last))
    if low[1] < 0:
        return 0
    if high[1] >= 0:
        return high[0]
    by_halves = False
    while high[0] - low[0] > 1:
        gap = high[0] - low[0]
        share = 0.5 if by_halves else low[1] / (low[1] - high[1])
        middle = low[0] + min(max(int(gap * share), 1), gap - 1)
        left = middle, left_bytes(middle)
        low, high = (left, high) if left[1] >= 0 else (low, left)
        by_halves = not by_halves and high[0] - low[0] > gap // 2
    return low[0]
