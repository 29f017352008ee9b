"""Tiny models of dense layers whose attention slides."""

from pathlib import Path

import gguf

from tests.support.models import (
    HEAD_DIM,
    N_CTX_TRAIN,
    N_EMBD,
    N_FF,
    N_HEADS,
    N_HEADS_KV,
    TIED_SCALE,
    Tiny,
    vocabulary,
    write_weights,
)


def write_cohere2(recipe: Tiny, path: Path, window: int = 32) -> None:
    """Write a model of which every other layer looks back over ``window`` tokens only."""
    slides = [True, False, True, False]
    writer = gguf.GGUFWriter(path, "cohere2")
    writer.add_block_count(len(slides))
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_logit_scale(1 / TIED_SCALE)
    writer.add_sliding_window(window)
    writer.add_sliding_window_pattern(slides)
    shapes: dict[str, tuple[int, ...]] = {"output_norm.weight": (N_EMBD,)}
    for layer in range(len(slides)):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in _BLOCK.items()}
    write_weights(writer, recipe, shapes, is_tied=True)


_BLOCK: dict[str, tuple[int, ...]] = {
    "attn_norm": (N_EMBD,),
    "attn_q": (N_HEADS * HEAD_DIM, N_EMBD),
    "attn_k": (N_HEADS_KV * HEAD_DIM, N_EMBD),
    "attn_v": (N_HEADS_KV * HEAD_DIM, N_EMBD),
    "attn_output": (N_EMBD, N_HEADS * HEAD_DIM),
    "ffn_gate": (N_FF, N_EMBD),
    "ffn_up": (N_FF, N_EMBD),
    "ffn_down": (N_EMBD, N_FF),
}
