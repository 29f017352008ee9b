"""Facts of a model: from its header alone, or once it is loaded."""

from dataclasses import dataclass
from pathlib import Path

from spectui.models.gguf import file_size
from spectui.models.header import GgufFile
from spectui.models.weights import weight_traffic
from spectui.options.setup import ModelOptions

_BYTES_PER_CACHE_ELEMENT = 2
"""Bytes of an element of an f16 cache."""
_UNEQUAL_LAYERS = (
    "ssm.state_size",
    "shortconv.l_cache",
    "wkv.head_size",
    "kda.head_dim",
    "full_attention_interval",
    "attention.sliding_window",
    "attention.kv_lora_rank",
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
    kv_bytes_per_token: int | None
    """Bytes of an f16 cache per token. None where no one number holds: layers differ, or have no
    attention."""
    read_bytes_per_token: int | None
    """Weights that decoding one token reads: of the experts those that it is routed to. None for a
    file without weights."""
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


def facts_of(path: Path, gguf: GgufFile) -> ModelFacts:
    """Gather what the header of the model at ``path`` says."""
    return ModelFacts(
        path=path,
        arch=gguf.arch,
        name=gguf.text("general.name") or path.stem,
        n_params=sum(tensor.n_elements for tensor in gguf.tensors),
        size_bytes=gguf.weights_bytes,
        file_bytes=file_size(path),
        n_layers=gguf.number("block_count"),
        n_ctx_train=gguf.number("context_length"),
        n_vocab=gguf.array_lengths.get("tokenizer.ggml.tokens") or gguf.number("vocab_size"),
        n_experts=gguf.number("expert_count"),
        mtp_layers=gguf.mtp_layers,
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
    if _has_unequal_layers(gguf) or n_layers <= 0 or not (n_heads and n_heads_kv and n_embd):
        return None
    key = gguf.number("attention.key_length") or n_embd // n_heads
    value = gguf.number("attention.value_length") or n_embd // n_heads
    return n_layers * n_heads_kv * (key + value) * _BYTES_PER_CACHE_ELEMENT


def _read_bytes_per_token(path: Path, gguf: GgufFile) -> int | None:
    """All in RAM: where the weights lie does not matter to how many are read."""
    traffic = weight_traffic(gguf, ModelOptions(path=path), gpu_devices=False)
    n_bytes = round(traffic.cpu_bytes_per_decode(1))
    return n_bytes if n_bytes > 0 else None
