"""Options of the placement of models: files, devices, experts in RAM, caches, ways of loading.

Names as in ``options.catalogue``.
"""

from spectui.options.option import Form, Option, Whole
from spectui.options.setup import CACHE_TYPES, ContextOptions, Devices, Fit, ModelOptions, SplitMode

_MAX_LAYERS = 1024


MODEL = Option(("-m", "--model"), "The target, a GGUF file.", Form.FILE)
MODEL_DRAFT = Option(
    ("-md", "--model-draft", "--spec-draft-model"),
    "A draft, a GGUF file. May be repeated: each is a candidate.",
    Form.FILE,
    repeats=True,
)
GPU_LAYERS = Option(
    ("-ngl", "--gpu-layers", "--n-gpu-layers"),
    "Layers of the target on the GPU (default: all that fit, see --fit).",
    Form.LAYERS,
).filling(ModelOptions, "n_gpu_layers")
GPU_LAYERS_DRAFT = GPU_LAYERS.twin(
    "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl",
    "Layers of the draft on the GPU (default: all).",
)
RPC = Option(
    ("--rpc",),
    "Servers of llama.cpp's RPC backend, whose devices are used like GPUs of this machine.",
    metavar="HOST:PORT,...",
)
DEVICE = Option(
    ("-dev", "--device"),
    "Devices for the target, such as CUDA0,RPC0, or none (default: all).",
    metavar="NAME,...",
)
DEVICE_DRAFT = DEVICE.twin(
    "-devd --device-draft --spec-draft-device",
    "Devices for the draft (default: those of the target).",
)
TENSOR_SPLIT = Option(
    ("-ts", "--tensor-split"),
    "Shares of the layers by device, such as 3,1 (default: by free memory).",
    metavar="N0,N1,...",
)
SPLIT_MODE = Option(
    ("-sm", "--split-mode"),
    "What devices share of a model: layers, nothing, or rows of every matrix.",
    tuple(map(str, SplitMode)),
).filling(Devices)
MAIN_GPU = Option(
    ("-mg", "--main-gpu"),
    "Index of the device that has all with --split-mode none.",
    Whole(0),
    metavar="INDEX",
    shows_default=False,
).filling(Devices, "main")
NO_KV_OFFLOAD = Option(("-nkvo", "--no-kv-offload"), "Keep the caches in RAM.", Form.SWITCH)
NO_OP_OFFLOAD = Option(
    ("--no-op-offload",),
    "Compute with weights of RAM on the processor, for large batches too.",
    Form.SWITCH,
)
OVERRIDE_TENSOR = Option(
    ("-ot", "--override-tensor"),
    "Put tensors whose name matches into a buffer type, such as exps=CPU.",
    metavar="PATTERN=BUFFER",
    repeats=True,
)
CPU_MOE = Option(("--cpu-moe", "-cmoe"), "Keep all expert weights in RAM.", Form.SWITCH)
N_CPU_MOE = Option(
    ("--n-cpu-moe", "-ncmoe"),
    "Keep the expert weights of the first N layers in RAM.",
    Whole(0, _MAX_LAYERS),
    shows_default=False,
).filling(ModelOptions)
MOE_CACHE_MIB = Option(
    ("--moe-cache-mib",),
    "MiB of GPU memory for the experts in RAM that were used last (default: none).",
    Whole(0, 1 << 20),
).filling(ContextOptions)
OVERRIDE_TENSOR_DRAFT = OVERRIDE_TENSOR.twin(
    "-otd --override-tensor-draft --spec-draft-override-tensor",
    "As -ot, for the draft.",
)
CPU_MOE_DRAFT = CPU_MOE.twin(
    "--cpu-moe-draft -cmoed --spec-draft-cpu-moe",
    "Keep all expert weights of the draft in RAM.",
)
N_CPU_MOE_DRAFT = N_CPU_MOE.twin(
    "--n-cpu-moe-draft -ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe",
    "Keep the expert weights of the draft's first N layers in RAM.",
)
OVERRIDE_KV = Option(
    ("--override-kv", "-okv"),
    (
        "Take this for the model's metadata, such as qwen3moe.expert_used_count=int:4. The "
        "output is another model's then."
    ),
    metavar="KEY=TYPE:VALUE,...",
    repeats=True,
)
NO_MMAP = Option(("--no-mmap",), "Read the models instead of mapping them.", Form.SWITCH)
MLOCK = Option(("--mlock",), "Lock the weights that are in RAM there.", Form.SWITCH)
DIRECT_IO = Option(
    ("--direct-io", "-dio"),
    "Read the models past the page cache, instead of mapping them.",
    Form.SWITCH,
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
    ("--load-mode", "-lm"),
    "One word in place of --no-mmap, --mlock and --direct-io (default: auto).",
    tuple(LOAD_MODES),
)
NO_REPACK = Option(
    ("--no-repack", "-nr"), "Leave weights in RAM as they are in the file.", Form.SWITCH
)
LOADING = (NO_MMAP, MLOCK, DIRECT_IO, LOAD_MODE)
"""Options of loading weights: three switches, and one option that stands for all of them."""
CACHE_TYPE_K = Option(
    ("-ctk", "--cache-type-k"),
    f"Type of the target's K cache: {', '.join(CACHE_TYPES)}.",
    CACHE_TYPES,
    metavar="TYPE",
).filling(ModelOptions)
CACHE_TYPE_V = CACHE_TYPE_K.twin("-ctv --cache-type-v", "Type of the target's V cache.")
CACHE_TYPE_K_DRAFT = CACHE_TYPE_K.twin(
    "-ctkd --cache-type-k-draft --spec-draft-type-k", "Type of the draft's K cache."
)
CACHE_TYPE_V_DRAFT = CACHE_TYPE_V.twin(
    "-ctvd --cache-type-v-draft --spec-draft-type-v", "Type of the draft's V cache."
)
FIT = Option(
    ("-fit", "--fit"),
    "Put as many layers and experts on devices as fit, where -ngl, -ts and -ot are not given.",
    ("on", "off"),
    default="on",
    is_written=False,
)
FIT_TARGET = Option(
    ("-fitt", "--fit-target"),
    "MiB that --fit leaves free on each device (default: 1024).",
    metavar="MIB0,MIB1,...",
    is_written=False,
)
FIT_CTX = Option(
    ("-fitc", "--fit-ctx"),
    "Shortest context to which --fit shortens one whose size is not given.",
    Whole(1),
    is_written=False,
).filling(Fit, "min_ctx")
FITTING = (FIT, FIT_TARGET, FIT_CTX)
"""Options by which llama-server chooses a placement. A command's own remain as they stand."""
DEVICES = (RPC, DEVICE, DEVICE_DRAFT, TENSOR_SPLIT, SPLIT_MODE, MAIN_GPU)
"""Devices that target and draft are put on."""
PLACEMENT = (
    *(GPU_LAYERS, GPU_LAYERS_DRAFT, *DEVICES, OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT),
    *(CPU_MOE, CPU_MOE_DRAFT, N_CPU_MOE, N_CPU_MOE_DRAFT, MOE_CACHE_MIB, OVERRIDE_KV),
    *(*LOADING, NO_REPACK, NO_KV_OFFLOAD, NO_OP_OFFLOAD),
    *FITTING,
    *(CACHE_TYPE_K, CACHE_TYPE_V, CACHE_TYPE_K_DRAFT, CACHE_TYPE_V_DRAFT),
)
"""Placement of target and draft."""
