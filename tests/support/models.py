"""Tiny random-weight GGUFs, written in milliseconds, and files that are no models at all."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from tests.support.layers import (
    FEED_FORWARD,
    HEAD_DIM,
    N_EMBD,
    N_HEADS_KV,
    N_LAYERS,
    Shapes,
    attention,
    begin,
    of_layers,
)

Weights = npt.NDArray[np.float32]

TIED_SCALE = 0.1
"""Of embeddings that are the output matrix, too: if they were any larger, what they add up to
would always be most like the last token, and the model would say that for ever."""

END_TOKENS = frozenset({0, 2})
"""``<|endoftext|>`` and ``<|im_end|>``."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_EMBEDDINGS, _OUTPUT = "token_embd.weight", "output.weight"
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|unk|>")
_MERGES = ("Ġ t", "h e", "Ġt he", "i n", "r e", "o n", "e r", "a t", "Ġ s", "Ġ o", "in g", "l l")


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """One tiny model: equal recipes give equal files."""

    seed: int = 0
    noise: float = 0.0
    """Added to the weights of ``seed``: the larger, the less the model agrees with its original."""
    noise_seed: int = 1
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
    writer = begin("llama", path, name=f"Tiny {recipe.seed}", n_layers=recipe.n_layers)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary(recipe)))
    if recipe.n_experts:
        writer.add_expert_count(recipe.n_experts)
        writer.add_expert_used_count(2)
    if recipe.pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(recipe.pooling))
    add_sampling(writer, recipe.sampling)
    write_weights(writer, recipe, _shapes(recipe))


def write_weights(
    writer: gguf.GGUFWriter,
    recipe: Tiny,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    is_tied: bool = False,
) -> None:
    """Add vocabulary, embeddings and tensors of ``shapes``, rows first, and write the file.

    With an output matrix, unless it ``is_tied``: the embeddings of an architecture that has none.
    """
    add_tokenizer(writer, recipe)
    embeddings = weights_of(recipe, _EMBEDDINGS, (len(vocabulary(recipe)), N_EMBD))
    if is_tied:
        embeddings = embeddings * np.float32(TIED_SCALE)
    else:
        shapes = {_OUTPUT: embeddings.shape, **shapes}
    writer.add_tensor(_EMBEDDINGS, embeddings)
    for name, shape in shapes.items():
        writer.add_tensor(name, weights_of(recipe, name, shape))
    write_file(writer)


def write_tokenizer(recipe: Tiny, path: Path) -> None:
    """Write a model of nothing but its tokenizer: enough to be compared."""
    writer = gguf.GGUFWriter(path, "llama")
    add_tokenizer(writer, recipe)
    write_file(writer)


def write_empty(path: Path) -> None:
    """Write a GGUF of nothing but a header."""
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


def _shapes(recipe: Tiny) -> Shapes:
    """Shapes of all tensors, rows first."""
    block = {
        "attn_norm": (N_EMBD,),
        **attention(),
        "ffn_norm": (N_EMBD,),
        **_feed_forward(recipe.n_experts),
    }
    return {"output_norm.weight": (N_EMBD,), **of_layers(*[block] * recipe.n_layers)}


def _feed_forward(n_experts: int) -> Shapes:
    if not n_experts:
        return FEED_FORWARD
    experts = {f"{name}_exps": (n_experts, *shape) for name, shape in FEED_FORWARD.items()}
    return {"ffn_gate_inp": (n_experts, N_EMBD), **experts}


def weights_of(recipe: Tiny, name: str, shape: tuple[int, ...]) -> Weights:
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    weights = _gaussian(recipe.seed, name, shape)
    if recipe.noise:
        weights = weights + np.float32(recipe.noise) * _gaussian(recipe.noise_seed, name, shape)
    if name.endswith("ssm_a"):
        # A recurrent state decays: else what rounding moves would grow with every token.
        return -4 * abs(weights) / np.float32(shape[-1] ** 0.5)
    # Embeddings of norm 1 per element; every matrix keeps that norm.
    return weights if name == _EMBEDDINGS else weights / np.float32(shape[-1] ** 0.5)


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
    """Write header, metadata and tensors."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
