"""Catalogue of the options that spectui's command line has or an export must know. Facts only.

The names are those of llama.cpp's ``common/arg.cpp``, old and current ones. Defaults are those of
the configuration that an option fills, so that each stands in one place.
"""

from dataclasses import fields, replace

from spectui.options.dialect import Dialect
from spectui.options.drafters import NGRAMS, DraftSimple, numbers_of
from spectui.options.number import Number
from spectui.options.option import (
    Decimal,
    File,
    Layers,
    Option,
    Switch,
    Values,
    Whole,
    Words,
)
from spectui.options.setup import (
    CACHE_TYPES,
    ContextOptions,
    CpuOptions,
    Devices,
    Fit,
    FlashAttention,
    LazyMode,
    ModelOptions,
    Numa,
    SamplingConfig,
    SplitMode,
)

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""
_MAX_LAYERS = 1024
_IK = frozenset({Dialect.IK})
_NEW = frozenset({Dialect.LEGACY, Dialect.IK})


def _default(configuration: type, field: str) -> object:
    return next(one.default for one in fields(configuration) if one.name == field)


def _cache_type(flags: str, what: str, variable: str, legacy: str, *, written: str = "") -> Option:
    # Target and draft have the same defaults.
    key = "cache_type_k" if what.endswith("K") else "cache_type_v"
    return Option(
        flags=tuple(flags.split()),
        values=Words(CACHE_TYPES),
        help=f"Type of the {what} cache.",
        variables=(variable, legacy),
        default=_default(ModelOptions, key),
        written=written,
    )


