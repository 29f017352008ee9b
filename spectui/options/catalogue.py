"""Catalogue of the options that spectui's command line has or an export must know. Facts only.

The names are those of llama.cpp's ``common/arg.cpp``, old and current ones. Defaults are those of
the configuration that an option fills, so that each stands in one place.
"""

from dataclasses import fields, replace

from spectui.options.dialect import Dialect
from spectui.options.drafters import NGRAMS, DraftSimple, numbers_of
from spectui.options.number import Number
from spectui.options.option import Decimal, File, Layers, Option, Switch, Text, Values, Whole, Words
from spectui.options.setup import (
    CACHE_TYPES,
    ContextOptions,
    FlashAttention,
    ModelOptions,
    SamplingConfig,
)

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""
_MAX_LAYERS = 1024
_IK = frozenset({Dialect.IK})
_PREFIX = "LLAMA_ARG_"


_TEXT = Text()


def _option(
    flags: str,
    values: Values = _TEXT,
    help_text: str = "",
    variable: str | None = None,
    legacy: str | None = None,
    *,
    of: tuple[type, str] | None = None,
    metavar: str | None = None,
    shows_default: bool = True,
    repeats: bool = False,
    written: str = "",
    lacking: frozenset[Dialect] = frozenset(),
    is_ours: bool = True,
    is_written: bool = True,
) -> Option:
    return Option(
        flags=tuple(flags.split()),
        values=values,
        default=None if of is None else _default(*of),
        help=help_text,
        metavar=metavar,
        shows_default=shows_default,
        repeats=repeats,
        written=written,
        lacking=lacking,
        variable=None if variable is None else _PREFIX + variable,
        legacy_variable=None if legacy is None else _PREFIX + legacy,
        is_ours=is_ours,
        is_written=is_written,
    )


def _default(configuration: type, field: str) -> object:
    return next(one.default for one in fields(configuration) if one.name == field)


def _cache_type(flags: str, what: str, variable: str, legacy: str, *, written: str = "") -> Option:
    # Target and draft have the same defaults.
    key = "cache_type_k" if what.endswith("K") else "cache_type_v"
    return _option(
        flags,
        Words(CACHE_TYPES),
        f"Type of the {what} cache.",
        variable,
        legacy,
        of=(ModelOptions, key),
        written=written,
    )


