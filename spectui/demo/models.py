"""Names of the demo models and of their files, and the progress of a build."""

from dataclasses import dataclass
from enum import StrEnum

RECIPE_VERSION = 1
"""Part of every file name: raise it whenever a built file would differ from before."""

FILE_PREFIX = "spectui-demo-"
"""Start of every file that a build writes, so that a build touches no one else's files."""


class DemoModel(StrEnum):
    """The demo models; ``DRAFT`` is SmolLM2 as installed, the others are built from it."""

    DENSE = "dense"
    """Target, F32, 90 layers: memory-bound, so speculation pays."""
    MOE = "moe"
    """Target, Q8_0, 8 experts of which 2 are used: compute-bound without a GPU."""
    DRAFT = "draft"
    """The good draft: SmolLM2-135M-Instruct, Q4_1."""
    DRAFT_THIN = "draft-thin"
    """The cheaper, worse draft: SmolLM2 without a third of its layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoProgress:
    """Progress of the build of one model."""

    model: DemoModel
    fraction: float
    """0 to 1, of this model's bytes."""


def file_name(model: DemoModel, seed: int) -> str:
    """Name of the finished file of a built ``model``: differs per seed and recipe version."""
    return f"{FILE_PREFIX}{model}-seed{seed}-v{RECIPE_VERSION}.gguf"
