"""Models, context and sampling of a run. Field names are llama-server's long option names."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Schedule(StrEnum):
    """Who re-evaluates what per round.

    ``SERVER`` mirrors llama-server, which feeds every verified batch to the draft again, so that a
    number measured here is the number llama-server gives. ``FAST`` gives the draft only the one or
    two tokens it lacks.
    """

    SERVER = "server"
    FAST = "fast"


class FlashAttention(StrEnum):
    """``-fa``: on, off, or llama.cpp's own choice."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


ONLY_BY_SERVER = "llama-server can run it, and spectui's in-process engine cannot"
THROUGH_SERVER = "spectui bench and spectui tune measure it through yours with --backend server"


CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Of caches, as llama-server takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """The target's sampler chain. ``temp`` 0 is greedy."""

    temp: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOverride:
    """One ``-ot PATTERN=BUFFER``: tensors whose name matches go to a buffer type (such as CPU)."""

    pattern: str
    buffer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvOverride:
    """One ``--override-kv KEY=TYPE:VALUE``: metadata that is taken for what the file says."""

    key: str
    value: bool | int | float | str

    @property
    def text(self) -> str:
        """As llama.cpp reads it."""
        if isinstance(self.value, bool):
            return f"{self.key}=bool:{str(self.value).lower()}"
        return f"{self.key}={type(self.value).__name__}:{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """One GGUF and where its parts go."""

    path: Path
    n_gpu_layers: int = -1
    """``-ngl``/``-ngld``: layers on the GPU, -1 for all."""
    override_tensor: tuple[TensorOverride, ...] = ()
    cpu_moe: bool = False
    """``--cpu-moe``: the expert weights of all layers stay in RAM."""
    n_cpu_moe: int = 0
    """``--n-cpu-moe``: the expert weights of the first N layers stay in RAM."""
    override_kv: tuple[KvOverride, ...] = ()
    """In llama-server one list serves target and draft; keys name the architecture."""
    mmap: bool = True
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """What target and draft context have in common, as in llama-server."""

    ctx_size: int = 4096
    batch_size: int = 2048
    ubatch_size: int = 512
    flash_attn: FlashAttention = FlashAttention.AUTO
    threads: int = 0
    """``-t``: compute threads per generated token, 0 for one per physical core."""
    threads_batch: int = 0
    """``-tb``: compute threads for prompts and verification, 0 for as many as ``threads``."""
    swa_full: bool = False
    """Layers with a sliding window remember all tokens, not just those that they look at."""