MODEL = Option(
    flags=("-m", "--model"),
    values=File(),
    help="The target, a GGUF file.",
    variables=("MODEL", "MODEL"),
)
MODEL_DRAFT = Option(
    flags=("-md", "--model-draft", "--spec-draft-model"),
    values=File(),
    help="A draft, a GGUF file. May be repeated: each is a candidate.",
    variables=("SPEC_DRAFT_MODEL", "MODEL_DRAFT"),
    repeats=True,
    written="--spec-draft-model",
)
GPU_LAYERS = Option(
    flags=("-ngl", "--gpu-layers", "--n-gpu-layers"),
    values=Layers(),
    help="Layers of the target on the GPU (default: all that fit, see --fit).",
    variables=("N_GPU_LAYERS", "N_GPU_LAYERS"),
    default=_default(ModelOptions, "n_gpu_layers"),
    shows_default=False,
)
GPU_LAYERS_DRAFT = Option(
    flags=("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"),
    values=Layers(),
    help="Layers of the draft on the GPU (default: all).",
    variables=("N_GPU_LAYERS_DRAFT", "N_GPU_LAYERS_DRAFT"),
    default=_default(ModelOptions, "n_gpu_layers"),
    shows_default=False,
    written="--spec-draft-ngl",
)
RPC = Option(
    flags=("--rpc",),
    help="Servers of llama.cpp's RPC backend, whose devices are used like GPUs of this machine.",
    variables=("RPC", "RPC"),
    metavar="HOST:PORT,...",
)
DEVICE = Option(
    flags=("-dev", "--device"),
    help="Devices for the target, such as CUDA0,RPC0, or none (default: all).",
    variables=("DEVICE", "DEVICE"),
    metavar="NAME,...",
)
DEVICE_DRAFT = Option(
    flags=("-devd", "--device-draft", "--spec-draft-device"),
    help="Devices for the draft (default: those of the target).",
    metavar="NAME,...",
    written="--spec-draft-device",
)
TENSOR_SPLIT = Option(
    flags=("-ts", "--tensor-split"),
    help="Shares of the layers by device, such as 3,1 (default: by free memory).",
    variables=("TENSOR_SPLIT", "TENSOR_SPLIT"),
    metavar="N0,N1,...",
)
SPLIT_MODE = Option(
    flags=("-sm", "--split-mode"),
    values=Words(tuple(map(str, SplitMode))),
    help="What devices share of a model: layers, nothing, or rows of every matrix.",
    variables=("SPLIT_MODE", "SPLIT_MODE"),
    default=_default(Devices, "split_mode"),
)
MAIN_GPU = Option(
    flags=("-mg", "--main-gpu"),
    values=Whole(0),
    help="Index of the device that has all with --split-mode none.",
    variables=("MAIN_GPU", "MAIN_GPU"),
    default=_default(Devices, "main"),
    metavar="INDEX",
    shows_default=False,
)
NO_KV_OFFLOAD = Option(
    flags=("-nkvo", "--no-kv-offload"),
    values=Switch(),
    help="Keep the caches in RAM.",
    variables=("NO_KV_OFFLOAD", "NO_KV_OFFLOAD"),
)
NO_OP_OFFLOAD = Option(
    flags=("--no-op-offload",),
    values=Switch(),
    help="Compute with weights of RAM on the processor, for large batches too.",
    lacking=_IK,
)
OVERRIDE_TENSOR = Option(
    flags=("-ot", "--override-tensor"),
    help="Put tensors whose name matches into a buffer type, such as exps=CPU.",
    variables=("OVERRIDE_TENSOR", None),
    metavar="PATTERN=BUFFER",
    repeats=True,
)
CPU_MOE = Option(
    flags=("--cpu-moe", "-cmoe"),
    values=Switch(),
    help="Keep all expert weights in RAM.",
    variables=("CPU_MOE", "CPU_MOE"),
)
N_CPU_MOE = Option(
    flags=("--n-cpu-moe", "-ncmoe"),
    values=Whole(0, _MAX_LAYERS),
    help="Keep the expert weights of the first N layers in RAM.",
    variables=("N_CPU_MOE", "N_CPU_MOE"),
    default=_default(ModelOptions, "n_cpu_moe"),
    metavar="N",
    shows_default=False,
    lacking=_IK,
)
OVERRIDE_TENSOR_DRAFT = Option(
    flags=("-otd", "--override-tensor-draft", "--spec-draft-override-tensor"),
    help="As -ot, for the draft.",
    metavar="PATTERN=BUFFER",
    repeats=True,
    written="--spec-draft-override-tensor",
    lacking=_IK,
)
CPU_MOE_DRAFT = Option(
    flags=("--cpu-moe-draft", "-cmoed", "--spec-draft-cpu-moe"),
    values=Switch(),
    help="Keep all expert weights of the draft in RAM.",
    variables=("SPEC_DRAFT_CPU_MOE", "CPU_MOE_DRAFT"),
    written="--spec-draft-cpu-moe",
    lacking=_IK,
)
N_CPU_MOE_DRAFT = Option(
    flags=("--n-cpu-moe-draft", "-ncmoed", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe"),
    values=Whole(0, _MAX_LAYERS),
    help="Keep the expert weights of the draft's first N layers in RAM.",
    variables=("SPEC_DRAFT_N_CPU_MOE", "N_CPU_MOE_DRAFT"),
    default=_default(ModelOptions, "n_cpu_moe"),
    metavar="N",
    shows_default=False,
    written="--spec-draft-n-cpu-moe",
    lacking=_IK,
)
OVERRIDE_KV = Option(
    flags=("--override-kv", "-okv"),
    help=(
        "Take this for the model's metadata, such as qwen3moe.expert_used_count=int:4. The "
        "output is another model's then."
    ),
    metavar="KEY=TYPE:VALUE,...",
    repeats=True,
)
NO_MMAP = Option(
    flags=("--no-mmap",),
    values=Switch(),
    help="Read the models instead of mapping them.",
    variables=(None, "NO_MMAP"),
)
N_CPU_FFN = Option(
    flags=("--n-cpu-ffn", "-ncffn"),
    values=Whole(0, _MAX_LAYERS),
    help="Keep the dense FFN weights of the target's first N layers in RAM.",
    variables=("N_CPU_FFN", None),
    default=_default(ModelOptions, "n_cpu_ffn"),
    metavar="N",
    shows_default=False,
    lacking=_NEW,
)
MLOCK = Option(
    flags=("--mlock",),
    values=Switch(),
    help="Lock the weights that are in RAM there.",
    variables=(None, "MLOCK"),
)
DIRECT_IO = Option(
    flags=("--direct-io", "-dio"),
    values=Switch(),
    help="Read the models past the page cache, instead of mapping them.",
    lacking=_IK,
)
LOAD_MODE = Option(
    flags=("--load-mode", "-lm"),
    values=Words(("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")),
    help="One word in place of --no-mmap, --mlock and --direct-io (default: auto).",
    variables=("LOAD_MODE", None),
    lacking=_NEW,
)
LAZY_MODE = Option(
    flags=("--lazy-mode", "-lzm"),
    values=Words(tuple(map(str, LazyMode))),
    help="Read rows of some tables from disk when they are looked up.",
    variables=("LAZY_MODE", None),
    default=_default(ModelOptions, "lazy_mode"),
    lacking=_NEW,
)
NO_REPACK = Option(
    flags=("--no-repack", "-nr"),
    values=Switch(),
    help="Leave weights in RAM as they are in the file.",
    variables=("NO_REPACK", None),
    lacking=_IK,
)
NO_HOST = Option(
    flags=("--no-host",),
    values=Switch(),
    help="Keep weights out of the memory that a GPU's driver reserves in RAM.",
    variables=("NO_HOST", "NO_HOST"),
    lacking=_IK,
)
LOADING = (NO_MMAP, MLOCK, DIRECT_IO, LOAD_MODE)
"""How weights come into RAM: the first three, or the last for all of them."""
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
FIT = Option(
    flags=("-fit", "--fit"),
    values=Words(("on", "off")),
    help="Put as many layers and experts on devices as fit, where -ngl, -ts and -ot are not given.",
    variables=("FIT", None),
    default="on",
    is_written=False,
    lacking=_IK,
)
FIT_TARGET = Option(
    flags=("-fitt", "--fit-target"),
    help="MiB that --fit leaves free on each device (default: 1024).",
    variables=("FIT_TARGET", None),
    metavar="MIB0,MIB1,...",
    is_written=False,
    lacking=_IK,
)
FIT_CTX = Option(
    flags=("-fitc", "--fit-ctx"),
    values=Whole(1),
    help="Shortest context to which --fit shortens one whose size is not given.",
    variables=("FIT_CTX", None),
    default=_default(Fit, "min_ctx"),
    metavar="N",
    is_written=False,
    lacking=_IK,
)
FITTING = (FIT, FIT_TARGET, FIT_CTX)
"""What llama-server chooses of the target's placement. A command's own remain as they stand."""
DEVICES = (RPC, DEVICE, DEVICE_DRAFT, TENSOR_SPLIT, SPLIT_MODE, MAIN_GPU)
"""Devices that target and draft are put on."""
PLACEMENT = (
    *(GPU_LAYERS, GPU_LAYERS_DRAFT, *DEVICES, OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT),
    *(CPU_MOE, CPU_MOE_DRAFT, N_CPU_MOE, N_CPU_MOE_DRAFT, N_CPU_FFN, OVERRIDE_KV),
    *(*LOADING, LAZY_MODE, NO_REPACK, NO_HOST, NO_KV_OFFLOAD, NO_OP_OFFLOAD),
    *FITTING,
    *(CACHE_TYPE_K, CACHE_TYPE_V, CACHE_TYPE_K_DRAFT, CACHE_TYPE_V_DRAFT),
)
"""Placement of target and draft."""

THREADS = Option(
    flags=("-t", "--threads"),
    values=Whole(0, MAX_THREADS),
    help="Compute threads (default: one per physical core, efficiency cores left out).",
    variables=("THREADS", "THREADS"),
    default=_default(ContextOptions, "threads"),
    metavar="N",
    shows_default=False,
)
THREADS_BATCH = Option(
    flags=("-tb", "--threads-batch"),
    values=Whole(0, MAX_THREADS),
    help="Compute threads for batches (default: as -t).",
    default=_default(ContextOptions, "threads_batch"),
    metavar="N",
    shows_default=False,
)


THREADS_DRAFT = Option(
    flags=("-td", "--threads-draft", "--spec-draft-threads"),
    values=Whole(0, MAX_THREADS),
    help="Compute threads of the draft (default: as -t).",
    default=_default(ContextOptions, "threads_draft"),
    metavar="N",
    shows_default=False,
    written="--spec-draft-threads",
)
THREADS_BATCH_DRAFT = Option(
    flags=("-tbd", "--threads-batch-draft", "--spec-draft-threads-batch"),
    values=Whole(0, MAX_THREADS),
    help="Compute threads of the draft for batches (default: as the target's).",
    default=_default(ContextOptions, "threads_batch_draft"),
    metavar="N",
    shows_default=False,
    written="--spec-draft-threads-batch",
)
CPU_MASK = Option(
    flags=("--cpu-mask", "-C"),
    help="Processors for the compute threads, as hexadecimal bits.",
    metavar="M",
    repeats=True,
    lacking=_IK,
)
CPU_RANGE = Option(
    flags=("--cpu-range", "-Cr"),
    help="Processors for them, beside those of --cpu-mask.",
    metavar="LO-HI",
    repeats=True,
    lacking=_IK,
)
CPU_STRICT = Option(
    flags=("--cpu-strict",),
    values=Whole(0),
    help="1 gives each thread one of these processors.",
    default=int(CpuOptions().strict),
    metavar="0|1",
    shows_default=False,
    lacking=_IK,
)
PRIO = Option(
    flags=("--prio",),
    values=Whole(-1, 3),
    help="Priority of the compute threads: -1 low, 0 normal, 1 medium, 2 high, 3 real-time.",
    default=_default(CpuOptions, "prio"),
    metavar="N",
    shows_default=False,
    lacking=_IK,
)
POLL = Option(
    flags=("--poll",),
    values=Whole(0),
    help="How long they wait awake for work, from 0 to 100.",
    default=_default(CpuOptions, "poll"),
    metavar="N",
    lacking=_IK,
)


def _batch(own: Option) -> Option:
    flags = (f"{flag}-batch" if flag.startswith("--") else f"{flag}b" for flag in own.flags)
    return replace(own, flags=tuple(flags), help=f"As {own.long_flag}, for the threads of -tb.")


CPU_MASK_BATCH, CPU_RANGE_BATCH = _batch(CPU_MASK), _batch(CPU_RANGE)
CPU_STRICT_BATCH, POLL_BATCH = _batch(CPU_STRICT), _batch(POLL)
PRIO_BATCH = replace(_batch(PRIO), values=Whole(0, 3))
NUMA = Option(
    flags=("--numa",),
    values=Words(tuple(map(str, Numa))),
    help="Spread the threads over the nodes of a machine that has several.",
    variables=("NUMA", "NUMA"),
)
CPU = (
    *(CPU_MASK, CPU_RANGE, CPU_STRICT, PRIO, POLL),
    *(CPU_MASK_BATCH, CPU_RANGE_BATCH, CPU_STRICT_BATCH, PRIO_BATCH, POLL_BATCH),
)
"""Options of compute threads, those for batches behind the others."""
SWA_FULL = Option(
    flags=("--swa-full",),
    values=Switch(),
    help="Let layers with a sliding window remember the whole context.",
    variables=("SWA_FULL", "SWA_FULL"),
    lacking=_IK,
)
CTX_SIZE = Option(
    flags=("-c", "--ctx-size"),
    values=Whole(1),
    help="Tokens that the context holds.",
    variables=("CTX_SIZE", "CTX_SIZE"),
    default=_default(ContextOptions, "ctx_size"),
    metavar="N",
)
CONTEXT = (
    CTX_SIZE,
    Option(
        flags=("-b", "--batch-size"),
        values=Whole(1),
        help="Most tokens per decode.",
        variables=("BATCH", "BATCH"),
        default=_default(ContextOptions, "batch_size"),
        metavar="N",
    ),
    Option(
        flags=("-ub", "--ubatch-size"),
        values=Whole(1),
        help="Most tokens computed at once.",
        variables=("UBATCH", "UBATCH"),
        default=_default(ContextOptions, "ubatch_size"),
        metavar="N",
    ),
    Option(
        flags=("-fa", "--flash-attn"),
        values=Words(tuple(map(str, FlashAttention))),
        help="Flash attention.",
        variables=("FLASH_ATTN", "FLASH_ATTN"),
        default=_default(ContextOptions, "flash_attn"),
    ),
    *(THREADS, THREADS_BATCH, THREADS_DRAFT, THREADS_BATCH_DRAFT, *CPU, NUMA, SWA_FULL),
)
"""Options that both contexts share."""


def _sampler(
    flags: str, values: Values, field: str, variable: str | None = None, help_text: str = ""
) -> Option:
    return Option(
        flags=tuple(flags.split()),
        values=values,
        help=help_text,
        variables=(variable, None),
        default=_default(SamplingConfig, field),
        is_written=False,
    )


TEMPERATURE = _sampler(
    "--temp --temperature", Decimal(0), "temp", "TEMPERATURE", "Temperature; 0 is greedy."
)
SAMPLING = (
    _sampler("--top-k", Whole(0), "top_k", "TOP_K"),
    _sampler("--top-p", Decimal(0, 1), "top_p", "TOP_P"),
    _sampler("--min-p", Decimal(0, 1), "min_p", "MIN_P"),
    _sampler("--seed -s", Whole(0, 2**32 - 1), "seed", None, "Of sampling, and of the search."),
    Option(
        flags=("--ignore-eos",),
        values=Switch(),
        help="Go on after the end of the text.",
        is_written=False,
    ),
)
"""The target's samplers, less the temperature."""

SHARED_BY_NGRAMS = tuple(
    dict.fromkeys(
        name
        for drafter in NGRAMS
        for number in numbers_of(drafter)
        for name in number.shared
        if name.startswith("spec-")
    )
)
"""Former options of n-gram drafters alone; draft lengths applied to models, too."""


def _number(number: Number) -> Option:
    found = Option(
        flags=number.flags, values=number.values, help=number.help, variables=number.variables
    )
    return replace(found, default=number.default)


NUMBERS = tuple(
    _number(number) for drafter in (DraftSimple, *NGRAMS) for number in numbers_of(drafter)
)
"""Numbers of drafters; MTP layers share those of a draft model."""
RUN = (MODEL, MODEL_DRAFT, *PLACEMENT, *CONTEXT, TEMPERATURE, *SAMPLING)
"""Options of a run, without the drafting."""

OPTIONS: tuple[Option, ...] = (
    *(MODEL, MODEL_DRAFT, *PLACEMENT),
    Option(flags=("--mmap",), values=Switch(), is_ours=False),
    Option(flags=("-kvo", "--kv-offload"), values=Switch(), is_ours=False),
    Option(flags=("--op-offload",), values=Switch(), is_ours=False),
    Option(flags=("--repack",), values=Switch(), is_ours=False),
    Option(flags=("-ndio", "--no-direct-io"), values=Switch(), is_ours=False),
    *CONTEXT,
    Option(
        flags=("-no-fa", "--no-flash-attn"),
        values=Switch(),
        is_ours=False,
    ),
    Option(
        flags=("--spec-type", "--spec-stage"),
        variables=("SPEC_TYPE", None),
    ),
    Option(flags=("--spec-default",), values=Switch(), is_ours=False),
    *(Option(flags=(f"--{name}",), is_ours=False) for name in SHARED_BY_NGRAMS),
    *NUMBERS,
    *(TEMPERATURE, *SAMPLING),
)
"""Everything that the export writes or that spectui's command line has."""

BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
BY_VARIABLE = {
    variable: option
    for option in OPTIONS
    for variable in (option.variable, option.legacy_variable)
    if variable is not None
}
