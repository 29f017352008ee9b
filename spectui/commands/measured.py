"""The part of a command that measurements run, and the options that none of them applies."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spectui.commands.items import Item, divide, words_of
from spectui.commands.server_options import PREFIX, option_of_variable
from spectui.options.catalogue import BY_VARIABLE
from spectui.options.dialect import Dialect
from spectui.secret import is_secret

_TUNING = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING"),
        *("CUDA_SCALE_LAUNCH_QUEUES", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING"),
        *("GGML_CUDA_ALLREDUCE", "GGML_CUDA_CUBLAS_COMPUTE_TYPE", "GGML_CUDA_DEVICES"),
        *("GGML_CUDA_DISABLE_FUSION", "GGML_CUDA_DISABLE_GRAPHS", "GGML_CUDA_GRAPH_OPT"),
        *("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "GGML_CUDA_MMQ_PREC", "GGML_CUDA_NO_PINNED"),
        *("GGML_CUDA_P2P", "GGML_CUDA_PDL", "GGML_CUDA_REGISTER_HOST", "GGML_CUDA_FORCE_MMQ"),
        *("GGML_CUDA_FORCE_CUBLAS", "GGML_CUDA_PEER_MAX_BATCH_SIZE"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        *("HSA_OVERRIDE_GFX_VERSION", "HSA_ENABLE_SDMA", "HSA_XNACK", "GPU_MAX_HW_QUEUES"),
        *("MUSA_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK"),
        *("ZES_ENABLE_SYSMAN", "ZE_FLAT_DEVICE_HIERARCHY", "GGML_SYCL_NO_PINNED"),
        *("GGML_SYCL_DISABLE_OPT", "GGML_SYCL_DISABLE_GRAPH", "GGML_SYCL_PRIORITIZE_DMMV"),
        *("GGML_VK_VISIBLE_DEVICES", "GGML_DISABLE_VULKAN", "GGML_VK_PREFER_HOST_MEMORY"),
        *("GGML_VK_ALLOW_GRAPHICS_QUEUE", "GGML_VK_ALLOW_SYSMEM_FALLBACK"),
        *("GGML_VK_ASYNC_USE_TRANSFER_QUEUE", "GGML_VK_DISABLE_ASYNC", "GGML_VK_DISABLE_F16"),
        *("GGML_VK_DISABLE_BFLOAT16", "GGML_VK_DISABLE_COOPMAT", "GGML_VK_DISABLE_COOPMAT2"),
        *("GGML_VK_DISABLE_FUSION", "GGML_VK_DISABLE_GRAPH_OPTIMIZE", "GGML_VK_DISABLE_MMVQ"),
        *("GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM", "GGML_VK_DISABLE_INTEGER_DOT_PRODUCT"),
        *("GGML_VK_ENABLE_MEMORY_PRIORITY", "GGML_VK_FORCE_MAX_ALLOCATION_SIZE"),
        *("GGML_VK_FORCE_MAX_BUFFER_SIZE", "GGML_VK_FORCE_MMVQ", "GGML_VK_MAX_NODES_PER_SUBMIT"),
        *("GGML_VK_SUBALLOCATION_BLOCK_SIZE", "GGML_METAL_DEVICES", "GGML_METAL_NO_RESIDENCY"),
        *("GGML_METAL_BF16_DISABLE", "GGML_METAL_CONCURRENCY_DISABLE"),
        *("GGML_METAL_FUSION_DISABLE", "GGML_METAL_GRAPH_OPTIMIZE_DISABLE"),
        *("GGML_METAL_TENSOR_DISABLE", "GGML_METAL_TENSOR_ENABLE", "GGML_OPENCL_DEVICE"),
        *("GGML_OPENCL_PLATFORM", "GGML_OPENCL_DISABLE_FUSION", "GGML_CANN_NO_PINNED"),
        *("GGML_CPU_DISABLE_FUSION", "GGML_CPU_TILED_MM", "GGML_KLEIDIAI_SME"),
        *("GGML_OP_OFFLOAD_MIN_BATCH", "GGML_RPC_NO_RDMA"),
        *("LLAMA_ATTN_ROT_DISABLE", "LLAMA_GRAPH_REUSE_DISABLE", "LLAMA_SET_ROWS"),
        *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_DYNAMIC"),
        *("OMP_SCHEDULE", "OMP_THREAD_LIMIT", "OMP_STACKSIZE", "GOMP_CPU_AFFINITY"),
        *("GOMP_SPINCOUNT", "GOMP_STACKSIZE", "KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET"),
    }
)
"""Variables of llama.cpp, its backends and their libraries that select devices, sizes and ways to
compute: none of them names a file or a library."""
_PATHS = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "GGML_BACKEND_PATH", "LLAMA_CACHE", "HF_HOME"}
)
"""Variables of the user's own that hold paths."""
_PLACES = ("--split-mode",)
IGNORED = frozenset(
    f"--spec-draft-{one}{which}"
    for one in ("cpu-mask", "cpu-range", "cpu-strict", "prio", "poll")
    for which in ("", "-batch")
)
"""Options of a draft's threads, which llama-server reads and never applies."""
_BESIDE = ("--mmproj", "--mmproj-url", "--embedding", "--rerank")
_MODEL = (
    *("--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"),
    *("--rope-scaling", "--rope-scale"),
    *("--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-ext-factor"),
    *("--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast", "--grp-attn-n"),
)
_PROMPTS = (
    *("--chat-template", "--chat-template-file", "--chat-template-kwargs", "--reasoning"),
    *("--reasoning-effort", "--reasoning-budget"),
)
_CHOICE = (
    *("--grammar", "--grammar-file", "--json-schema", "--json-schema-file", "--samplers"),
    *("--sampler-seq", "--logit-bias", "--backend-sampling"),
)
_NAMED = frozenset({*_PLACES, *_BESIDE, *_MODEL, *_PROMPTS, *_CHOICE})
_APPLIED = frozenset({*_PLACES, *_MODEL})
_NEUTRAL: dict[str, float] = {
    "--parallel": 1,
    "--repeat-penalty": 1,
    "--presence-penalty": 0,
    "--frequency-penalty": 0,
    "--dry-multiplier": 0,
    "--xtc-probability": 0,
    "--typical": 1,
    "--top-nsigma": -1,
    "--mirostat": 0,
    "--dynatemp-range": 0,
    "--adaptive-target": -1,
}
"""Options without effect at this value, by their first long spelling."""
_SWITCHED_OFF = frozenset({"--kv-offload", "--op-offload"})
"""Switches that affect the speed when they are off."""


