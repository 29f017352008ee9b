"""Tiny models of dense layers whose attention slides."""

from pathlib import Path

from tests.support.layers import (
    FEED_FORWARD,
    HEAD_DIM,
    N_EMBD,
    N_HEADS_KV,
    attention,
    begin,
    of_layers,
)
from tests.support.models import TIED_SCALE, Tiny, vocabulary, write_weights


def write_cohere2(recipe: Tiny, path: Path, window: int = 32) -> None:
    """Write a model of which every other layer looks back over ``window`` tokens only."""
    slides = [True, False, True, False]
    writer = begin("cohere2", path, n_layers=len(slides))
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    writer.add_logit_scale(1 / TIED_SCALE)
    writer.add_sliding_window(window)
    writer.add_sliding_window_pattern(slides)
    block = {"attn_norm": (N_EMBD,), **attention(), **FEED_FORWARD}
    shapes = {"output_norm.weight": (N_EMBD,), **of_layers(*[block] * len(slides))}
    write_weights(writer, recipe, shapes, is_tied=True)
