"""Plans of contexts that are too long to be planned themselves: by arithmetic, from shorter ones.

Llama.cpp keeps some fifty bytes per token of a context, even of one that is only planned: two
billion tokens are gigabytes, and a minute. What caches and compute buffers take grows along a line.
"""

from collections.abc import Callable
from dataclasses import replace

from spectui.llama.buffers import Buffer, BufferKind
from spectui.llama.planned import ModelPlan, Plan, PlanRequest

CONTEXT_STEP = 256
"""Llama.cpp rounds contexts up to multiples of it."""
LONGEST = 1 << 20
"""Tokens of the longest context that llama.cpp plans itself: 150 MB, and a tenth of a second."""


def plan_any_length(plan: Callable[[PlanRequest], Plan], request: PlanRequest) -> Plan:
    """Plan a context of any length.

    Args:
        plan: plans contexts of up to ``LONGEST``; asked twice for a longer one.
        request: models and context to plan.
    """
    if request.context.ctx_size <= LONGEST:
        return plan(request)
    short, long = (
        plan(replace(request, context=replace(request.context, ctx_size=n)))
        for n in (LONGEST // 2, LONGEST)
    )
    n_steps = -(-request.context.ctx_size // CONTEXT_STEP)
    draft = None
    if short.draft is not None and long.draft is not None:
        draft = _extended(short.draft, long.draft, n_steps)
    return replace(long, target=_extended(short.target, long.target, n_steps), draft=draft)


def _extended(short: ModelPlan, long: ModelPlan, n_steps: int) -> ModelPlan:
    sizes = {_place(one): one.size_bytes for one in short.buffers}
    return replace(
        long,
        n_ctx=_along_line(short.n_ctx, long.n_ctx, n_steps),
        buffers=tuple(
            replace(
                one,
                size_bytes=_along_line(
                    sizes.get(_place(one), one.size_bytes), one.size_bytes, n_steps
                ),
            )
            for one in long.buffers
        ),
    )


def _place(buffer: Buffer) -> tuple[str, BufferKind]:
    return buffer.device, buffer.kind


def _along_line(short: int, long: int, n_steps: int) -> int:
    half = LONGEST // 2 // CONTEXT_STEP
    return long + (long - short) * (n_steps - 2 * half) // half
