"""What tiny models of all architectures are made of."""

from collections.abc import Mapping
from pathlib import Path

import gguf

Shapes = dict[str, tuple[int, ...]]
"""Of tensors by name, rows first."""

N_LAYERS = 2
N_EMBD = 64
N_FF = 96
N_HEADS = 2
N_HEADS_KV = 1
HEAD_DIM = 32  # quantised KV caches come in blocks of 32
N_CTX_TRAIN = 32_768


def begin(
    arch: str,
    path: Path,
    *,
    n_layers: int,
    name: str | None = None,
    n_ff: int = N_FF,
    n_heads: int = N_HEADS,
    n_embd: int = N_EMBD,
) -> gguf.GGUFWriter:
    """Begin a model with what all architectures say of themselves."""
    writer = gguf.GGUFWriter(path, arch)
    if name is not None:
        writer.add_name(name)
    writer.add_block_count(n_layers)
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(n_ff)
    writer.add_head_count(n_heads)
    return writer


def attention(
    *, n_queries: int = N_HEADS, n_heads_kv: int = N_HEADS_KV, n_embd: int = N_EMBD
) -> Shapes:
    """Matrices of a layer of attention, which reads states of ``n_embd``."""
    return {
        "attn_q": (n_queries * HEAD_DIM, n_embd),
        "attn_k": (n_heads_kv * HEAD_DIM, n_embd),
        "attn_v": (n_heads_kv * HEAD_DIM, n_embd),
        "attn_output": (N_EMBD, N_HEADS * HEAD_DIM),
    }


FEED_FORWARD: Shapes = {
    "ffn_gate": (N_FF, N_EMBD),
    "ffn_up": (N_FF, N_EMBD),
    "ffn_down": (N_EMBD, N_FF),
}
"""Matrices of a dense layer behind the attention."""


def of_layers(*blocks: Mapping[str, tuple[int, ...]]) -> Shapes:
    """Weights of layers, one after the other."""
    return {
        f"blk.{layer}.{name}.weight": shape
        for layer, block in enumerate(blocks)
        for name, shape in block.items()
    }
