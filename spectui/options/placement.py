"""Options of where models lie: files, devices, experts in RAM, caches, how weights are read.

Names as in ``options.catalogue``.
"""

from dataclasses import replace

from spectui.options.option import File, Layers, Option, Switch, Whole, Words, default_of
from spectui.options.setup import (
    CACHE_TYPES,
    ContextOptions,
    Devices,
    Fit,
    LazyMode,
    ModelOptions,
    SplitMode,
)

_MAX_LAYERS = 1024


def _draft(own: Option, flags: str, help_text: str) -> Option:
    """The draft's twin of an option of the target."""
    return replace(own, flags=tuple(flags.split()), help=help_text)


MODEL = Option(
    flags=("-m", "--model"),
    values=File(),
    help="The target, a GGUF file.",
)
MODEL_DRAFT = Option(
    flags=("-md", "--model-draft", "--spec-draft-model"),
    values=File(),
    help="A draft, a GGUF file. May be repeated: each is a candidate.",
    repeats=True,
)
GPU_LAYERS = Option(
    flags=("-ngl", "--gpu-layers", "--n-gpu-layers"),
    values=Layers(),
    help="Layers of the target on the GPU (default: all that fit, see --fit).",
    default=default_of(ModelOptions, "n_gpu_layers"),
)
GPU_LAYERS_DRAFT = _draft(
    GPU_LAYERS,
    "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl",
    "Layers of the draft on the GPU (default: all).",
)
RPC = Option(
    flags=("--rpc",),
    help="Servers of llama.cpp's RPC backend, whose devices are used like GPUs of this machine.",
    metavar="HOST:PORT,...",
)
DEVICE = Option(
    flags=("-dev", "--device"),
    help="Devices for the target, such as CUDA0,RPC0, or none (default: all).",
    metavar="NAME,...",
)
DEVICE_DRAFT = _draft(
    DEVICE,
    "-devd --device-draft --spec-draft-device",
    "Devices for the draft (default: those of the target).",
)
TENSOR_SPLIT = Option(
    flags=("-ts", "--tensor-split"),
    help="Shares of the layers by device, such as 3,1 (default: by free memory).",
    metavar="N0,N1,...",
)
SPLIT_MODE = Option(
    flags=("-sm", "--split-mode"),
    values=Words(tuple(map(str, SplitMode))),
    help="What devices share of a model: layers, nothing, or rows of every matrix.",
    default=default_of(Devices, "split_mode"),
)
MAIN_GPU = Option(
    flags=("-mg", "--main-gpu"),
    values=Whole(0),
    help="Index of the device that has all with --split-mode none.",
    default=default_of(Devices, "main"),
    metavar="INDEX",
    shows_default=False,
)
NO_KV_OFFLOAD = Option(
    flags=("-nkvo", "--no-kv-offload"),
    values=Switch(),
    help="Keep the caches in RAM.",
)
NO_OP_OFFLOAD = Option(
    flags=("--no-op-offload",),
    values=Switch(),
    help="Compute with weights of RAM on the processor, for large batches too.",
)
OVERRIDE_TENSOR = Option(
    flags=("-ot", "--override-tensor"),
    help="Put tensors whose name matches into a buffer type, such as exps=CPU.",
    metavar="PATTERN=BUFFER",
    repeats=True,
)
CPU_MOE = Option(
    flags=("--cpu-moe", "-cmoe"),
    values=Switch(),
    help="Keep all expert weights in RAM.",
)
N_CPU_MOE = Option(
    flags=("--n-cpu-moe", "-ncmoe"),
    values=Whole(0, _MAX_LAYERS),
    help="Keep the expert weights of the first N layers in RAM.",
    default=default_of(ModelOptions, "n_cpu_moe"),
    shows_default=False,
)
MOE_CACHE_MIB = Option(
    flags=("--moe-cache-mib",),
    values=Whole(0, 1 << 20),
    help="MiB of GPU memory for the experts in RAM that were used last (default: none).",
    default=default_of(ContextOptions, "moe_cache_mib"),
)
OVERRIDE_TENSOR_DRAFT = _draft(
    OVERRIDE_TENSOR,
    "-otd --override-tensor-draft --spec-draft-override-tensor",
    "As -ot, for the draft.",
)
CPU_MOE_DRAFT = _draft(
    CPU_MOE,
    "--cpu-moe-draft -cmoed --spec-draft-cpu-moe",
    "Keep all expert weights of the draft in RAM.",
)
N_CPU_MOE_DRAFT = _draft(
    N_CPU_MOE,
    "--n-cpu-moe-draft -ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe",
    "Keep the expert weights of the draft's first N layers in RAM.",
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
)
N_CPU_FFN = Option(
    flags=("--n-cpu-ffn", "-ncffn"),
    values=Whole(0, _MAX_LAYERS),
    help="Keep the dense FFN weights of the target's first N layers in RAM.",
    default=default_of(ModelOptions, "n_cpu_ffn"),
    shows_default=False,
)
MLOCK = Option(
    flags=("--mlock",),
    values=Switch(),
    help="Lock the weights that are in RAM there.",
)
DIRECT_IO = Option(
    flags=("--direct-io", "-dio"),
    values=Switch(),
    help="Read the models past the page cache, instead of mapping them.",
)
LOAD_MODES: dict[str, tuple[str, ...]] = {
    "auto": (),
    "none": ("no-mmap",),
    "mmap": (),
    "mlock": ("mlock", "no-mmap"),
    "mmap+mlock": ("mlock",),
    "dio": ("direct-io",),
}
"""Modes of loading, by the names of the switches that each stands for."""
LOAD_MODE = Option(
    flags=("--load-mode", "-lm"),
    values=Words(tuple(LOAD_MODES)),
    help="One word in place of --no-mmap, --mlock and --direct-io (default: auto).",
)
LAZY_MODE = Option(
    flags=("--lazy-mode", "-lzm"),
    values=Words(tuple(map(str, LazyMode))),
    help="Read rows of some tables from disk when they are looked up.",
    default=default_of(ModelOptions, "lazy_mode"),
)
NO_REPACK = Option(
    flags=("--no-repack", "-nr"),
    values=Switch(),
    help="Leave weights in RAM as they are in the file.",
)
NO_HOST = Option(
    flags=("--no-host",),
    values=Switch(),
    help="Keep weights out of the memory that a GPU's driver reserves in RAM.",
)
LOADING = (NO_MMAP, MLOCK, DIRECT_IO, LOAD_MODE)
"""How weights come into RAM: the first three, or the last for all of them."""
CACHE_TYPE_K = Option(
    flags=("-ctk", "--cache-type-k"),
    values=Words(CACHE_TYPES),
    help=f"Type of the target's K cache: {', '.join(CACHE_TYPES)}.",
    metavar="TYPE",
    default=default_of(ModelOptions, "cache_type_k"),
)
CACHE_TYPE_V = replace(
    CACHE_TYPE_K,
    flags=("-ctv", "--cache-type-v"),
    help="Type of the target's V cache.",
    default=default_of(ModelOptions, "cache_type_v"),
)
CACHE_TYPE_K_DRAFT = _draft(
    CACHE_TYPE_K, "-ctkd --cache-type-k-draft --spec-draft-type-k", "Type of the draft's K cache."
)
CACHE_TYPE_V_DRAFT = _draft(
    CACHE_TYPE_V, "-ctvd --cache-type-v-draft --spec-draft-type-v", "Type of the draft's V cache."
)
FIT = Option(
    flags=("-fit", "--fit"),
    values=Words(("on", "off")),
    help="Put as many layers and experts on devices as fit, where -ngl, -ts and -ot are not given.",
    default="on",
    is_written=False,
)
FIT_TARGET = Option(
    flags=("-fitt", "--fit-target"),
    help="MiB that --fit leaves free on each device (default: 1024).",
    metavar="MIB0,MIB1,...",
    is_written=False,
)
FIT_CTX = Option(
    flags=("-fitc", "--fit-ctx"),
    values=Whole(1),
    help="Shortest context to which --fit shortens one whose size is not given.",
    default=default_of(Fit, "min_ctx"),
    is_written=False,
)
FITTING = (FIT, FIT_TARGET, FIT_CTX)
"""Options by which llama-server chooses a placement. A command's own remain as they stand."""
DEVICES = (RPC, DEVICE, DEVICE_DRAFT, TENSOR_SPLIT, SPLIT_MODE, MAIN_GPU)
"""Devices that target and draft are put on."""
PLACEMENT = (
    *(GPU_LAYERS, GPU_LAYERS_DRAFT, *DEVICES, OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT),
    *(CPU_MOE, CPU_MOE_DRAFT, N_CPU_MOE, N_CPU_MOE_DRAFT, N_CPU_FFN, MOE_CACHE_MIB, OVERRIDE_KV),
    *(*LOADING, LAZY_MODE, NO_REPACK, NO_HOST, NO_KV_OFFLOAD, NO_OP_OFFLOAD),
    *FITTING,
    *(CACHE_TYPE_K, CACHE_TYPE_V, CACHE_TYPE_K_DRAFT, CACHE_TYPE_V_DRAFT),
)
"""Placement of target and draft."""
