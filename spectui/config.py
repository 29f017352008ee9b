"""What a run is made of: models, context, sampling, speculation. Frozen and picklable.

What these say of themselves follows from their fields. Field names are llama-server's long option
names where it has one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


MODEL_KIND = "draft-simple"
"""Drafting by a model, as ``--spec-type`` has it."""
MTP_KIND = "draft-mtp"
"""Drafting by the target's own layers for multi-token prediction (MTP)."""

SERVER_KINDS = ("draft-eagle3", "draft-dflash", "draft-dspark")
"""Drafts that read the target's hidden states, by llama-server's names."""
ONLY_BY_SERVER = "llama-server can run it, and spectui's in-process engine cannot"
THROUGH_SERVER = "spectui bench and spectui tune measure it through yours with --backend server"


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


_SHORT = {
    "size_n": "n",
    "size_m": "m",
    "min_hits": "hits",
    "n_match": "n",
    "n_min": "min",
    "n_max": "max",
}
"""An n-gram drafter's options in a table."""


CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Of caches, as llama-server takes them."""
NGRAM_LARGEST = 1024
"""That llama-server takes for any option of an n-gram drafter."""


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

    def options(self, longest: int) -> dict[str, int]:
        """What its kind reads, by llama-server's names; ``longest`` is the longest draft."""
        match self.kind:
            case NgramKind.SIMPLE:
                return {"size_n": self.size_n, "size_m": longest}
            case NgramKind.MAP_K | NgramKind.MAP_K4V:
                return {"size_n": self.size_n, "size_m": longest, "min_hits": self.min_hits}
            case NgramKind.MOD:
                return {"n_match": self.n_match, "n_min": self.n_min, "n_max": longest}
            case NgramKind.CACHE:
                return {}


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
    mtp: bool = False
    """The target's own MTP layers draft instead of a draft model."""
    reader: str | None = None
    """Of ``SERVER_KINDS``: the draft model reads the target's hidden states, which llama-server
    alone runs. None for one that is a model of its own."""
    ahead: tuple["SpeculationConfig", ...] = ()
    """N-gram drafters that are asked first; the first that drafts anything is taken. Each kind at
    most once, in the order of ``NgramKind``, which is llama-server's precedence."""

    @property
    def chain(self) -> tuple["SpeculationConfig", ...]:
        """All drafters in the order in which they are asked."""
        return (*self.ahead, replace(self, ahead=()))

    def after(self, ahead: Sequence["SpeculationConfig"]) -> "SpeculationConfig":
        """The same, asked after ``ahead``."""
        return replace(self, ahead=tuple(ahead))

    @property
    def longest(self) -> int:
        """Most tokens that any of them drafts."""
        return max(one.draft_max for one in self.chain)

    @property
    def summary(self) -> str:
        """The settings of this drafter alone, for tables and sentences."""
        if self.ngram is None:
            return f"max {self.draft_max}, min {self.draft_min}, p_min {self.draft_p_min:.2f}"
        options = self.ngram.options(self.draft_max)
        return ", ".join(f"{_SHORT[name]} {value}" for name, value in options.items())

    @property
    def kind(self) -> str:
        """What drafts: ``model``, or by llama-server's name what is no model of its own."""
        if self.ngram is not None:
            return str(self.ngram.kind)
        return MTP_KIND if self.mtp else self.reader or "model"

    @property
    def ngrams(self) -> tuple[NgramKind, ...]:
        """The n-gram drafters among all; none if a draft model or the target drafts alone."""
        return tuple(one.ngram.kind for one in self.chain if one.ngram is not None)

    @property
    def has_model(self) -> bool:
        """Whether a draft model is among them."""
        return self.ngram is None and not self.mtp


def ngram_flags(kind: NgramKind) -> tuple[str, ...]:
    """Llama.cpp's, in the order of ``NgramConfig.options``; ``ngram-cache`` has none."""
    names = NgramConfig(kind=kind).options(0)
    return tuple(f"--spec-{kind}-{name.replace('_', '-')}" for name in names)


CACHE_LONGEST = 8
"""Longest draft of ``ngram-cache``, for which llama-server has no option."""


def ngram_setting(kind: NgramKind, options: Mapping[str, int]) -> SpeculationConfig:
    """The setting of an n-gram drafter alone, from what ``NgramConfig.options`` gives."""
    given = dict(options)
    lengths = [given.pop(name) for name in ("size_m", "n_max") if name in given]
    longest = lengths[0] if lengths else CACHE_LONGEST
    return SpeculationConfig(draft_max=longest, ngram=NgramConfig(kind=kind, **given))


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
