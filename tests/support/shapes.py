"""Headers of real, large models: every key and tensor that llama.cpp wants, and no weights.

The files are as long as the real ones and take no room: they are holes behind their headers.
Shapes are those of the models' published configurations.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.support.models import Tiny, vocabulary

Quant = gguf.GGMLQuantizationType
_PARTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "shapes.json").read_bytes()
)
"""Shapes; and keys, and the tensors of parts, by the names of their numbers."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Gated delta nets, which all layers but every fourth are made of."""

    n_heads_k: int
    n_heads_v: int
    head_dim: int
    kernel: int

    @property
    def inner(self) -> int:
        return self.n_heads_v * self.head_dim

    @property
    def conv_dim(self) -> int:
        return 2 * self.n_heads_k * self.head_dim + self.inner


@dataclass(frozen=True, kw_only=True)
class Shape:
    arch: str
    n_layers: int
    n_embd: int
    n_heads: int
    n_heads_kv: int
    head_dim: int
    n_ff: int
    n_ctx_train: int
    quant: Quant
    n_vocab: int = 151_936
    n_merges: int = 151_387
    n_experts: int = 0
    n_experts_used: int = 0
    n_ff_expert: int = 0
    n_ff_shared: int = 0
    is_tied: bool = False
    n_rot: int | None = None
    linear: Linear | None = None

    @property
    def n_attention_layers(self) -> int:
        return sum(self.has_attention(layer) for layer in range(self.n_layers))

    def has_attention(self, layer: int) -> bool:
        return self.linear is None or (layer + 1) % 4 == 0


def _shape(arch: str) -> Shape:
    fields = {**_PARTS["shapes"][arch]}
    quant, linear = getattr(Quant, fields.pop("quant")), fields.pop("linear", None)
    linear = None if linear is None else Linear(**linear)
    return Shape(arch=arch, quant=quant, linear=linear, **fields)


QWEN3_NEXT_80B_A3B = _shape("qwen3next")
QWEN3_30B_A3B = _shape("qwen3moe")
QWEN3_0_6B = _shape("qwen3")


def write_header(shape: Shape, path: Path) -> int:
    """Write the file; return the bytes of all its tensors."""
    writer, numbers = gguf.GGUFWriter(path, shape.arch), _numbers(shape)
    writer.add_name(f"A header of {shape.arch}")
    writer.add_layer_norm_rms_eps(1e-6)
    for key, name in _PARTS["keys"].items():
        if numbers.get(name):
            writer.add_uint32(f"{shape.arch}.{key}", numbers[name])
    _add_tokenizer(writer, shape)
    total = 0
    for name, dims in tensors(shape):
        quant = shape.quant if len(dims) > 1 and "conv1d" not in name else Quant.F32
        n_bytes = math.prod(gguf.quant_shape_to_byte_shape(dims, quant))
        writer.add_tensor_info(name, dims, np.dtype(np.float32), n_bytes, raw_dtype=quant)
        total += n_bytes
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    # Padding between header and tensors and after each of them: a hole may as well be longer.
    padding = writer.data_alignment * (len(writer.tensors[0]) + 1)
    os.truncate(path, path.stat().st_size + total + padding)
    return total


def _numbers(shape: Shape) -> dict[str, int]:
    n_out = shape.n_heads * shape.head_dim
    # Beside a delta net the queries carry a gate.
    n_q = n_out if shape.linear is None else 2 * n_out
    found = {**asdict(shape), "n_q": n_q, "n_out": n_out, "n_kv": shape.n_heads_kv * shape.head_dim}
    if (linear := shape.linear) is not None:
        inner = {"inner": linear.inner, "conv_dim": linear.conv_dim, "n_ba": 2 * linear.n_heads_v}
        heads = {"n_heads_k": linear.n_heads_k, "n_heads_v": linear.n_heads_v}
        found |= {**inner, **heads, "state_dim": linear.head_dim, "kernel": linear.kernel}
    return found


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    numbers = _numbers(shape)
    norm = "ffn_norm.weight" if shape.linear is None else "post_attention_norm.weight"
    parts = ["experts" if shape.n_experts else "dense", *["shared"] * bool(shape.n_ff_shared)]
    ends = _PARTS["ends"] | ({} if shape.is_tied else _PARTS["output"])
    found: dict[str, list[str]] = dict(ends)
    for layer in range(shape.n_layers):
        mixer = "attention" if shape.has_attention(layer) else "linear"
        found[f"blk.{layer}.{norm}"] = ["n_embd"]
        for part in (mixer, *parts):
            found |= {f"blk.{layer}.{name}": dims for name, dims in _PARTS[part].items()}
    for name, dims in found.items():
        yield name, tuple(numbers[one] for one in dims)


def _add_tokenizer(writer: gguf.GGUFWriter, shape: Shape) -> None:
    """As many words as the real vocabulary, of the same length on average."""
    tokens = vocabulary(Tiny())
    tokens += [f"word{index}" for index in range(len(tokens), shape.n_vocab)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokens))
    writer.add_token_merges([f"word {index}" for index in range(shape.n_merges)])
    writer.add_eos_token_id(2)
