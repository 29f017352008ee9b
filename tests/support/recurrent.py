"""Tiny models whose state cannot simply forget a suffix: recurrent ones and hybrids."""

from pathlib import Path

from tests.support.layers import (
    FEED_FORWARD,
    HEAD_DIM,
    N_EMBD,
    N_HEADS_KV,
    Shapes,
    attention,
    begin,
    of_layers,
)
from tests.support.models import Tiny, vocabulary, write_weights

_KERNEL = 4


def write_mamba(recipe: Tiny, path: Path) -> None:
    """Write a recurrent model, of which llama.cpp keeps no snapshots."""
    inner, state, rank = 2 * N_EMBD, 16, 4
    writer = begin("mamba", path, n_layers=1, n_ff=0, n_heads=0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(_KERNEL)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    block: Shapes = {
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
    writer = begin("lfm2", path, n_layers=len(heads_kv))
    writer.add_head_count_kv(heads_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_shortconv_l_cache(_KERNEL)
    if window:
        writer.add_sliding_window(window)
    blocks = [
        {**_BEHIND, **(_attention(n_heads_kv) if n_heads_kv else _CONVOLUTION)}
        for n_heads_kv in heads_kv
    ]
    write_weights(writer, recipe, {"token_embd_norm.weight": (N_EMBD,), **of_layers(*blocks)})


_BEHIND: Shapes = {"attn_norm": (N_EMBD,), "ffn_norm": (N_EMBD,), **FEED_FORWARD}
_CONVOLUTION: Shapes = {
    "shortconv.conv": (N_EMBD, _KERNEL),
    "shortconv.in_proj": (3 * N_EMBD, N_EMBD),
    "shortconv.out_proj": (N_EMBD, N_EMBD),
}


def _attention(n_heads_kv: int) -> Shapes:
    norms: Shapes = {"attn_q_norm": (HEAD_DIM,), "attn_k_norm": (HEAD_DIM,)}
    return {**attention(n_heads_kv=n_heads_kv), **norms}
