"""Tiny models of architectures other than llama's, of which some draft for themselves.

What a token is followed by depends mostly on the token itself: with MTP layers, every block adds
little to its embedding. The MTP layer looks at the token, and a little at the hidden state before
it, so that it often says the same. One that echoes looks at the hidden state alone and adds
nothing: it says what the target said a token earlier. Gemma 4's are wider than their target, so
that all of what it makes of a token goes through them.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path

import gguf
import numpy as np

from tests.support.models import (
    N_EMBD,
    Tiny,
    Weights,
    vocabulary,
    weights_of,
    write_architecture,
    write_file,
)

_BLOCK_SHARE = 0.5
"""Of what a block adds."""
_STATE_SHARE = 0.3
"""Of the hidden state, beside the token, in what the MTP layer reads."""
_SHARPNESS = 3
"""Of the choice of a token, so that probabilities spread out and few are close to a floor."""
_TIED_SCALE = 0.1
"""Of embeddings that are the output matrix, too: if they were any larger, what they add up to
would always be most like the last token, and the model would say that for ever."""
_WIDTH = 96
"""Of Gemma 4's MTP layers."""
_ENDS_OF_BLOCKS = ("attn_output", "ffn_down", "ffn_down_exps", "ffn_down_shexp", "ssm_out")
_TRUNKS = {
    "qwen35": ["recurrent", "attention"],
    "glm4moe": ["dense", "dense"],
    "mimo2": ["dense", "dense"],
}


class Part(Enum):
    """Layers that a file has, as the converter of llama.cpp writes it."""

    WHOLE = "whole"
    TRUNK = "trunk"
    """All but the MTP layers (``--no-mtp``)."""
    MTP = "mtp"
    """MTP layers alone, with embeddings and output (``--mtp``)."""


def _write_mtp(
    arch: str,
    recipe: Tiny,
    path: Path,
    *,
    n_mtp: int = 1,
    echoes: bool = False,
    part: Part = Part.WHOLE,
) -> None:
    n_mtp *= part is not Part.TRUNK
    layers = [*_TRUNKS[arch], *["mtp"] * n_mtp]
    slides = [False] + [True] * (len(layers) - 1)
    write_architecture(
        arch,
        recipe,
        path,
        layers=layers,
        first=len(_TRUNKS[arch]) if part is Part.MTP else 0,
        changed={"nextn_predict_layers": n_mtp or None}
        | ({"attention.sliding_window_pattern": slides} if arch == "mimo2" else {}),
        weights=partial(_weights_of_mtp, n_trunk=len(_TRUNKS[arch]), echoes=echoes),
    )


def _weights_of_mtp(
    recipe: Tiny, name: str, shape: tuple[int, ...], *, n_trunk: int, echoes: bool
) -> Weights:
    weights = weights_of(recipe, name, shape)
    part = name.split(".", 2)[-1].removesuffix(".weight")
    if name == "output.weight":
        return weights * np.float32(_SHARPNESS)
    if part in _ENDS_OF_BLOCKS:
        is_silent = echoes and int(name.split(".")[1]) >= n_trunk
        return weights * np.float32(0.0 if is_silent else _BLOCK_SHARE)
    if part == "nextn.eh_proj":
        same = np.eye(N_EMBD, dtype=np.float32)
        state = weights[:, N_EMBD:] * np.float32(_STATE_SHARE)
        return np.concatenate([0 * same, same] if echoes else [same, state], axis=1)
    return weights


WriteMtp = Callable[..., None]
write_qwen35: WriteMtp = partial(_write_mtp, "qwen35")
"""A hybrid: a recurrent layer, one of attention, and the MTP layer."""
write_glm4moe: WriteMtp = partial(_write_mtp, "glm4moe")
"""Two dense layers of attention, and an MTP layer with experts."""
write_mimo2: WriteMtp = partial(_write_mtp, "mimo2", n_mtp=3)
"""Two layers, one with a sliding window, and several MTP layers that draft in turn."""
WRITERS: dict[str, WriteMtp] = {
    "qwen35": write_qwen35,
    "glm4moe": write_glm4moe,
    "mimo2": write_mimo2,
}


def write_pair(arch: str, folder: Path) -> tuple[Path, Path]:
    """Write a target without MTP layers, and their file."""
    folder.mkdir(exist_ok=True)
    target, draft = folder / "target.gguf", folder / f"mtp-{arch}.gguf"
    if arch == "gemma4":
        write_architecture("gemma4", Tiny(), target, weights=_weights_of_gemma)
        write_architecture("gemma4-assistant", Tiny(), draft, weights=_weights_of_gemma)
    else:
        WRITERS[arch](Tiny(), target, part=Part.TRUNK)
        WRITERS[arch](Tiny(), draft, part=Part.MTP)
    return target, draft


def _weights_of_gemma(recipe: Tiny, name: str, shape: tuple[int, ...]) -> Weights:
    widened = np.eye(_WIDTH, N_EMBD, dtype=np.float32)
    match name.removesuffix(".weight"):
        case "output":
            return weights_of(recipe, name, shape) * np.float32(_SHARPNESS)
        case "nextn.pre_projection":
            return np.concatenate([widened, weights_of(recipe, "state", widened.shape)], axis=1)
        case "nextn.post_projection":
            return np.ascontiguousarray(widened.T)
        case "token_embd" if shape[1] == _WIDTH:
            target = (len(vocabulary(recipe)), N_EMBD)
            return _weights_of_gemma(recipe, "output.weight", target) @ widened.T
        case bare if bare.endswith(("scale", "freqs")):
            return np.ones(shape, np.float32)
    return weights_of(recipe, name, shape)


def write_special_draft(arch: str, path: Path, tensor: str) -> None:
    """Write as much of a draft that is no model of its own as tells its kind."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(1)
    writer.add_tensor(tensor, np.ones(4, np.float32))
    write_file(writer)


write_eagle3 = partial(write_architecture, "eagle3")
"""An EAGLE-3 draft for the target of the same recipe: enough for llama-server to draft."""
write_mamba = partial(write_architecture, "mamba")
"""A recurrent model, of which llama.cpp keeps no snapshots."""


def write_lfm2(recipe: Tiny, path: Path, window: int = 0) -> None:
    """Write a hybrid of two short convolutions and one layer of attention.

    Llama.cpp keeps snapshots of its state where it is asked to. With a ``window`` its attention
    slides.
    """
    changed = {"attention.sliding_window": window or None}
    write_architecture("lfm2", recipe, path, changed=changed)


def write_cohere2(recipe: Tiny, path: Path) -> None:
    """Write a model of which every other layer looks back over 32 tokens only."""

    def weights(recipe: Tiny, name: str, shape: tuple[int, ...]) -> Weights:
        found = weights_of(recipe, name, shape)
        return found * np.float32(_TIED_SCALE) if name == "token_embd.weight" else found

    write_architecture("cohere2", recipe, path, weights=weights)
