"""A tiny target with a sliding window, and MTP layers that look at its cache, in a file of their
own.

The layers are wider than the target, so that all of what it makes of a token goes through them:
mostly they say the same, as what either adds to the token is small.
"""

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
    of_layers,
)
from tests.support.models import Tiny, Weights, add_tokenizer, vocabulary, weights_of, write_file
from tests.support.mtp import WRITERS, Part

_SLIDES = [True, False]
_WINDOW = 32
_WIDTH = 96
"""Of the MTP layers."""
_SHARPNESS = 3
_NORMS = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")


def write_gemma4(recipe: Tiny, path: Path) -> None:
    """Write the target: a layer with a window, and one without."""
    writer = _begin("gemma4", path)
    writer.add_embedding_length_per_layer_input(0)
    block: Shapes = {
        **dict.fromkeys(_NORMS, (N_EMBD,)),
        **attention(),
        "attn_q_norm": (HEAD_DIM,),
        "attn_k_norm": (HEAD_DIM,),
        **FEED_FORWARD,
    }
    writer.add_tensor("token_embd.weight", _embeddings(recipe))
    writer.add_tensor("output.weight", _output(recipe))
    _finish(writer, recipe, N_EMBD, of_layers(*[block] * len(_SLIDES)))


def write_gemma4_mtp(recipe: Tiny, path: Path) -> None:
    """Write the MTP layers, as many as the target has layers."""
    writer = _begin("gemma4-assistant", path, width=_WIDTH)
    writer.add_embedding_length_out(N_EMBD)
    writer.add_nextn_predict_layers(len(_SLIDES))
    block: Shapes = {
        **dict.fromkeys(_NORMS, (_WIDTH,)),
        "attn_q": (N_HEADS * HEAD_DIM, _WIDTH),
        "attn_output": (_WIDTH, N_HEADS * HEAD_DIM),
        "attn_q_norm": (HEAD_DIM,),
        "layer_output_scale": (1,),
        "ffn_gate": (N_FF, _WIDTH),
        "ffn_up": (N_FF, _WIDTH),
        "ffn_down": (_WIDTH, N_FF),
    }
    widened = np.eye(_WIDTH, N_EMBD, dtype=np.float32)
    state = weights_of(recipe, "state", (_WIDTH, N_EMBD))
    before = np.concatenate([widened, state], axis=1)
    writer.add_tensor("nextn.pre_projection.weight", before)
    writer.add_tensor("nextn.post_projection.weight", np.ascontiguousarray(widened.T))
    writer.add_tensor("token_embd.weight", _output(recipe) @ widened.T)
    _finish(writer, recipe, _WIDTH, of_layers(*[block] * len(_SLIDES)))


def write_pair(arch: str, folder: Path) -> tuple[Path, Path]:
    """Write a target without MTP layers, and their file."""
    folder.mkdir(exist_ok=True)
    target, draft = folder / "target.gguf", folder / f"mtp-{arch}.gguf"
    if arch == "gemma4":
        write_gemma4(Tiny(), target)
        write_gemma4_mtp(Tiny(), draft)
    else:
        WRITERS[arch](Tiny(), target, part=Part.TRUNK)
        WRITERS[arch](Tiny(), draft, part=Part.MTP)
    return target, draft


def _begin(arch: str, path: Path, *, width: int = N_EMBD) -> gguf.GGUFWriter:
    writer = begin(arch, path, n_layers=len(_SLIDES), n_embd=width)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_key_length_swa(HEAD_DIM)
    writer.add_value_length_swa(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_sliding_window(_WINDOW)
    writer.add_sliding_window_pattern(_SLIDES)
    return writer


def _embeddings(recipe: Tiny) -> Weights:
    shape = (len(vocabulary(recipe)), N_EMBD)
    return weights_of(recipe, "token_embd.weight", shape)


def _output(recipe: Tiny) -> Weights:
    shape = (len(vocabulary(recipe)), N_EMBD)
    return weights_of(recipe, "output.weight", shape) * np.float32(_SHARPNESS)


def _finish(writer: gguf.GGUFWriter, recipe: Tiny, width: int, shapes: Shapes) -> None:
    add_tokenizer(writer, recipe)
    shapes = {"output_norm.weight": (width,), "rope_freqs.weight": (HEAD_DIM // 2,), **shapes}
    for name, shape in shapes.items():
        is_plain = name.endswith(("norm.weight", "scale.weight", "freqs.weight"))
        ones = np.ones(shape, np.float32)
        writer.add_tensor(name, ones if is_plain else weights_of(recipe, name, shape))
    write_file(writer)
