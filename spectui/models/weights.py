"""Computes the bytes of weights that a decode reads, by the memory that holds them.

Tensors are placed as llama.cpp places them, in ``load_tensors`` of ``llama-model.cpp`` and in
``create_tensor`` of ``llama-model-loader.cpp``.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from spectui.models.header import GgufFile
from spectui.options.reading import tensor_pattern
from spectui.options.setup import EXPERTS, ModelOptions

_EXPERTS = re.compile(r"_(?:ch)?exps\.")
"""Weights of routed experts; a shared expert (``_shexp``) is read for every token."""
_LAYER = re.compile(r"blk\.(\d+)\.")
_EMBEDDING = "token_embd.weight"
_OUTPUT = "output.weight"
_OWN_EMBEDDING, _OWN_HEAD = ".nextn.embed_tokens.weight", ".nextn.shared_head_head.weight"
"""Tensors of an MTP layer that does not use the model's."""
_PROJECTIONS = "nextn."
"""Beginning of the tensors between a target and MTP layers of another width."""
_LOOKED_UP = frozenset(
    {_EMBEDDING, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"}
)
"""Tables of which a token reads one row."""

_Place = tuple[bool, bool]
"""Whether a tensor is in RAM, and whether it holds experts."""


EXPERTS_FFN = rf"\.{EXPERTS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTraffic:
    """Weights that decoding reads, in bytes, by the memory that holds them.

    A decode reads every dense weight once, and of the experts those that its tokens are routed to.
    """

    cpu_dense_bytes: int
    cpu_expert_bytes: int
    """All experts of all layers, used or not; as ``gpu_expert_bytes``."""
    gpu_dense_bytes: int
    gpu_expert_bytes: int
    n_experts: int
    """Per layer, 0 for a model without."""
    n_experts_used: int
    """Per layer and token."""

    @property
    def cpu_bytes(self) -> int:
        """All weights in RAM that decoding may read."""
        return self.cpu_dense_bytes + self.cpu_expert_bytes

    def cpu_bytes_per_decode(self, n_tokens: int) -> float:
        """Bytes that a decode of ``n_tokens`` reads from RAM."""
        return self.cpu_dense_bytes + self._expert_share(n_tokens) * self.cpu_expert_bytes

    def gpu_bytes_per_decode(self, n_tokens: int) -> float:
        """Bytes that a decode of ``n_tokens`` reads from the GPUs' memory."""
        return self.gpu_dense_bytes + self._expert_share(n_tokens) * self.gpu_expert_bytes

    def _expert_share(self, n_tokens: int) -> float:
        """Expected share of the experts that at least one of ``n_tokens`` is routed to.

        As if routing were uniform and independent: 1 - (1 - used/all)^n. Real neighbouring tokens
        share experts, so that this is an upper estimate for n > 1.
        """
        if self.n_experts == 0:
            return 0.0
        return 1 - (1 - self.n_experts_used / self.n_experts) ** n_tokens


def weight_traffic(gguf: GgufFile, options: ModelOptions, *, gpu_devices: bool) -> WeightTraffic:
    """Compute the weights that decoding reads from RAM and from the GPUs.

    Args:
        gguf: the model's file.
        options: placement of its parts.
        gpu_devices: whether this llama.cpp has a GPU to offload to.
    """
    head, is_mtp = _head(gguf), _mtp_test(gguf)

    def reads(name: str) -> bool:
        # MTP layers are not loaded, or read by decodes of their own.
        return name == head or not (name in _LOOKED_UP or is_mtp(name))

    return _traffic(gguf, options, _sizes(gguf, options, reads, gpu_devices=gpu_devices))


def shifted_traffic(
    gguf: GgufFile, options: ModelOptions, *, gpu_devices: bool
) -> dict[int, WeightTraffic]:
    """Find the traffic with the experts of one layer more and of one fewer in RAM.

    Keys are values of ``--n-cpu-moe``; what would move nothing is left out.
    """
    n_now = gguf.number("block_count") if options.cpu_moe else options.n_cpu_moe
    traffic = partial(weight_traffic, gguf, gpu_devices=gpu_devices)
    now = traffic(options)
    near = [n for n in (n_now - 1, n_now + 1) if n >= 0]
    found = {n: traffic(replace(options, cpu_moe=False, n_cpu_moe=n)) for n in near}
    return {n: one for n, one in found.items() if one != now}


def mtp_traffic(gguf: GgufFile, options: ModelOptions, *, gpu_devices: bool) -> WeightTraffic:
    """Compute the weights that a decode of MTP layers reads; of several that take turns, one.

    Args:
        gguf: the file that has them: the target's, or one of their own.
        options: placement of its parts.
        gpu_devices: whether this llama.cpp has a GPU to offload to.
    """
    has_head = any(name.endswith(_OWN_HEAD) for name in _names(gguf))
    head = None if has_head else _head(gguf)
    is_mtp = _mtp_test(gguf)

    def is_of_layer(name: str) -> bool:
        is_read = is_mtp(name) or name.startswith(_PROJECTIONS)
        return is_read and not name.endswith(_OWN_EMBEDDING)

    sizes = partial(_sizes, gguf, options, gpu_devices=gpu_devices)
    own = sizes(is_of_layer)
    # Where there is no other layer, one decode runs all of them.
    n_turns = 1 if gguf.mtp_layers == gguf.number("block_count") else max(1, gguf.mtp_layers)
    each = Counter({place: n_bytes // n_turns for place, n_bytes in own.items()})
    return _traffic(gguf, options, each + sizes(lambda name: name == head))


class ExpertLayer(NamedTuple):
    """Routed experts of one layer."""

    size_bytes: int
    """Bytes of one expert."""
    in_ram: bool
    """Whether all of them lie in RAM."""


def expert_layers(
    gguf: GgufFile, options: ModelOptions, *, gpu_devices: bool
) -> dict[int, ExpertLayer]:
    """Find the experts of each layer that has some; arguments as those of ``weight_traffic``."""
    n_layers, is_mtp = gguf.number("block_count"), _mtp_test(gguf)
    in_ram = _ram_test(options, n_layers, gpu_devices=gpu_devices)
    sizes: Counter[int] = Counter()
    elsewhere: set[int] = set()
    for tensor in gguf.tensors:
        layer = _layer(tensor.name, n_layers)
        if _EXPERTS.search(tensor.name) and not is_mtp(tensor.name):
            sizes[layer] += tensor.size_bytes
            if not in_ram(tensor.name, layer):
                elsewhere.add(layer)
    n_experts = gguf.number("expert_count")
    return {
        layer: ExpertLayer(size_bytes=size // n_experts, in_ram=layer not in elsewhere)
        for layer, size in sizes.items()
        if n_experts
    }


def _layer(name: str, n_layers: int) -> int:
    """Layer of a tensor; the output counts as the one after the last."""
    match = _LAYER.match(name)
    return int(match[1]) if match else n_layers


def _mtp_test(gguf: GgufFile) -> Callable[[str], bool]:
    """Return a function of a tensor's name: whether it belongs to the MTP layers at the end."""
    n_layers = gguf.number("block_count")
    first = n_layers - gguf.mtp_layers
    return lambda name: first <= _layer(name, n_layers) < n_layers


def _names(gguf: GgufFile) -> Iterator[str]:
    return (tensor.name for tensor in gguf.tensors)


def _head(gguf: GgufFile) -> str:
    """Name of the tensor that gives logits: the embeddings where there is no output tensor."""
    return _OUTPUT if _OUTPUT in _names(gguf) else _EMBEDDING


def _sizes(
    gguf: GgufFile,
    options: ModelOptions,
    reads: Callable[[str], bool],
    *,
    gpu_devices: bool,
) -> Counter[_Place]:
    """Bytes of what a decode ``reads``, by tensors' names."""
    n_layers = gguf.number("block_count")
    in_ram = _ram_test(options, n_layers, gpu_devices=gpu_devices)
    sizes: Counter[_Place] = Counter()
    for tensor in gguf.tensors:
        if reads(tensor.name):
            has_experts = _EXPERTS.search(tensor.name) is not None
            place = in_ram(tensor.name, _layer(tensor.name, n_layers)), has_experts
            sizes[place] += tensor.size_bytes
    return sizes


def _traffic(gguf: GgufFile, options: ModelOptions, sizes: Counter[_Place]) -> WeightTraffic:
    n_experts = gguf.number("expert_count")
    return WeightTraffic(
        cpu_dense_bytes=sizes[True, False],
        cpu_expert_bytes=sizes[True, True],
        gpu_dense_bytes=sizes[False, False],
        gpu_expert_bytes=sizes[False, True],
        n_experts=n_experts,
        # Where the number differs between layers, all of them are an upper estimate.
        n_experts_used=_n_experts_used(gguf, options) or n_experts,
    )


def _n_experts_used(gguf: GgufFile, options: ModelOptions) -> int:
    """Experts per token in the file, or those that ``--override-kv`` sets."""
    key = "expert_used_count"
    given = [one.value for one in options.override_kv if one.key == f"{gguf.arch}.{key}"]
    return given[0] if given and isinstance(given[0], int) else gguf.number(key)


def _ram_test(
    options: ModelOptions, n_layers: int, *, gpu_devices: bool
) -> Callable[[str, int], bool]:
    """Return a function of a tensor's name and layer: whether the tensor is in RAM."""
    n_offloaded = options.n_gpu_layers if options.n_gpu_layers >= 0 else n_layers + 1
    # The output goes to the GPU first, then the layers from the last one on.
    first_on_gpu = n_layers + 1 - n_offloaded if gpu_devices else n_layers + 1
    patterns: list[tuple[re.Pattern[str], bool]] = []
    for pattern, buffer in overrides(options):
        # llama.cpp has compiled it as ECMAScript; what cannot be searched is left out.
        compiled = tensor_pattern(pattern)
        if compiled is not None:
            patterns.append((compiled, buffer.startswith("CPU")))

    def in_ram(name: str, layer: int) -> bool:
        for pattern, is_cpu in patterns:
            if pattern.search(name):
                return is_cpu
        return layer < first_on_gpu

    return in_ram


def overrides(options: ModelOptions) -> list[tuple[str, str]]:
    """Pairs of (tensor name pattern, buffer type name), first match wins.

    ``-ot`` comes first, then ``--cpu-moe`` and ``--n-cpu-moe`` as llama.cpp expands them.
    """
    pairs = [(override.pattern, override.buffer) for override in options.override_tensor]
    if options.cpu_moe:
        pairs.append((EXPERTS_FFN, "CPU"))
    pairs += [(rf"blk\.{layer}{EXPERTS_FFN}", "CPU") for layer in range(options.n_cpu_moe)]
    return pairs
