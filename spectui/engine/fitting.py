"""What fits in memory: whether a plan does, with which context, with how many experts in RAM."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spectui.config import ModelOptions
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.buffers import HOST
from spectui.llama.planned import Plan, PlanRequest

PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``."""

FreeBytes = Mapping[str, int]
"""Free memory by ``Buffer.memory``; what is missing is not known, and then nothing is too large."""

CONTEXT_STEP = 256
"""Llama.cpp rounds contexts up to multiples of it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFit:
    """What became of one draft."""

    draft: ModelOptions
    plan: Plan | None
    """None where its file or an option of it is unusable."""
    reason: str | None
    """Why it cannot serve; None if it can, and fits."""


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


def fits(plan: Plan, free: FreeBytes) -> bool:
    """Tell whether there is room for a plan in every memory."""
    return all(demand.fits for demand in demands(plan, free))


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeBytes) -> int | None:
    """Find the largest ``-c`` that fits, up to the context that the target was trained for.

    Args:
        plan: asked some four times, as caches grow with the context along a line, or nearly so;
            a larger context never takes less.
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

    def left_bytes(n_steps: int) -> int:
        try:
            return _least_left(planned(n_steps), free)
        except DoesNotFitError:
            # By how much is not told.
            return -1

    smallest = planned(1)
    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    low, high = (1, _least_left(smallest, free)), (most, left_bytes(most))
    return _last_with_room(left_bytes, low, high) * CONTEXT_STEP or None


def smallest_n_cpu_moe(plan: PlanCall, request: PlanRequest, free: FreeBytes) -> int | None:
    """Find the smallest ``--n-cpu-moe`` with which the target fits on the GPUs.

    Args:
        plan: asked some seven times; more experts in RAM never take more of a GPU.
        request: everything but the number of layers whose experts stay in RAM.
        free: free memory.

    Returns:
        0 if all experts fit on the GPUs; None for a model without experts, and where the GPUs or
        the RAM do not suffice even so.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """

    def with_layers(n_layers: int) -> PlanRequest:
        target = replace(request.target, cpu_moe=False, n_cpu_moe=n_layers)
        return replace(request, target=target)

    def is_too_few(n_layers: int) -> bool:
        return not _fits(plan, with_layers(n_layers - 1), free, gpus_alone=True)

    target = plan(with_layers(0)).target
    if not target.n_experts:
        return None
    n_layers = _last(is_too_few, target.info.n_layers + 1)
    is_enough = n_layers <= target.info.n_layers
    return n_layers if is_enough and _fits(plan, with_layers(n_layers), free) else None


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
        return DraftFit(draft=draft, plan=None, reason=str(error))
    reason = planned.incompatibility
    if reason is None and not fits(planned, free):
        reason = "does not fit in memory beside the target"
    return DraftFit(draft=draft, plan=planned, reason=reason)


def _fits(
    plan: PlanCall, request: PlanRequest, free: FreeBytes, *, gpus_alone: bool = False
) -> bool:
    try:
        planned = plan(request)
    except DoesNotFitError:
        return False
    return all(
        demand.fits
        for demand in demands(planned, free)
        if not (gpus_alone and demand.memory == HOST)
    )


def _least_left(plan: Plan, free: FreeBytes) -> int:
    """Bytes that a plan leaves free where that is least; negative if it does not fit."""
    left = [demand.left_bytes for demand in demands(plan, free)]
    return min((n_bytes for n_bytes in left if n_bytes is not None), default=0)


def _last_with_room(
    left_bytes: Callable[[int], int], low: tuple[int, int], high: tuple[int, int]
) -> int:
    """Last number from ``low`` to ``high`` that leaves something, which never grows; 0 for none.

    By interpolation (regula falsi), and by halves where a step of that gains little.

    Args:
        left_bytes: of a number.
        low: the first number, and what it leaves.
        high: the last number, and what it leaves.
    """
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


def _last(holds: Callable[[int], bool], n: int) -> int:
    """Last of 1 to ``n`` for which ``holds``, which then holds for all before it; 0 for none."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
