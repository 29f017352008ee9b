"""What a model's header tells of it: neither a weight nor a vocabulary is loaded."""

import re
from dataclasses import dataclass
from pathlib import Path

from spectui.config import ModelOptions
from spectui.errors import BadInputError
from spectui.llama.architectures import check_generates
from spectui.models.gguf import GgufFile, file_size, read_gguf
from spectui.models.ranking import ModelFacts, ModelInspected
from spectui.models.weights import weight_traffic

_SIZE_LABEL = re.compile(
    r"(?:(?P<n>[0-9]{1,4})x)?(?P<size>[0-9]{1,4}(?:\.[0-9]{1,4})?)(?P<unit>[KMBT])(?:-.*)?"
)
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_BYTES_PER_CACHE_ELEMENT = 2
"""Of an f16 cache."""
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


def inspect_header(path: Path) -> ModelInspected:
    """Say what a model's file tells, and whether it can continue a text."""
    facts = reason = None
    try:
        gguf = read_gguf(path)
        facts = facts_of(path, gguf)
        check_generates(path, gguf)
    except BadInputError as error:
        reason = str(error)
    return ModelInspected(target=path, path=path, facts=facts, reason=reason)


def facts_of(path: Path, gguf: GgufFile) -> ModelFacts:
    """Gather what the header of the model at ``path`` says."""
    about = _About(gguf)
    return ModelFacts(
        path=path,
        arch=about.arch,
        name=about.text("general.name") or path.stem,
        n_params=_n_params(about.text("general.size_label")),
        size_bytes=file_size(path),
        n_layers=about.number("block_count"),
        n_ctx_train=about.number("context_length"),
        n_vocab=gguf.array_lengths.get("tokenizer.ggml.tokens") or about.number("vocab_size"),
        kv_bytes_per_token=_kv_bytes_per_token(about),
        n_experts=about.number("expert_count"),
        read_bytes_per_token=_read_bytes_per_token(path, gguf),
    )


@dataclass(frozen=True, slots=True)
class _About:
    """A header, as it is asked here."""

    gguf: GgufFile

    @property
    def arch(self) -> str:
        return self.text("general.architecture") or "unknown"

    def text(self, key: str) -> str:
        """A text, empty where the model lacks the key."""
        value = self.gguf.metadata.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        """A number of the model's own metadata, 0 where it has something else there."""
        value = self.gguf.metadata.get(f"{self.arch}.{key}", default)
        return value if isinstance(value, int) and value > 0 else 0

    @property
    def has_unequal_layers(self) -> bool:
        """Whether caches differ between layers, or do not grow with every token."""
        # Where layers differ in heads or windows, a list has a value for each of them.
        own = f"{self.arch}.attention."
        has_lists = any(key.startswith(own) for key in self.gguf.array_lengths)
        return has_lists or any(map(self.number, _UNEQUAL_LAYERS))


def _n_params(label: str) -> int | None:
    """From the size label, such as 135M or 30B-A3B: without weights nothing can be counted."""
    match = _SIZE_LABEL.fullmatch(label)
    if match is None:
        return None
    return round(int(match["n"] or 1) * float(match["size"]) * _UNITS[match["unit"]])


def _kv_bytes_per_token(about: _About) -> int | None:
    """Of an f16 cache; None where one number does not tell."""
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
