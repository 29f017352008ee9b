"""Tiny models whose state cannot simply forget a suffix: recurrent ones and hybrids."""

from pathlib import Path

import gguf

from tests.support.models import (
    HEAD_DIM,
    N_CTX_TRAIN,
    N_EMBD,
    N_FF,
    N_HEADS,
    N_HEADS_KV,
    Tiny,
    vocabulary,
    write_weights,
)

_KERNEL = 4


def write_mamba(recipe: Tiny, path: Path) -> None:
    """Write a recurrent model, of which llama.cpp keeps no snapshots."""
    inner, state, rank = 2 * N_EMBD, 16, 4
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_block_count(1)
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(_KERNEL)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    block: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (N_EMBD,),
        "ssm_in.weight": (2 * inner, N_EMBD),
        "ssm_conv1d.weight": (inner, _KERNEL),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (rank + 2 * state, inner),
        "ssm_dt.weight": (inner, rank),
        "ssm_dt.bias": (inner,),
        "ssm_a": (inner, state),
        "ssm_d": (inner,),
        "ssm_out.weight": (N_EMBD, inner),
    }
    shapes = {f"blk.0.{name}": shape for name, shape in block.items()}
    write_weights(writer, recipe, {"output_norm.weight": (N_EMBD,), **shapes})


def write_lfm2(recipe: Tiny, path: Path, window: int = 0) -> None:
    """Write a hybrid of two short convolutions and one layer of attention.

    Llama.cpp keeps snapshots of its state where it is asked to. With a ``window`` its attention
    slides.
    """
    heads_kv = [0, N_HEADS_KV, 0]
    writer = gguf.GGUFWriter(path, "lfm2")
    writer.add_block_count(len(heads_kv))
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(heads_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_shortconv_l_cache(_KERNEL)
    if window:
        writer.add_sliding_window(window)
    shapes: dict[str, tuple[int, ...]] = {"token_embd_norm.weight": (N_EMBD,)}
    for layer, n_heads_kv in enumerate(heads_kv):
        block = {**_FEED_FORWARD, **(_attention(n_heads_kv) if n_heads_kv else _CONVOLUTION)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    write_weights(writer, recipe, shapes)


_FEED_FORWARD: dict[str, tuple[int, ...]] = {
    "attn_norm": (N_EMBD,),
    "ffn_norm": (N_EMBD,),
    "ffn_gate": (N_FF, N_EMBD),
    "ffn_up": (N_FF, N_EMBD),
    "ffn_down": (N_EMBD, N_FF),
}
_CONVOLUTION: dict[str, tuple[int, ...]] = {
    "shortconv.conv": (N_EMBD, _KERNEL),
    "shortconv.in_proj": (3 * N_EMBD, N_EMBD),
    "shortconv.out_proj": (N_EMBD, N_EMBD),
}


def _attention(n_heads_kv: int) -> dict[str, tuple[int, ...]]:
    return {
        "attn_q": (N_HEADS * HEAD_DIM, N_EMBD),
        "attn_k": (n_heads_kv * HEAD_DIM, N_EMBD),
        "attn_v": (n_heads_kv * HEAD_DIM, N_EMBD),
        "attn_output": (N_EMBD, N_HEADS * HEAD_DIM),
        "attn_q_norm": (HEAD_DIM,),
        "attn_k_norm": (HEAD_DIM,),
    }
