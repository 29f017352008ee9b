"""Facts of a model, from its header or once it is loaded: numbers, kind of draft, sampling."""

import math
from dataclasses import dataclass
from pathlib import Path

from spectui.documents import Json, or_reason
from spectui.errors import BadInputError
from spectui.models.gguf import file_size, read_gguf
from spectui.models.header import GgufFile
from spectui.models.weights import mtp_traffic, weight_traffic
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND
from spectui.options.option import INT_MAX
from spectui.options.setup import ModelOptions
from spectui.paths import text_of

_EMPTY = GgufFile(metadata={}, array_lengths={}, tensors=())
_BYTES_PER_CACHE_ELEMENT = 2
"""Bytes of an element of an f16 cache."""
_UNEQUAL_LAYERS = (
    *("ssm.state_size", "shortconv.l_cache", "wkv.head_size", "kda.head_dim"),
    *("full_attention_interval", "attention.sliding_window", "attention.kv_lora_rank"),
    "attention.shared_kv_layers",
)
"""Keys of models with recurrent layers, with attention that slides, with a compressed cache, and
with layers that share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model in numbers. Of a loaded one they are llama.cpp's; else what its header says."""

    path: Path
    arch: str
    name: str
    n_params: int
    """0 for a file without weights, as ``size_bytes``."""
    size_bytes: int
    """Bytes of the tensors, equal to ``llama_model_size``."""
    file_bytes: int
    """Bytes of the files, headers included."""
    n_layers: int
    n_ctx_train: int
    n_vocab: int
    n_experts: int
    """Per layer, 0 for a model without."""
    mtp_layers: int = 0
    """Layers for multi-token prediction that its file says it has."""
    draft_kind: str | None = None
    """``--spec-type``'s name of a draft that is no model of its own; None for a model."""
    kv_bytes_per_token: int | None
    """Bytes of an f16 cache per token. None where no one number holds: layers differ, or have no
    attention."""
    read_bytes_per_token: int | None
    """Weights that decoding one token reads: of the experts those that it is routed to. None for a
    file without weights."""
    quantization: str = ""
    """Type of most weights as llama-quantize names it, such as ``Q4_K_M``; "" where not known."""
    has_chat_template: bool = False
    overridden: tuple[str, ...] = ()
    """Metadata that ``--override-kv`` has changed, as ``KEY=TYPE:VALUE``."""

    @property
    def alteration(self) -> str | None:
        """Sentence on how the overrides alter the output; None for the model as it is."""
        if not self.overridden:
            return None
        return (
            f"{self.path.name} runs with {', '.join(self.overridden)}: its output is not that of "
            "the model as it is"
        )

    def document(self, *, rollback: str | None, n_ctx: int) -> Json:
        """A model, loaded or planned.

        ``size_bytes`` is the size of its tensors in every case: by the header, by
        ``llama_model_size`` of a loaded model, and by a llama-server.
        """
        return {
            "path": str(self.path),
            "arch": self.arch,
            "name": self.name,
            "n_params": self.n_params,
            "size_bytes": self.size_bytes,
            "override_kv": list(self.overridden),
            **or_reason("rollback", rollback, "llama-server does not tell"),
            "n_ctx": n_ctx,
        }


def facts_of(path: Path, gguf: GgufFile, file_bytes: int | None = None) -> ModelFacts:
    """Gather what the header of a model says.

    Args:
        path: the model, on this machine or on a hub.
        gguf: its header.
        file_bytes: bytes of its files; None to look at them.
    """
    return ModelFacts(
        path=path,
        arch=gguf.arch,
        name=gguf.text("general.name") or path.stem,
        n_params=sum(tensor.n_elements for tensor in gguf.tensors),
        size_bytes=gguf.weights_bytes,
        file_bytes=file_size(path) if file_bytes is None else file_bytes,
        n_layers=gguf.number("block_count"),
        n_ctx_train=gguf.number("context_length"),
        n_vocab=gguf.array_lengths.get("tokenizer.ggml.tokens") or gguf.number("vocab_size"),
        n_experts=gguf.number("expert_count"),
        mtp_layers=gguf.mtp_layers,
        draft_kind=kind_of_draft(gguf),
        kv_bytes_per_token=_kv_bytes_per_token(gguf),
        read_bytes_per_token=_read_bytes_per_token(path, gguf),
        has_chat_template=bool(gguf.text("tokenizer.chat_template")),
    )