MODEL = _option("-m --model", File(), "The target, a GGUF file.", "MODEL", "MODEL")
MODEL_DRAFT = _option(
    "-md --model-draft --spec-draft-model",
    File(),
    "A draft, a GGUF file. May be repeated: each is a candidate.",
    "SPEC_DRAFT_MODEL",
    "MODEL_DRAFT",
    repeats=True,
    written="--spec-draft-model",
)
GPU_LAYERS = _option(
    "-ngl --gpu-layers --n-gpu-layers",
    Layers(),
    "Layers of the target on the GPU (default: all).",
    "N_GPU_LAYERS",
    "N_GPU_LAYERS",
    of=(ModelOptions, "n_gpu_layers"),
    shows_default=False,
)
GPU_LAYERS_DRAFT = _option(
    "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl",
    Layers(),
    "Layers of the draft on the GPU (default: all).",
    "N_GPU_LAYERS_DRAFT",
    "N_GPU_LAYERS_DRAFT",
    of=(ModelOptions, "n_gpu_layers"),
    shows_default=False,
    written="--spec-draft-ngl",
)
OVERRIDE_TENSOR = _option(
    "-ot --override-tensor",
    Text(),
    "Put tensors whose name matches into a buffer type, such as exps=CPU.",
    "OVERRIDE_TENSOR",
    metavar="PATTERN=BUFFER",
    repeats=True,
)
CPU_MOE = _option(
    "--cpu-moe -cmoe", Switch(), "Keep all expert weights in RAM.", "CPU_MOE", "CPU_MOE"
)
N_CPU_MOE = _option(
    "--n-cpu-moe -ncmoe",
    Whole(0, _MAX_LAYERS),
    "Keep the expert weights of the first N layers in RAM.",
    "N_CPU_MOE",
    "N_CPU_MOE",
    of=(ModelOptions, "n_cpu_moe"),
    metavar="N",
    shows_default=False,
    # It has --n-cpu-moe, but counts from the last layer, where llama.cpp counts from the first:
    # what was measured is written as a pattern instead.
    lacking=_IK,
)
OVERRIDE_KV = _option(
    "--override-kv -okv",
    Text(),
    "Take this for the model's metadata, such as qwen3moe.expert_used_count=int:4. The output is "
    "another model's then.",
    metavar="KEY=TYPE:VALUE,...",
    repeats=True,
)
NO_MMAP = _option(
    "--no-mmap", Switch(), "Read the models instead of mapping them.", None, "NO_MMAP"
)
CACHE_TYPE_K = _cache_type("-ctk --cache-type-k", "target's K", "CACHE_TYPE_K", "CACHE_TYPE_K")
CACHE_TYPE_V = _cache_type("-ctv --cache-type-v", "target's V", "CACHE_TYPE_V", "CACHE_TYPE_V")
CACHE_TYPE_K_DRAFT = _cache_type(
    "-ctkd --cache-type-k-draft --spec-draft-type-k",
    "draft's K",
    "SPEC_DRAFT_CACHE_TYPE_K",
    "CACHE_TYPE_K_DRAFT",
    written="--spec-draft-type-k",
)
CACHE_TYPE_V_DRAFT = _cache_type(
    "-ctvd --cache-type-v-draft --spec-draft-type-v",
    "draft's V",
    "SPEC_DRAFT_CACHE_TYPE_V",
    "CACHE_TYPE_V_DRAFT",
    written="--spec-draft-type-v",
)
PLACEMENT = (
    *(GPU_LAYERS, GPU_LAYERS_DRAFT, OVERRIDE_TENSOR, CPU_MOE, N_CPU_MOE, OVERRIDE_KV, NO_MMAP),
    *(CACHE_TYPE_K, CACHE_TYPE_V, CACHE_TYPE_K_DRAFT, CACHE_TYPE_V_DRAFT),
)
"""Placement of target and draft."""

THREADS = _option(
    "-t --threads",
    Whole(0, MAX_THREADS),
    "Compute threads (default: one per physical core).",
    "THREADS",
    "THREADS",
    of=(ContextOptions, "threads"),
    metavar="N",
    shows_default=False,
)
SWA_FULL = _option(
    "--swa-full",
    Switch(),
    "Let layers with a sliding window remember the whole context.",
    "SWA_FULL",
    "SWA_FULL",
    lacking=_IK,
)
CTX_SIZE = _option(
    "-c --ctx-size",
    Whole(1),
    "Tokens that the context holds.",
    "CTX_SIZE",
    "CTX_SIZE",
    of=(ContextOptions, "ctx_size"),
    metavar="N",
)
CONTEXT = (
    CTX_SIZE,
    _option(
        "-b --batch-size",
        Whole(1),
        "Most tokens per decode.",
        "BATCH",
        "BATCH",
        of=(ContextOptions, "batch_size"),
        metavar="N",
    ),
    _option(
        "-ub --ubatch-size",
        Whole(1),
        "Most tokens computed at once.",
        "UBATCH",
        "UBATCH",
        of=(ContextOptions, "ubatch_size"),
        metavar="N",
    ),
    _option(
        "-fa --flash-attn",
        Words(tuple(map(str, FlashAttention))),
        "Flash attention.",
        "FLASH_ATTN",
        "FLASH_ATTN",
        of=(ContextOptions, "flash_attn"),
    ),
    THREADS,
    _option(
        "-tb --threads-batch",
        Whole(0, MAX_THREADS),
        "Compute threads for batches (default: as -t).",
        of=(ContextOptions, "threads_batch"),
        metavar="N",
        shows_default=False,
    ),
    SWA_FULL,
)
"""Options that both contexts share."""


