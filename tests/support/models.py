"""Tiny random-weight GGUFs, written in milliseconds, and files that are no models at all."""

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]

N_LAYERS, N_EMBD, N_CTX_TRAIN = 2, 64, 32_768
_ARCHITECTURES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "architectures.json").read_bytes()
)
"""Keys, tensors and layers by architecture, rows first: ``V`` stands for the vocabulary's size, and
``E`` for the number of experts."""

END_TOKENS = frozenset({0, 2})
"""``<|endoftext|>`` and ``<|im_end|>``."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_EMBEDDINGS = "token_embd.weight"
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|unk|>")
_MERGES = ("Ġ t", "h e", "Ġt he", "i n", "r e", "o n", "e r", "a t", "Ġ s", "Ġ o", "in g", "l l")


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """One tiny model: equal recipes give equal files."""

    seed: int = 0
    noise: float = 0.0
    """Added to the weights of ``seed``: the larger, the less the model agrees with its original."""

    n_extra: int = 0
    """Tokens beyond the common vocabulary."""
    renamed: tuple[int, str] | None = None
    """A token with another text."""
    add_bos: bool | None = None
    bos: int = 1
    pooling: int | None = None
    """``llama.pooling_type``: 1 (mean) marks an embedding model."""
    n_experts: int = 0
    n_layers: int = N_LAYERS
    chat_template: str | None = CHATML
    tokenizer: str = "gpt2"
    """``tokenizer.ggml.model``: ``gpt2`` is BPE, ``llama`` SPM, ``none`` has no tokens."""
    pre: str = "smollm"
    is_reversed: bool = False
    """The same tokens, those from id 5 on in the opposite order."""
    sampling: tuple[tuple[str, float | str], ...] = ()
    """Keys and values of ``general.sampling``."""


TARGET = Tiny()
CLOSE_DRAFT = Tiny(noise=0.02)
ROUGH_DRAFT = Tiny(noise=0.1)
OTHER = Tiny(seed=7)
MOE = Tiny(n_experts=4)
EMBEDDING = Tiny(pooling=1)

TinyPath = Callable[[Tiny], Path]


def vocabulary(recipe: Tiny) -> list[str]:
    """Return the texts of all tokens in llama.cpp's byte-level spelling."""
    tokens = [*_SPECIAL, *_byte_letters(), *(merge.replace(" ", "") for merge in _MERGES)]
    tokens += [f"<|extra{index}|>" for index in range(recipe.n_extra)]
    if recipe.renamed is not None:
        token, text = recipe.renamed
        tokens[token] = text
    if recipe.is_reversed:
        tokens[5:] = tokens[:4:-1]
    return tokens


def write_tiny(recipe: Tiny, path: Path) -> None:
    experts = {"expert_count": recipe.n_experts, "expert_used_count": 2} if recipe.n_experts else {}
    changed = {"pooling_type": recipe.pooling, **experts}
    layers = ["experts" if recipe.n_experts else "dense"] * recipe.n_layers
    write_architecture("llama", recipe, path, layers=layers, changed=changed)


def weights_of(recipe: Tiny, name: str, shape: tuple[int, ...]) -> Weights:
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    weights = _gaussian(recipe.seed, name, shape)
    if recipe.noise:
        weights = weights + np.float32(recipe.noise) * _gaussian(1, name, shape)
    if name.endswith("ssm_a"):
        # A recurrent state decays: else what rounding moves would grow with every token.
        return -4 * abs(weights) / np.float32(shape[-1] ** 0.5)
    # Embeddings of norm 1 per element; every matrix keeps that norm.
    return weights if name == _EMBEDDINGS else weights / np.float32(shape[-1] ** 0.5)


def write_architecture(
    arch: str,
    recipe: Tiny,
    path: Path,
    *,
    layers: Sequence[str] = (),
    first: int = 0,
    changed: Mapping[str, object] = MappingProxyType({}),
    weights: Callable[[Tiny, str, tuple[int, ...]], Weights] = weights_of,
) -> None:
    """Write a model of an architecture in the table: its layers, or these, from ``first`` on.

    ``changed`` has other values of keys, None for a key that is left out.
    """
    table, layers = _ARCHITECTURES[arch], layers or _ARCHITECTURES[arch]["layers"]
    sizes = {"V": len(vocabulary(recipe)), "E": recipe.n_experts}
    writer = gguf.GGUFWriter(path, arch)
    if arch == "llama":
        writer.add_name(f"Tiny {recipe.seed}")
    for key, value in {**table["keys"], "block_count": len(layers), **changed}.items():
        _add(writer, f"{arch}.{key}", sizes["V"] if value == "V" else value)
    add_sampling(writer, recipe.sampling)
    add_tokenizer(writer, recipe)
    shapes = dict(table["tensors"])
    for layer, kind in list(enumerate(layers))[first:]:
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in table["kinds"][kind].items()}
    for name, shape in shapes.items():
        size = tuple(sizes.get(n, n) for n in shape)
        writer.add_tensor(name, weights(recipe, name, size))
    write_file(writer)


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    match value:
        case list():
            writer.add_array(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)


def write_tokenizer(recipe: Tiny, path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    add_tokenizer(writer, recipe)
    write_file(writer)


def write_empty(path: Path) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))


def add_sampling(writer: gguf.GGUFWriter, sampling: Iterable[tuple[str, float | str]]) -> None:
    """Write what the model asks of its sampling, each value with the type that it has here."""
    for name, value in sampling:
        key = f"general.sampling.{name}"
        match value:
            case str():
                writer.add_string(key, value)
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_int32(key, value)
            case float():
                writer.add_float32(key, value)


def add_tokenizer(writer: gguf.GGUFWriter, recipe: Tiny) -> None:
    tokens = vocabulary(recipe)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model(recipe.tokenizer)
    writer.add_tokenizer_pre(recipe.pre)
    writer.add_token_list(tokens)
    writer.add_token_types([control if t.startswith("<|") else normal for t in tokens])
    writer.add_token_merges(list(_MERGES))
    writer.add_bos_token_id(recipe.bos)
    writer.add_eos_token_id(2)
    if recipe.add_bos is not None:
        writer.add_add_bos_token(recipe.add_bos)
    if recipe.chat_template is not None:
        writer.add_chat_template(recipe.chat_template)


def _gaussian(seed: int, name: str, shape: tuple[int, ...]) -> Weights:
    # Row by row, so that a longer vocabulary starts with the same rows as a shorter one.
    stream = np.random.default_rng([seed, *name.encode()])
    return stream.standard_normal(shape, np.float32)


def _byte_letters() -> list[str]:
    """Return the 256 letters that GPT-2's byte-level BPE writes for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def write_file(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
