"""Facts of a model: from its header alone, or once it is loaded."""

from dataclasses import dataclass
from pathlib import Path

from spectui.models.draft_files import n_mtp_layers
from spectui.models.gguf import GgufFile, file_size
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
    about = _About(gguf)
    return ModelFacts(
        path=path,
        arch=about.arch,
        name=about.text("general.name") or path.stem,
        n_params=sum(tensor.n_elements for tensor in gguf.tensors),
        size_bytes=gguf.weights_bytes,
        file_bytes=file_size(path),
        n_layers=about.number("block_count"),
        n_ctx_train=about.number("context_length"),
        n_vocab=gguf.array_lengths.get("tokenizer.ggml.tokens") or about.number("vocab_size"),
        n_experts=about.number("expert_count"),
        mtp_layers=n_mtp_layers(gguf),
        kv_bytes_per_token=_kv_bytes_per_token(about),
        read_bytes_per_token=_read_bytes_per_token(path, gguf),
        has_chat_template=bool(about.text("tokenizer.chat_template")),
    )


@dataclass(frozen=True, slots=True)
class _About:
    """A header, as it is asked here."""

    gguf: GgufFile

    @property
    def arch(self) -> str:
        return self.text("general.architecture") or "unknown"

    def text(self, key: str) -> str:
        """Text of a key, empty where the model lacks it."""
        value = self.gguf.metadata.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        """Number of a key of the model's own metadata, 0 where it has something else there."""
        value = self.gguf.metadata.get(f"{self.arch}.{key}", default)
        return value if isinstance(value, int) and value > 0 else 0

    @property
    def has_unequal_layers(self) -> bool:
        """Whether caches differ between layers, or do not grow with every token."""
        # Where layers differ in heads or windows, a list has a value for each of them.
        own = f"{self.arch}.attention."
        has_lists = any(key.startswith(own) for key in self.gguf.array_lengths)
        return has_lists or any(map(self.number, _UNEQUAL_LAYERS))


def _kv_bytes_per_token(about: _About) -> int | None:
    """Bytes of an f16 cache per token; None where layers differ or a number is missing."""
    # Layers of multi-token prediction have no cache unless they draft.
    n_layers = about.number("block_count") - about.number("nextn_predict_layers")
    n_heads, n_embd = about.number("attention.head_count"), about.number("embedding_length")
    n_heads_kv = about.number("attention.head_count_kv", n_heads)
    if about.has_unequal_layers or n_layers <= 0 or not (n_heads and n_heads_kv and n_embd):
        return None
    key = about.number("attention.key_length") or n_embd // n_heads
    value = about.number("attention.value_length") or n_embd // n_heads
    return n_layers * n_heads_kv * (key + value) * _BYTES_PER_CACHE_ELEMENT


def _read_bytes_per_token(path: Path, gguf: GgufFile) -> int | None:
    """All in RAM: where the weights lie does not matter to how many are read."""
    traffic = weight_traffic(gguf, ModelOptions(path=path), gpu_devices=False)
    n_bytes = round(traffic.cpu_bytes_per_decode(1))
    return n_bytes if n_bytes > 0 else None
