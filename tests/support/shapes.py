"""Headers of real, large models: every key and tensor that llama.cpp wants, and no weights.

The files are as long as the real ones and take no room: they are holes behind their headers.
Shapes are those of the models' published configurations.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from tests.support.models import Tiny, vocabulary

Quant = gguf.GGMLQuantizationType


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


QWEN3_NEXT_80B_A3B = Shape(
    arch="qwen3next",
    n_layers=48,
    n_embd=2048,
    n_heads=16,
    n_heads_kv=2,
    head_dim=256,
    n_ff=5120,
    n_ctx_train=262_144,
    quant=Quant.Q4_K,
    n_experts=512,
    n_experts_used=10,
    n_ff_expert=512,
    n_ff_shared=512,
    n_rot=64,
    linear=Linear(n_heads_k=16, n_heads_v=32, head_dim=128, kernel=4),
)
QWEN3_30B_A3B = Shape(
    arch="qwen3moe",
    n_layers=48,
    n_embd=2048,
    n_heads=32,
    n_heads_kv=4,
    head_dim=128,
    n_ff=6144,
    n_ctx_train=40_960,
    quant=Quant.Q4_K,
    n_experts=128,
    n_experts_used=8,
    n_ff_expert=768,
)
QWEN3_0_6B = Shape(
    arch="qwen3",
    n_layers=28,
    n_embd=1024,
    n_heads=16,
    n_heads_kv=8,
    head_dim=128,
    n_ff=3072,
    n_ctx_train=40_960,
    quant=Quant.Q8_0,
    is_tied=True,
)

Dims = tuple[int, ...]


def write_header(shape: Shape, path: Path) -> int:
    """Write the file; return the bytes of all its tensors."""
    writer = gguf.GGUFWriter(path, shape.arch)
    _add_metadata(writer, shape)
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


def tensors(shape: Shape) -> Iterator[tuple[str, Dims]]:
    """Yield names and dimensions of all tensors, rows first."""
    yield "token_embd.weight", (shape.n_vocab, shape.n_embd)
    yield "output_norm.weight", (shape.n_embd,)
    if not shape.is_tied:
        yield "output.weight", (shape.n_vocab, shape.n_embd)
    for layer in range(shape.n_layers):
        mixer = _attention(shape) if shape.has_attention(layer) else _delta_net(shape)
        for name, dims in {**mixer, **_feed_forward(shape)}.items():
            yield f"blk.{layer}.{name}", dims


def _attention(shape: Shape) -> dict[str, Dims]:
    n_q, n_kv = shape.n_heads * shape.head_dim, shape.n_heads_kv * shape.head_dim
    # Beside a delta net the queries carry a gate.
    n_q_and_gate = n_q if shape.linear is None else 2 * n_q
    return {
        "attn_norm.weight": (shape.n_embd,),
        "attn_q.weight": (n_q_and_gate, shape.n_embd),
        "attn_k.weight": (n_kv, shape.n_embd),
        "attn_v.weight": (n_kv, shape.n_embd),
        "attn_output.weight": (shape.n_embd, n_q),
        "attn_q_norm.weight": (shape.head_dim,),
        "attn_k_norm.weight": (shape.head_dim,),
    }


def _delta_net(shape: Shape) -> dict[str, Dims]:
    linear = shape.linear
    assert linear is not None
    return {
        "attn_norm.weight": (shape.n_embd,),
        "attn_qkv.weight": (linear.conv_dim, shape.n_embd),
        "attn_gate.weight": (linear.inner, shape.n_embd),
        "ssm_conv1d.weight": (linear.conv_dim, linear.kernel),
        "ssm_dt.bias": (linear.n_heads_v,),
        "ssm_a": (linear.n_heads_v,),
        "ssm_ba.weight": (2 * linear.n_heads_v, shape.n_embd),
        "ssm_norm.weight": (linear.head_dim,),
        "ssm_out.weight": (shape.n_embd, linear.inner),
    }


def _feed_forward(shape: Shape) -> dict[str, Dims]:
    n_embd, n_ff, n_experts = shape.n_embd, shape.n_ff, shape.n_experts
    norm = "ffn_norm.weight" if shape.linear is None else "post_attention_norm.weight"
    if not n_experts:
        return {norm: (n_embd,), **_gated("", n_ff, n_embd)}
    routed = _gated("_exps", shape.n_ff_expert, n_embd)
    parts: dict[str, Dims] = {norm: (n_embd,), "ffn_gate_inp.weight": (n_experts, n_embd)}
    parts |= {name: (n_experts, *dims) for name, dims in routed.items()}
    if shape.n_ff_shared:
        parts["ffn_gate_inp_shexp.weight"] = (n_embd,)
        parts |= _gated("_shexp", shape.n_ff_shared, n_embd)
    return parts


def _gated(kind: str, n_ff: int, n_embd: int) -> dict[str, Dims]:
    return {
        f"ffn_gate{kind}.weight": (n_ff, n_embd),
        f"ffn_up{kind}.weight": (n_ff, n_embd),
        f"ffn_down{kind}.weight": (n_embd, n_ff),
    }


def _add_metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name(f"A header of {shape.arch}")
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(shape.n_ctx_train)
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_heads_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    if shape.n_rot is not None:
        writer.add_rope_dimension_count(shape.n_rot)
    if shape.n_experts:
        writer.add_expert_count(shape.n_experts)
        writer.add_expert_used_count(shape.n_experts_used)
        writer.add_expert_feed_forward_length(shape.n_ff_expert)
    if shape.n_ff_shared:
        writer.add_expert_shared_feed_forward_length(shape.n_ff_shared)
    if shape.linear is not None:
        writer.add_ssm_conv_kernel(shape.linear.kernel)
        writer.add_ssm_inner_size(shape.linear.inner)
        writer.add_ssm_state_size(shape.linear.head_dim)
        writer.add_ssm_time_step_rank(shape.linear.n_heads_v)
        writer.add_ssm_group_count(shape.linear.n_heads_k)


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
