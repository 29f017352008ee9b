"""Tiny targets with a layer for multi-token prediction, which agrees with them now and then.

What a token is followed by depends mostly on the token itself: every block adds little to its
embedding. The MTP layer looks at the token, and a little at the hidden state before it, so that it
often says the same. One that echoes looks at the hidden state alone and adds nothing: it says what
the target said a token earlier.
"""

from collections.abc import Callable
from enum import Enum
from pathlib import Path

import gguf
import numpy as np

from tests.support.layers import (
    FEED_FORWARD,
    HEAD_DIM,
    N_EMBD,
    N_FF,
    N_HEADS,
    N_HEADS_KV,
    Shapes,
    attention,
    begin,
)
from tests.support.models import Tiny, Weights, add_tokenizer, vocabulary, weights_of, write_file

WriteMtp = Callable[..., None]


class Part(Enum):
    """Layers that a file has, as the converter of llama.cpp writes it."""

    WHOLE = "whole"
    TRUNK = "trunk"
    """All but the MTP layers (``--no-mtp``)."""
    MTP = "mtp"
    """MTP layers alone, with embeddings and output (``--mtp``)."""


_N_TRUNK = 2
_KERNEL = 4
_STATE = 32
_N_STATES = 2
_WINDOW = 32
_BLOCK_SHARE = 0.5
"""Of what a block adds."""
_STATE_SHARE = 0.3
"""Of the hidden state, beside the token, in what the MTP layer reads."""
_SHARPNESS = 3
"""Of the choice of a token, so that probabilities spread out and few are close to a floor."""
_ENDS_OF_BLOCKS = ("attn_output", "ffn_down", "ffn_down_exps", "ffn_down_shexp", "ssm_out")


def write_qwen35(
    recipe: Tiny, path: Path, *, n_mtp: int = 1, echoes: bool = False, part: Part = Part.WHOLE
) -> None:
    """Write a hybrid: a recurrent layer, one of attention, and the MTP layer."""
    n_mtp *= part is not Part.TRUNK
    writer = _begin("qwen35", path, n_mtp)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_full_attention_interval(2)
    writer.add_ssm_conv_kernel(_KERNEL)
    writer.add_ssm_inner_size(_STATE * _N_STATES)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_N_STATES)
    writer.add_ssm_group_count(1)
    gated = {
        **_NORMS,
        **attention(n_queries=2 * N_HEADS),
        "attn_q_norm": (HEAD_DIM,),
        "attn_k_norm": (HEAD_DIM,),
    }
    blocks = [{**_NORMS, **_RECURRENT, **FEED_FORWARD}, {**gated, **FEED_FORWARD}]
    mtp = {**gated, **FEED_FORWARD, **_MTP}
    _finish(writer, recipe, [*blocks, *([mtp] * n_mtp)], echoes=echoes, part=part)


def write_glm4moe(
    recipe: Tiny, path: Path, *, echoes: bool = False, part: Part = Part.WHOLE
) -> None:
    """Write two dense layers of attention, and an MTP layer with experts."""
    n_mtp = int(part is not Part.TRUNK)
    writer = _begin("glm4moe", path, n_mtp)
    writer.add_leading_dense_block_count(_N_TRUNK)
    writer.add_expert_count(2)
    writer.add_expert_used_count(1)
    writer.add_expert_shared_count(1)
    writer.add_expert_feed_forward_length(N_FF)
    writer.add_expert_weights_scale(1.0)
    block = {**_NORMS, **attention(), **FEED_FORWARD}
    mtp = {**_NORMS, **attention(), **_EXPERTS, **_MTP}
    blocks = [*([block] * _N_TRUNK), *([mtp] * n_mtp)]
    _finish(writer, recipe, blocks, echoes=echoes, part=part)


def write_mimo2(
    recipe: Tiny, path: Path, *, n_mtp: int = 3, echoes: bool = False, part: Part = Part.WHOLE
) -> None:
    """Write two layers, one with a sliding window, and several MTP layers that draft in turn."""
    n_mtp *= part is not Part.TRUNK
    writer = _begin("mimo2", path, n_mtp)
    writer.add_expert_feed_forward_length(N_FF)
    writer.add_sliding_window(_WINDOW)
    writer.add_sliding_window_pattern([False, True] + [True] * n_mtp)
    norms: Shapes = {"attn_norm": (N_EMBD,), "ffn_norm": (N_EMBD,)}
    block: Shapes = {
        **norms,
        "attn_qkv": ((N_HEADS + 2 * N_HEADS_KV) * HEAD_DIM, N_EMBD),
        "attn_output": (N_EMBD, N_HEADS * HEAD_DIM),
        **FEED_FORWARD,
    }
    blocks = [block] * _N_TRUNK + [{**block, **_MTP}] * n_mtp
    _finish(writer, recipe, blocks, echoes=echoes, part=part)


