"""Which weights a decode reads, and from which memory.

Tensors are placed as llama.cpp places them, in ``load_tensors`` of ``llama-model.cpp`` and in
``create_tensor`` of ``llama-model-loader.cpp``.
"""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from spectui.config import ModelOptions
from spectui.llama.gguf_file import GgufFile
from spectui.llama.memory import WeightTraffic
from spectui.llama.placement import overrides

_EXPERTS = re.compile(r"_(?:ch)?exps\.")
"""Weights of routed experts; a shared expert (``_shexp``) is read for every token."""
_LAYER = re.compile(r"blk\.(\d+)\.")
_EMBEDDING = "token_embd.weight"
_LOOKED_UP = frozenset(
    {_EMBEDDING, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"}
)
"""Tables of which a token reads one row."""

_Place = tuple[bool, bool]
"""Whether a tensor is in RAM, and whether it holds experts."""


def weight_traffic(gguf: GgufFile, options: ModelOptions, *, gpu_devices: bool) -> WeightTraffic:
    """Find out what decoding reads from RAM and from the GPUs.

    Args:
        gguf: the model's file.
        options: where its parts go.
        gpu_devices: whether this llama.cpp has a GPU to offload to.
    """
    arch = gguf.metadata.get("general.architecture", "")
    n_layers = _count(gguf, f"{arch}.block_count")
    # MTP layers are not loaded, and cost nothing.
    n_read = n_layers - _count(gguf, f"{arch}.nextn_predict_layers")
    in_ram = _placement(options, n_layers, gpu_devices=gpu_devices)
    sizes: Counter[_Place] = Counter()
    is_tied = all(tensor.name != "output.weight" for tensor in gguf.tensors)
    for tensor in gguf.tensors:
        is_output = is_tied and tensor.name == _EMBEDDING
        if tensor.name in _LOOKED_UP and not is_output:
            continue
        layer = _layer(tensor.name, n_layers)
        if n_read <= layer < n_layers:
            continue
        place = in_ram(tensor.name, layer), _EXPERTS.search(tensor.name) is not None
        sizes[place] += tensor.size_bytes
    n_experts = _count(gguf, f"{arch}.expert_count")
    return WeightTraffic(
        cpu_dense_bytes=sizes[True, False],
        cpu_expert_bytes=sizes[True, True],
        gpu_dense_bytes=sizes[False, False],
        gpu_expert_bytes=sizes[False, True],
        n_experts=n_experts,
        # Where the number differs between layers, all of them are an upper estimate.
        n_experts_used=_used(gguf, options, f"{arch}.expert_used_count") or n_experts,
    )


def _used(gguf: GgufFile, options: ModelOptions, key: str) -> int:
    """As the file says, or as ``--override-kv`` says it is."""
    given = [one.value for one in options.override_kv if one.key == key]
    return given[0] if given and isinstance(given[0], int) else _count(gguf, key)


def _count(gguf: GgufFile, key: str) -> int:
    value = gguf.metadata.get(key, 0)
    return value if isinstance(value, int) else 0


def _layer(name: str, n_layers: int) -> int:
    """Layer of a tensor; the output counts as the one after the last."""
    match = _LAYER.match(name)
    return int(match[1]) if match else n_layers


def _placement(
    options: ModelOptions, n_layers: int, *, gpu_devices: bool
) -> Callable[[str, int], bool]:
    """Return what says of a tensor's name and layer whether it is in RAM."""
    n_offloaded = options.n_gpu_layers if options.n_gpu_layers >= 0 else n_layers + 1
    # The output goes to the GPU first, then the layers from the last one on.
    first_on_gpu = n_layers + 1 - n_offloaded if gpu_devices else n_layers + 1
    patterns: list[tuple[re.Pattern[str], bool]] = []
    for pattern, buffer in overrides(options):
        # llama.cpp has compiled it as ECMAScript; what Python cannot read is left out.
        with suppress(re.error):
            patterns.append((re.compile(pattern), buffer.startswith("CPU")))

    def in_ram(name: str, layer: int) -> bool:
        for pattern, is_cpu in patterns:
            if pattern.search(name):
                return is_cpu
        return layer < first_on_gpu

    return in_ram
