"""A tiny EAGLE-3 draft of random weights for a tiny target: enough for llama-server to draft."""

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

_READ_LAYERS = (0, 1, 1)
"""Of the target, whose inputs it reads: llama.cpp asks for three."""


def write_eagle3(recipe: Tiny, path: Path) -> None:
    """Write it for the target of the same recipe."""
    writer = begin("eagle3", path, name="Tiny EAGLE-3", n_layers=1)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_array("eagle3.target_layers", list(_READ_LAYERS))
    writer.add_uint32("eagle3.target_hidden_size", N_EMBD)
    block = {
        "attn_norm": (N_EMBD,),
        "attn_norm_2": (N_EMBD,),
        **attention(n_embd=2 * N_EMBD),
        "ffn_norm": (N_EMBD,),
        **FEED_FORWARD,
    }
    shapes: Shapes = {
        "fc.weight": (N_EMBD, len(_READ_LAYERS) * N_EMBD),
        "output_norm.weight": (N_EMBD,),
        **of_layers(block),
    }
    write_weights(writer, recipe, shapes)