def _has_unequal_layers(gguf: GgufFile) -> bool:
    """Whether caches differ between layers, or do not grow with every token."""
    # Where layers differ in heads or windows, a list has a value for each of them.
    own = f"{gguf.arch}.attention."
    has_lists = any(key.startswith(own) for key in gguf.array_lengths)
    return has_lists or any(map(gguf.number, _UNEQUAL_LAYERS))


def _kv_bytes_per_token(gguf: GgufFile) -> int | None:
    """Bytes of an f16 cache per token; None where layers differ or a number is missing."""
    # Layers of multi-token prediction have no cache unless they draft.
    n_layers = gguf.number("block_count") - gguf.mtp_layers
    n_heads, n_embd = gguf.number("attention.head_count"), gguf.number("embedding_length")
    n_heads_kv = gguf.number("attention.head_count_kv", n_heads)
    has_numbers = n_layers > 0 and n_heads and n_heads_kv and n_embd
    if _has_unequal_layers(gguf) or not has_numbers:
        return None
    key = gguf.number("attention.key_length") or n_embd // n_heads
    value = gguf.number("attention.value_length") or n_embd // n_heads
    return n_layers * n_heads_kv * (key + value) * _BYTES_PER_CACHE_ELEMENT


def _read_bytes_per_token(path: Path, gguf: GgufFile) -> int | None:
    """Bytes read per token; computed with all weights in RAM, since their place does not matter."""
    traffic_of = mtp_traffic if kind_of_draft(gguf) == MTP_KIND else weight_traffic
    traffic = traffic_of(gguf, ModelOptions(path=path), gpu_devices=False)
    n_bytes = round(traffic.cpu_bytes_per_decode(1))
    return n_bytes if n_bytes > 0 else None


_EAGLE3, _DFLASH, _DSPARK = HIDDEN_STATE_KINDS
_NAMES = {
    _EAGLE3: "an EAGLE-3 draft",
    _DFLASH: "a DFlash draft",
    _DSPARK: "a DSpark draft",
    MTP_KIND: "a file of MTP layers alone",
}
"""Names by the kind in ``--spec-type``."""

_MTP_OF = {"gemma4-assistant": "gemma4"}
"""Architectures that consist of MTP layers alone, with that of the target, whose cache they use."""


def shares_cache(arch: str) -> bool:
    """Whether MTP layers of this architecture attend to the target's cache, without an own one."""
    return arch in _MTP_OF


def check_mtp(path: Path, gguf: GgufFile, target: GgufFile) -> None:
    """Refuse a file, or a target itself, whose MTP layers cannot draft for the target.

    Raises:
        BadInputError: it has none, or they are another model's.
    """
    wanted, own, needed = _MTP_OF.get(gguf.arch, gguf.arch), _width(gguf), _width(target)
    reason = None if has_mtp_layers(gguf) else _without_mtp(gguf)
    if reason is None and target.arch != wanted:
        reason = f"has MTP layers of a {wanted}, and the target is a {target.arch}"
    if reason is None and own != needed:
        reason = f"reads hidden states of {own} numbers, and the target has {needed}"
    if reason is not None:
        raise BadInputError(f"{path} cannot draft with MTP layers: it {reason}; give another draft")


def has_mtp_layers(gguf: GgufFile) -> bool:
    """Whether a file has MTP layers that can draft for some target."""
    return shares_cache(gguf.arch) or _without_mtp(gguf) is None


def _without_mtp(gguf: GgufFile) -> str | None:
    """Reason why a file's MTP layers cannot draft; None if they can."""
    if gguf.mtp_layers == 0:
        return f"is a {gguf.arch} without MTP layers"
    if not any(".nextn." in tensor.name for tensor in gguf.tensors):
        return "was made without its MTP layers, which other files of it may have"
    return None


def _width(gguf: GgufFile) -> int:
    """Width of the hidden states that a model outputs."""
    return gguf.number("embedding_length_out") or gguf.number("embedding_length")