def write_special_draft(arch: str, path: Path, tensor: str) -> None:
    """Write as much of a draft that is no model of its own as tells its kind."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(1)
    writer.add_tensor(tensor, np.ones(4, np.float32))
    write_file(writer)


_NORMS: Shapes = {"attn_norm": (N_EMBD,), "post_attention_norm": (N_EMBD,)}
_RECURRENT: Shapes = {
    "attn_qkv": (_STATE * (2 + _N_STATES), N_EMBD),
    "attn_gate": (_STATE * _N_STATES, N_EMBD),
    "ssm_conv1d": (_STATE * (2 + _N_STATES), _KERNEL),
    "ssm_dt.bias": (_N_STATES,),
    "ssm_a": (_N_STATES,),
    "ssm_beta": (_N_STATES, N_EMBD),
    "ssm_alpha": (_N_STATES, N_EMBD),
    "ssm_norm": (_STATE,),
    "ssm_out": (N_EMBD, _STATE * _N_STATES),
}
_EXPERTS: Shapes = {
    "ffn_gate_inp": (2, N_EMBD),
    "exp_probs_b.bias": (2,),
    **{f"{name}_exps": (2, *shape) for name, shape in FEED_FORWARD.items()},
    **{f"{name}_shexp": shape for name, shape in FEED_FORWARD.items()},
}
_MTP: Shapes = {
    "nextn.eh_proj": (N_EMBD, 2 * N_EMBD),
    "nextn.enorm": (N_EMBD,),
    "nextn.hnorm": (N_EMBD,),
}


def _begin(arch: str, path: Path, n_mtp: int) -> gguf.GGUFWriter:
    writer = begin(arch, path, n_layers=_N_TRUNK + n_mtp)
    if n_mtp:
        writer.add_nextn_predict_layers(n_mtp)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(HEAD_DIM // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    return writer


def _finish(
    writer: gguf.GGUFWriter, recipe: Tiny, blocks: list[Shapes], *, echoes: bool, part: Part
) -> None:
    add_tokenizer(writer, recipe)
    n_vocab = len(vocabulary(recipe))
    shapes: Shapes = {
        "token_embd.weight": (n_vocab, N_EMBD),
        "output_norm.weight": (N_EMBD,),
        "output.weight": (n_vocab, N_EMBD),
    }
    first = _N_TRUNK if part is Part.MTP else 0
    for layer, block in enumerate(blocks[first:], start=first):
        shapes |= {_name(layer, tensor): shape for tensor, shape in block.items()}
    for name, shape in shapes.items():
        writer.add_tensor(name, _weights(recipe, name, shape, echoes=echoes))
    write_file(writer)


def _name(layer: int, part: str) -> str:
    bare = part.endswith((".bias", "ssm_a"))
    return f"blk.{layer}.{part}" if bare else f"blk.{layer}.{part}.weight"


def _weights(recipe: Tiny, name: str, shape: tuple[int, ...], *, echoes: bool) -> Weights:
    weights = weights_of(recipe, name, shape)
    part = name.split(".", 2)[-1].removesuffix(".weight")
    if name == "output.weight":
        return weights * np.float32(_SHARPNESS)
    if part in _ENDS_OF_BLOCKS:
        is_silent = echoes and int(name.split(".")[1]) >= _N_TRUNK
        return weights * np.float32(0.0 if is_silent else _BLOCK_SHARE)
    if part == "nextn.eh_proj":
        same = np.eye(N_EMBD, dtype=np.float32)
        state = weights[:, N_EMBD:] * np.float32(_STATE_SHARE)
        return np.concatenate([0 * same, same] if echoes else [same, state], axis=1)
    return weights


WRITERS: dict[str, WriteMtp] = {
    "qwen35": write_qwen35,
    "glm4moe": write_glm4moe,
    "mimo2": write_mimo2,
}
