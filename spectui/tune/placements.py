"""Placement of the target's experts beside each draft: ``--tune n_cpu_moe``.

A draft and the target's experts compete for the memory of the GPUs. Of two placements that fit, the
one with more experts in RAM reads more from the slower memory and gains nothing for it. So each
draft has one placement that is worth trying, and having none has one, too: as few layers with their
experts in RAM as leave room for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spectui.engine.fitting import (
    FreeMemory,
    PlanCall,
    alone,
    can_load,
    smallest_n_cpu_moe,
    with_n_cpu_moe,
)
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ModelOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Layers that keep their experts in RAM (``--n-cpu-moe``), by drafter."""

    alone: int
    """Without a draft model: off, and n-gram drafters."""
    beside: Mapping[str, int]
    """Layers by name of the draft."""

    def of(self, draft: str | None) -> int:
        """Layers beside ``draft``, None for no draft model."""
        return self.alone if draft is None else self.beside[draft]

    @property
    def most(self) -> int:
        """Largest number of layers in RAM, with which every draft fits."""
        return max((self.alone, *self.beside.values()))

    @property
    def text(self) -> str:
        """The placements in words, for a line of progress."""
        beside = [f"{n} beside {draft}" for draft, n in self.beside.items()]
        return ", ".join([f"{self.alone} without a draft", *beside])


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Result of placing the target beside each draft."""

    placements: Placements
    refused: Mapping[str, SpectuiError]
    """Drafts that have none, with the reason."""


def place_experts(
    plan: PlanCall, request: PlanRequest, drafts: Mapping[str, ModelOptions], free: FreeMemory
) -> Placed:
    """Find the placement for each draft, and for none.

    Args:
        plan: asked some four times per draft.
        request: the target and the context; where its experts lie is left out.
        drafts: by name.
        free: free memory, with nothing loaded. GPUs keep ``MARGIN_BYTES``.

    Raises:
        DoesNotFitError: the target does not fit even with all experts in RAM.
        SpectuiError: as ``plan`` does, for the target.
    """
    without = smallest_n_cpu_moe(plan, alone(request), free)
    if without is None:
        raise DoesNotFitError(
            f"{request.target.path} does not fit even with the experts of all layers in RAM; give "
            "a smaller -c, or fewer layers with -ngl"
        )
    beside: dict[str, int] = {}
    refused: dict[str, SpectuiError] = {}
    for name, options in drafts.items():
        try:
            found = smallest_n_cpu_moe(plan, replace(request, draft=options), free)
        except (BadInputError, DoesNotFitError, UsageError) as error:
            # The target alone could be planned: whatever is wrong is the draft's.
            refused[name] = error
            continue
        if found is None:
            refused[name] = DoesNotFitError(
                f"{options.path} does not fit beside the target even with the experts of all "
                "layers in RAM; give a smaller draft, or keep it in RAM with -ngld 0"
            )
        else:
            beside[name] = found
    return Placed(placements=Placements(alone=without, beside=beside), refused=refused)


def misfits(
    plan: PlanCall,
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    placements: Placements,
    free: FreeMemory,
) -> Iterator[str | None]:
    """Yield the drafts, None for none, beside which the target cannot be loaded as it is placed.

    Args:
        plan: asked once per draft.
        request: the target and the context.
        drafts: by name.
        placements: placements of an earlier run, when other memory was free.
        free: free memory, with nothing loaded.
    """
    for name in (None, *placements.beside):
        target = with_n_cpu_moe(request.target, placements.of(name))
        beside = None if name is None else drafts[name]
        if not can_load(plan(replace(request, target=target, draft=beside)), free):
            yield name


def why_idle(plan: PlanCall, request: PlanRequest, *, has_gpus: bool) -> str | None:
    """Say why ``n_cpu_moe`` would change nothing; None where it does.

    Raises:
        SpectuiError: as ``plan`` does.
    """
    target = request.target
    if not plan(alone(request)).target.info.n_experts:
        return f"{target.path.name} has no experts"
    if not has_gpus:
        return "without a GPU all experts are in RAM"
    return None if target.n_gpu_layers else "with -ngl 0 all experts are in RAM"
