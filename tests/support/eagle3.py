"""A tiny EAGLE-3 draft of random weights for a tiny target: enough for llama-server to draft."""

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

_READ_LAYERS = (0, 1, 1)
"""Of the target, whose inputs it reads: llama.cpp asks for three."""


def write_eagle3(recipe: Tiny, path: Path) -> None:
    """Write it for the target of the same recipe."""
    writer = gguf.GGUFWriter(path, "eagle3")
    writer.add_name("Tiny EAGLE-3")
    writer.add_block_count(1)
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_array("eagle3.target_layers", list(_READ_LAYERS))
    writer.add_uint32("eagle3.target_hidden_size", N_EMBD)
    block = {
        "attn_norm": (N_EMBD,),
        "attn_norm_2": (N_EMBD,),
        "attn_q": (N_HEADS * HEAD_DIM, 2 * N_EMBD),
        "attn_k": (N_HEADS_KV * HEAD_DIM, 2 * N_EMBD),
        "attn_v": (N_HEADS_KV * HEAD_DIM, 2 * N_EMBD),
        "attn_output": (N_EMBD, N_HEADS * HEAD_DIM),
        "ffn_norm": (N_EMBD,),
        "ffn_gate": (N_FF, N_EMBD),
        "ffn_up": (N_FF, N_EMBD),
        "ffn_down": (N_EMBD, N_FF),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (N_EMBD, len(_READ_LAYERS) * N_EMBD),
        "output_norm.weight": (N_EMBD,),
        **{f"blk.0.{name}.weight": shape for name, shape in block.items()},
    }
    write_weights(writer, recipe, shapes)