def own_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments that a server of spectui's own gets: those known to be harmless.

    Raises:
        BadInputError: an option lacks its value.
    """
    return words_of(item for item in divide(words) if _is_harmless(item))


def held_back(words: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments that a server of spectui's own does not get.

    Raises:
        BadInputError: an option lacks its value.
    """
    return words_of(item for item in divide(words) if not _is_harmless(item))


def _is_harmless(item: Item) -> bool:
    return item.server is not None and item.server.is_harmless


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The user's variables that a server of spectui's own gets, which starts in another folder.

    Of those that stand for options it gets what it gets of arguments, and no secret.
    """
    found = {}
    for name, value in environment.items():
        # Builds before spring 2026 called some of them without the ARG.
        option = option_of_variable(name) or option_of_variable(name.replace("LLAMA_", PREFIX, 1))
        is_known = name in BY_VARIABLE if option is None else option.is_harmless
        if (is_known or not (option or name.startswith(PREFIX))) and not is_secret(name):
            is_path = name in _PATHS or (option is not None and option.is_file)
            found[name] = _absolute(value) if is_path else value
    return found


def _absolute(value: str) -> str:
    paths = value.split(os.pathsep)
    return os.pathsep.join(os.path.abspath(path) if path else "" for path in paths)  # noqa: PTH100 - links stay


def tuning_variables(environment: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Those of a command's variables that processes of spectui's own get."""
    return {name: value for name, value in environment if name in _TUNING}


def unmeasured(words: Sequence[str]) -> tuple[str, ...]:
    """The options among ``words`` that a measurement leaves out, unchanged.

    What no table of options has is among them, without its value.

    Raises:
        BadInputError: an option lacks its value.
    """
    return tuple(dict.fromkeys(_left_out(words)))


def beyond_engine(words: Sequence[str]) -> tuple[str, ...]:
    """Those of ``unmeasured`` that place a model or change it, which a llama-server applies.

    Raises:
        BadInputError: an option lacks its value.
    """
    placed = (item for item in divide(words) if _counts(item) and _long(item) in _APPLIED)
    return tuple(dict.fromkeys(item.text for item in placed))


def _long(item: Item) -> str:
    return "" if item.server is None else item.server.long_flag


def _left_out(words: Sequence[str]) -> Iterator[str]:
    for item in divide(words):
        if item.server is None:
            if item.option is None:
                yield item.flag
        elif (item.is_speculative and _long(item) not in IGNORED) or _counts(item):
            yield item.text


def _counts(item: Item) -> bool:
    option = item.server
    if option is None:
        return False
    name, value = option.long_flag, item.values[0] if item.values else ""
    if name in _NEUTRAL:
        return not _is(value, _NEUTRAL[name])
    is_negated = item.spelling in option.negations
    if name in _SWITCHED_OFF:
        return is_negated
    return (name in _NAMED and not is_negated) or option.taken.keys() == {Dialect.IK}


def _is(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False