def _sampler(
    flags: str, values: Values, field: str, variable: str | None = None, help_text: str = ""
) -> Option:
    return _option(flags, values, help_text, variable, of=(SamplingConfig, field), is_written=False)


TEMPERATURE = _sampler(
    "--temp --temperature", Decimal(0), "temp", "TEMPERATURE", "Temperature; 0 is greedy."
)
SAMPLING = (
    _sampler("--top-k", Whole(0), "top_k", "TOP_K"),
    _sampler("--top-p", Decimal(0, 1), "top_p", "TOP_P"),
    _sampler("--min-p", Decimal(0, 1), "min_p", "MIN_P"),
    _sampler("--seed -s", Whole(0, 2**32 - 1), "seed", None, "Of sampling, and of the search."),
    _option("--ignore-eos", Switch(), "Go on after the end of the text.", is_written=False),
)
"""The target's samplers, less the temperature."""

_SHARED_BY_NGRAMS = tuple(
    dict.fromkeys(
        f"--{name}"
        for drafter in NGRAMS
        for number in numbers_of(drafter)
        for name in number.shared
        if name.startswith("spec-")
    )
)


def _number(number: Number) -> Option:
    found = _option(" ".join(number.flags), number.values, number.help, *number.variables)
    return replace(found, default=number.default)


OVERRIDE_TENSOR_DRAFT, CPU_MOE_DRAFT, N_CPU_MOE_DRAFT = DRAFT_PLACEMENT = (
    _option(
        "-otd --override-tensor-draft --spec-draft-override-tensor",
        is_ours=False,
        written="--spec-draft-override-tensor",
        lacking=_IK,
    ),
    _option(
        "--cpu-moe-draft -cmoed --spec-draft-cpu-moe",
        Switch(),
        "",
        "SPEC_DRAFT_CPU_MOE",
        "CPU_MOE_DRAFT",
        is_ours=False,
        written="--spec-draft-cpu-moe",
        lacking=_IK,
    ),
    _option(
        "--n-cpu-moe-draft -ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe",
        Text(),
        "",
        "SPEC_DRAFT_N_CPU_MOE",
        "N_CPU_MOE_DRAFT",
        is_ours=False,
        written="--spec-draft-n-cpu-moe",
        lacking=_IK,
    ),
)
"""Placement of parts of the draft: the export writes it, and spectui's command line lacks it."""

NUMBERS = tuple(
    _number(number) for drafter in (DraftSimple, *NGRAMS) for number in numbers_of(drafter)
)
"""Numbers of drafters; MTP layers share those of a draft model."""
RUN = (MODEL, MODEL_DRAFT, *PLACEMENT, *CONTEXT, TEMPERATURE, *SAMPLING)
"""Options of a run, without the drafting."""

OPTIONS: tuple[Option, ...] = (
    *(MODEL, MODEL_DRAFT, *PLACEMENT),
    _option("--mmap", Switch(), is_ours=False),
    _option("-lm --load-mode", variable="LOAD_MODE", is_ours=False),
    *CONTEXT,
    _option("-no-fa --no-flash-attn", Switch(), is_ours=False),
    _option("--spec-type --spec-stage", variable="SPEC_TYPE"),
    _option("--spec-default", Switch(), is_ours=False),
    *(_option(flag, is_ours=False) for flag in _SHARED_BY_NGRAMS),
    *NUMBERS,
    *(*DRAFT_PLACEMENT, TEMPERATURE, *SAMPLING),
)
"""Everything that the export writes or that spectui's command line has."""

BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
BY_VARIABLE = {
    variable: option
    for option in OPTIONS
    for variable in (option.variable, option.legacy_variable)
    if variable is not None
}
