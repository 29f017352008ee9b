"""What a pair would take of memory. Pure: who shows or judges a plan need not load llama.cpp."""

from dataclasses import dataclass, field

from spectui.config import ContextOptions, ModelOptions, SpeculationConfig
from spectui.llama.buffers import Buffer
from spectui.llama.info import ModelInfo, Rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A target, and a draft beside it, as they would be loaded."""

    target: ModelOptions
    draft: ModelOptions | None = None
    context: ContextOptions = field(default_factory=ContextOptions)
    """Of both; cache types are those of each model's own options."""
    max_draft: int = SpeculationConfig().draft_max
    """Longest draft: the target computes logits for it, and keeps snapshots where it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model with its context."""

    info: ModelInfo
    n_experts: int
    """Per layer, 0 for a model without."""
    n_ctx: int
    """Tokens that the context would hold, as llama.cpp rounds what was asked for."""
    rollback: Rollback
    buffers: tuple[Buffer, ...]
    """Weights, cache and compute in bytes. Recurrent state and output are what llama.cpp's log
    tells, in hundredths of a MiB; cache and recurrent state together are exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a ``PlanRequest`` would allocate."""

    target: ModelPlan
    draft: ModelPlan | None
    incompatibility: str | None
    """Why the draft cannot serve the target; None if it can, and without a draft."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Of both models."""
        return self.target.buffers + (self.draft.buffers if self.draft else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """A device of llama.cpp that computes in a memory of its own."""

    name: str
    """Such as ``CUDA0``, as ``Buffer.memory`` has it."""
    description: str
    """Such as the GPU's product name."""
    free_bytes: int | None
    """None where the device does not tell, as ``total_bytes``."""
    total_bytes: int | None
