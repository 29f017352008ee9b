"""Kinds of draft files, told by headers before llama.cpp loads them and perhaps aborts."""

from pathlib import Path

from spectui.errors import BadInputError
from spectui.models.header import GgufFile
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND

_EAGLE3, _DFLASH, _DSPARK = HIDDEN_STATE_KINDS
_NAMES = {
    _EAGLE3: "an EAGLE-3 draft",
    _DFLASH: "a DFlash draft",
    _DSPARK: "a DSpark draft",
    MTP_KIND: "a file of MTP layers alone",
}
"""Names by the kind in ``--spec-type``."""

_MTP_ARCHITECTURES = frozenset(
    {
        "bailingmoe3",
        "cohere2moe",
        "deepseek2",
        "deepseek32",
        "deepseek4",
        "glm-dsa",
        "glm4moe",
        "hy_v3",
        "mimo2",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "qwen3next",
        "step35",
    }
)
"""Those with a graph for ``LLM_GRAPH_TYPE_DECODER_MTP``; of others llama.cpp would run the trunk's
without its cache."""
_SEVERAL = frozenset({"hy_v3", "mimo2", "step35"})
"""Those of which llama.cpp runs more than one MTP layer."""


def check_mtp(path: Path, gguf: GgufFile) -> None:
    """Refuse a target that cannot draft for itself.

    Raises:
        BadInputError: it has no MTP layers, or none that this engine can run.
    """
    arch, n_layers = gguf.arch, gguf.mtp_layers
    if n_layers == 0:
        reason = f"is a {arch} without MTP layers; give a draft with -md instead"
    elif arch not in _MTP_ARCHITECTURES:
        reason = f"has MTP layers, which llama.cpp does not run for {arch}; give a draft with -md"
    elif not any(".nextn." in tensor.name for tensor in gguf.tensors):
        reason = "was made without its MTP layers; get a file that has them, or give a draft"
    elif n_layers > 1 and arch not in _SEVERAL:
        reason = f"has {n_layers} MTP layers, and llama.cpp runs one for {arch}; give a draft"
    else:
        return
    raise BadInputError(f"{path} cannot draft for itself: it {reason}")


def check_is_model(path: Path, gguf: GgufFile) -> None:
    """Refuse a draft that only drafts from inside its target.

    Raises:
        BadInputError: it is one.
    """
    kind = kind_of_draft(gguf)
    if kind is not None:
        raise BadInputError(
            f"{path} is {_NAMES[kind]}, which llama-server can run (--spec-type {kind}) and "
            "spectui's in-process engine cannot; bench and tune measure it through yours with "
            "--backend server, or give a draft that is a model of its own"
        )


def check_is_target(path: Path, gguf: GgufFile) -> None:
    """Refuse a target that lacks what only the model that it drafts for has.

    Raises:
        BadInputError: it does.
    """
    kind = kind_of_draft(gguf)
    if kind is not None:
        raise BadInputError(
            f"{path} is {_NAMES[kind]}, which cannot generate without the model that it drafts "
            "for; give that model with -m"
        )


def reader_kind(gguf: GgufFile) -> str | None:
    """Return which of ``HIDDEN_STATE_KINDS`` a draft is; None for another file."""
    kind = kind_of_draft(gguf)
    return kind if kind in HIDDEN_STATE_KINDS else None


def kind_of_draft(gguf: GgufFile) -> str | None:
    """Return ``--spec-type``'s name of a draft that is no model of its own; None for another.

    As ``common_speculative_types_from_gguf``, which asks for EAGLE-3 to be named.
    """
    arch = gguf.arch
    names = {tensor.name for tensor in gguf.tensors}
    if arch == "eagle3":
        return _EAGLE3
    if arch == "dflash":
        return _DSPARK if "markov_w1.weight" in names else _DFLASH
    # It asks for the first layer's attn_norm, which EXAONE 4 has not, with all of its layers.
    has_trunk = any(name.startswith("blk.0.") for name in names)
    has_mtp = any(".nextn." in name for name in names)
    return MTP_KIND if arch == "gemma4-assistant" or (has_mtp and not has_trunk) else None
