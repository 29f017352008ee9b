"""How the dialects of llama-server spell the same thing. Facts only; ``command`` does the writing.

``LLAMA_CPP`` is llama.cpp from spring 2026 on, where each drafter has its own options.
``LEGACY`` is llama.cpp from autumn 2025 until then: ``-fa`` takes a value already, and the draft
has placement options. ``IK`` is ik_llama.cpp with ``--spec-type NAME:key=value,...``.
"""

from dataclasses import dataclass
from enum import StrEnum

from spectui.config import MODEL_KIND, SpeculationConfig, ngram_flags
from spectui.errors import BadInputError


class Dialect(StrEnum):
    """Which llama-server will read the arguments."""

    LLAMA_CPP = "llama.cpp"
    LEGACY = "llama.cpp-legacy"
    IK = "ik"


NGRAM_DIALECTS = frozenset({Dialect.LLAMA_CPP})
"""Those that take n-gram drafters and MTP in any row: a search for others must leave these out."""


_IK_KEYS = {
    "size_n": "ngram_size_n",
    "size_m": "ngram_size_m",
    "min_hits": "ngram_min_hits",
    "n_match": "ngram_size_n",
}
"""What ik_llama.cpp calls the numbers of n-gram drafters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFlags:
    """Options that say where one model's parts go; None where the dialect has no such option."""

    model: str
    gpu_layers: str
    override_tensor: str | None
    cpu_moe: str | None
    n_cpu_moe: str | None
    cache_type_k: str
    cache_type_v: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One dialect's words."""

    target: PlacementFlags
    draft: PlacementFlags
    all_layers: str
    """Value of ``gpu_layers`` that puts every layer on the GPU."""
    no_mmap: tuple[str, ...]
    swa_full: str | None
    """None where the dialect has no such option."""


_TARGET = PlacementFlags(
    model="-m",
    gpu_layers="-ngl",
    override_tensor="-ot",
    cpu_moe="--cpu-moe",
    n_cpu_moe="--n-cpu-moe",
    cache_type_k="-ctk",
    cache_type_v="-ctv",
)

SPELLINGS: dict[Dialect, Spelling] = {
    Dialect.LLAMA_CPP: Spelling(
        target=_TARGET,
        draft=PlacementFlags(
            model="--spec-draft-model",
            gpu_layers="--spec-draft-ngl",
            override_tensor="--spec-draft-override-tensor",
            cpu_moe="--spec-draft-cpu-moe",
            n_cpu_moe="--spec-draft-n-cpu-moe",
            cache_type_k="--spec-draft-type-k",
            cache_type_v="--spec-draft-type-v",
        ),
        all_layers="all",
        # It replaced --no-mmap, which current builds reject.
        no_mmap=("--load-mode", "none"),
        swa_full="--swa-full",
    ),
    Dialect.LEGACY: Spelling(
        target=_TARGET,
        draft=PlacementFlags(
            model="-md",
            gpu_layers="-ngld",
            override_tensor="-otd",
            cpu_moe="--cpu-moe-draft",
            n_cpu_moe="--n-cpu-moe-draft",
            cache_type_k="-ctkd",
            cache_type_v="-ctvd",
        ),
        # "all" is newer than most of these builds; a number above the layer count never was wrong.
        all_layers="999",
        no_mmap=("--no-mmap",),
        swa_full="--swa-full",
    ),
    Dialect.IK: Spelling(
        target=PlacementFlags(
            model="-m",
            gpu_layers="-ngl",
            override_tensor="-ot",
            cpu_moe="--cpu-moe",
            # It has --n-cpu-moe, but counts from the last layer, where llama.cpp counts from the
            # first: what was measured is written as a pattern instead.
            n_cpu_moe=None,
            cache_type_k="-ctk",
            cache_type_v="-ctv",
        ),
        draft=PlacementFlags(
            model="-md",
            gpu_layers="-ngld",
            override_tensor=None,
            cpu_moe=None,
            n_cpu_moe=None,
            cache_type_k="-ctkd",
            cache_type_v="-ctvd",
        ),
        all_layers="999",
        no_mmap=("--no-mmap",),
        swa_full=None,
    ),
}


def speculation_arguments(config: SpeculationConfig, dialect: Dialect) -> list[str]:
    """The drafting parameters, all of them: their defaults changed between versions.

    Raises:
        BadInputError: the dialect has no words that spectui knows for what drafts.
    """
    if dialect is Dialect.LLAMA_CPP:
        flags = [word for one in config.chain for word in _options(one)]
        return ["--spec-type", ",".join(map(_kind, config.chain)), *flags]
    if dialect is Dialect.IK:
        return _ik_stages(config)
    for one in config.chain:
        if one.ngram is not None or one.mtp or one.reader is not None:
            # Older builds spell it in several ways, if they know it at all.
            raise BadInputError(
                f"{dialect} has no flags for {one.kind} that spectui knows; export for "
                f"{Dialect.LLAMA_CPP}, or choose a setting with a draft model"
            )
    n_max, n_min, p_min = _model_values(config)
    # A draft model is reason enough for these builds to draft.
    return ["--draft-max", n_max, "--draft-min", n_min, "--draft-p-min", p_min]


def _ik_stages(config: SpeculationConfig) -> list[str]:
    """A ``--spec-type`` per drafter, its numbers behind it.

    Raises:
        BadInputError: there are more of them than it takes, or it lacks one.
    """
    *ahead, own = config.chain
    is_lacking = any(one.reader is not None for one in config.chain)
    if is_lacking or len(ahead) > 1 or (ahead and own.ngram is not None):
        kinds = ", ".join(one.kind for one in config.chain)
        raise BadInputError(
            f"{Dialect.IK} cannot draft with {kinds}: it takes one drafter, and one n-gram drafter "
            f"ahead of a draft model or of MTP layers; export for {Dialect.LLAMA_CPP}, or choose "
            "another setting"
        )
    return [word for one in config.chain for word in ("--spec-type", _ik_stage(one))]


def _ik_stage(config: SpeculationConfig) -> str:
    if config.ngram is None:
        n_max, n_min, p_min = _model_values(config)
        return f"{'mtp' if config.mtp else 'draft'}:n_max={n_max},n_min={n_min},p_min={p_min}"
    options = config.ngram.options(config.draft_max)
    numbers = {_IK_KEYS.get(name, name): value for name, value in options.items()}
    if "ngram_size_m" in numbers:
        # It cuts drafts off there, too.
        numbers = {"n_max": config.draft_max, **numbers}
    settings = ",".join(f"{key}={value}" for key, value in numbers.items())
    return f"{config.ngram.kind}:{settings}" if settings else str(config.ngram.kind)


def _kind(config: SpeculationConfig) -> str:
    return config.reader or MODEL_KIND if config.has_model else config.kind


def _options(config: SpeculationConfig) -> list[str]:
    """One drafter's own, in llama.cpp's words."""
    if config.ngram is not None:
        flags, values = ngram_flags(config.ngram.kind), config.ngram.options(config.draft_max)
        return [w for flag, v in zip(flags, values.values(), strict=True) for w in (flag, str(v))]
    n_max, n_min, p_min = _model_values(config)
    return ["--spec-draft-n-max", n_max, "--spec-draft-n-min", n_min, "--spec-draft-p-min", p_min]


def _model_values(config: SpeculationConfig) -> tuple[str, str, str]:
    # A sampler's 0.15000000000000002 helps no reader; the server keeps 7 digits.
    p_min = str(round(float(config.draft_p_min), 6))
    return str(config.draft_max), str(config.draft_min), p_min
