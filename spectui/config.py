"""What a run is made of: models, context, sampling, speculation. Frozen, picklable, no behaviour.

Field names are llama-server's long option names where it has one.
"""

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


class NgramKind(StrEnum):
    """Drafters that need no model, by the name that ``--spec-type`` knows them under."""

    SIMPLE = "ngram-simple"
    """Copies what followed the last tokens where they stood before."""
    MAP_K = "ngram-map-k"
    """The same from a table of places, with drafts as long as the last one was accepted."""
    MAP_K4V = "ngram-map-k4v"
    """As ``MAP_K``, where one continuation is frequent enough among up to four."""
    MOD = "ngram-mod"
    """Follows a table from n-grams to single tokens."""
    CACHE = "ngram-cache"
    """Follows counts of what came after the last one to four tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramConfig:
    """A drafter that looks the last tokens up in the text so far.

    Defaults are llama-server's. What ``kind`` does not read stays at its default, so that equal
    drafters are equal here; ``ngram-cache`` reads nothing of it.
    """

    kind: NgramKind = NgramKind.SIMPLE
    size_n: int = 12
    """Of ``SIMPLE``, ``MAP_K`` and ``MAP_K4V``: tokens that are looked up, and of ``SIMPLE`` the
    shortest draft, too. Llama-server takes 1 to 1024."""
    min_hits: int = 1
    """Of ``MAP_K4V``: lookups that must find an n-gram before it drafts. At least 1."""
    n_match: int = 24
    """Of ``MOD``: tokens that are looked up. Llama-server takes 1 to 1024, and warns below 16."""
    n_min: int = 48
    """Of ``MOD``: a draft that ends for want of an entry before it is this long is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationConfig:
    """Everything about drafting that a trial can change.

    Defaults are current llama-server's (``--spec-draft-n-max 3 --spec-draft-n-min 0
    --spec-draft-p-min 0.00``).
    """

    draft_max: int = 3
    """Most tokens per draft."""
    draft_min: int = 0
    """A draft shorter than this is dropped."""
    draft_p_min: float = 0.0
    """Drafting stops when the top token's probability (softmax of the top 10) is below this."""
    ngram: NgramConfig | None = None
    """Drafts instead of a draft model. ``draft_max`` is its ``size_m`` then, or the ``n_max`` of
    ``MOD``; llama-server's ``CACHE`` drafts up to 8 and has no option for it. ``draft_min`` and
    ``draft_p_min`` mean nothing to any of them."""


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