def check_is_model(path: Path, gguf: GgufFile) -> None:
    """Refuse a draft that only drafts from inside its target.

    Raises:
        BadInputError: it is one.
    """
    kind = kind_of_draft(gguf)
    if kind is not None:
        raise BadInputError(
            f"{path} is {_NAMES[kind]}, which drafts with --spec-type {kind}, not as a model of "
            "its own; bench and tune measure it through your llama-server with --backend server"
        )


def check_is_target(path: Path, gguf: GgufFile) -> None:
    """Refuse a draft file as the target: it needs the model that it drafts for.

    Raises:
        BadInputError: it is such a file.
    """
    kind = kind_of_draft(gguf)
    if kind is not None:
        raise BadInputError(
            f"{path} is {_NAMES[kind]}, which cannot generate without the model that it drafts "
            "for; give that model with -m"
        )


def kind_of_file(path: Path) -> str:
    """The kind that a draft's file drafts as; a model where its header cannot be read."""
    try:
        return kind_of_draft(read_gguf(path)) or MODEL_KIND
    except BadInputError:
        return MODEL_KIND


def is_mtp_file(path: Path) -> bool:
    """Whether a file has MTP layers alone."""
    return kind_of_file(path) == MTP_KIND


def kind_of_draft(gguf: GgufFile) -> str | None:
    """Return ``--spec-type``'s name of a draft that is no model of its own; None for another.

    As ``common_speculative_types_from_gguf``, which asks for EAGLE-3 to be named.
    """
    arch = gguf.arch
    if arch == "eagle3":
        return _EAGLE3
    names = [tensor.name for tensor in gguf.tensors]
    if arch == "dflash":
        return _DSPARK if "markov_w1.weight" in names else _DFLASH
    # It asks for the first layer's attn_norm, which EXAONE 4 has not, with all of its layers.
    has_trunk = any(name.startswith("blk.0.") for name in names)
    has_mtp = any(".nextn." in name for name in names)
    return MTP_KIND if shares_cache(arch) or (has_mtp and not has_trunk) else None


def model_sampling(path: Path) -> dict[str, float]:
    """Fields of ``SamplingConfig`` that the model's file has, within the options' ranges.

    A file that cannot be read has none: it is refused where it is loaded.
    """
    header = _header_or_empty(path)
    top_k = _sampling_number(header, "top_k")
    found = {
        "temp": _within(_sampling_number(header, "temp"), math.inf),
        "top_k": None if top_k is None else int(min(max(top_k, 0), INT_MAX)),
        "top_p": _within(_sampling_number(header, "top_p"), 1.0),
        "min_p": _within(_sampling_number(header, "min_p"), 1.0),
    }
    return {name: value for name, value in found.items() if value is not None}


def repeat_penalty(path: Path) -> float | None:
    """The repeat penalty that the file asks for, which no measurement applies; None for none."""
    penalty = _sampling_number(_header_or_empty(path), "penalty_repeat")
    return None if penalty == 1 else penalty


def unmeasured_sentences(path: Path) -> tuple[str, ...]:
    """A sentence on what the file asks for and no measurement applies; none where there is none."""
    penalty = repeat_penalty(path)
    if penalty is None:
        return ()
    name = text_of(path.name)
    return (f"{name} asks for a repeat penalty of {penalty:g}, which is not measured",)


def _header_or_empty(path: Path) -> GgufFile:
    try:
        # The file of a running server may be unknown.
        return read_gguf(path) if path.name else _EMPTY
    except BadInputError:
        return _EMPTY


def _sampling_number(header: GgufFile, name: str) -> float | None:
    """A number, also one that is written as a text; None where it cannot be sampled with.

    It has six decimals, as the text that ``gguf_kv_to_str`` makes of it.
    """
    value = header.metadata.get(f"general.sampling.{name}", "")
    try:
        number = math.nan if isinstance(value, bool) else round(float(value), 6)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _within(value: float | None, high: float) -> float | None:
    """The number in the range of 0 to ``high``, beyond which nothing changes."""
    return None if value is None else min(max(value, 0.0), high)
