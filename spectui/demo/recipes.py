"""Recipes of the built models, tensor by tensor. Pure data: no numpy, no gguf.

Tensor names are those of llama.cpp's ``llama`` architecture; experts are named as in Mixtral GGUFs,
so that ``-ot exps=CPU`` matches them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

RECIPE_VERSION = 1
"""Part of every file name: raise it whenever a built file would differ from before."""

FILE_PREFIX = "spectui-demo-"
"""Start of every file that a build writes, so that a build touches no one else's files."""


class DemoModel(StrEnum):
    """The demo models; ``DRAFT`` is SmolLM2 as installed, the others are built from it."""

    DENSE = "dense"
    """Target, F32, 90 layers: memory-bound, so speculation pays."""
    MOE = "moe"
    """Target, Q8_0, 8 experts of which 2 are used: compute-bound without a GPU."""
    DRAFT = "draft"
    """The good draft: SmolLM2-135M-Instruct, Q4_1."""
    DRAFT_THIN = "draft-thin"
    """The cheaper, worse draft: SmolLM2 without a third of its layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoProgress:
    """Progress of the build of one model."""

    model: DemoModel
    fraction: float
    """0 to 1, of this model's bytes."""


def file_name(model: DemoModel, seed: int) -> str:
    """Name of the finished file of a built ``model``: differs per seed and recipe version."""
    return f"{FILE_PREFIX}{model}-seed{seed}-v{RECIPE_VERSION}.gguf"


SOURCE_LAYERS = 30
"""Layers of SmolLM2-135M."""
GHOSTS = 2
"""Ghost layers after each layer of the dense target."""
GHOST_SCALE = 0.02
"""Scale of a ghost's two output matrices: it costs a full layer and hardly changes the residual."""
DENSE_NOISE = 0.035
"""Relative noise; from this, SmolLM2 as the draft is right about four times out of five."""
MOE_NOISE = 0.02
EXPERT_NOISE = 0.05
"""Noise in the experts' matrices: more, since experts that are all alike need no routing."""
EXPERTS = 8
EXPERTS_USED = 2
THIN_DROPPED = frozenset({3, 4, 5, 6, 7, 15, 16, 20, 25, 27})
"""Layers the thin draft lacks, chosen greedily by next-token agreement with the whole model.

Without every third layer, whatever the offset, it would agree on less than one token in twenty.
"""

_NORMS = ("attn_norm", "ffn_norm")
_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
_FFN = ("ffn_gate", "ffn_up", "ffn_down")
_INTO_RESIDUAL = frozenset({"attn_output", "ffn_down"})

# Values of llama.cpp's llama_ftype, for general.file_type.
_FTYPE_F32, _FTYPE_Q4_1, _FTYPE_Q8_0 = 0, 3, 7


class Encoding(StrEnum):
    """Encoding of a tensor."""

    RAW = "raw"
    """The source's own bytes."""
    F32 = "F32"
    Q8_0 = "Q8_0"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecipe:
    """One tensor of a built model: ``scale * (source + noise * std(source) * gaussian)``."""

    name: str
    source: str
    """Name in SmolLM2."""
    encoding: Encoding
    noise: float = 0.0
    """Standard deviation of the noise, relative to that of the source."""
    scale: float = 1.0
    copies: int = 0
    """If not 0, that many copies, each with its own noise, are stacked in a new first dimension."""
    router: bool = False
    """A ``[copies, len(source)]`` matrix of pure noise; of the source only the length is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecipe:
    """One built model."""

    tensors: tuple[TensorRecipe, ...]
    metadata: Mapping[str, int | str]
    """Metadata that differs from SmolLM2's; all else, the tokenizer above all, is copied."""


def recipe_of(model: DemoModel) -> ModelRecipe:
    """Return the recipe of a built ``model``.

    Raises:
        KeyError: ``model`` is ``DemoModel.DRAFT``, which is not built.
    """
    return {DemoModel.DENSE: _dense, DemoModel.MOE: _moe, DemoModel.DRAFT_THIN: _thin}[model]()


def _dense() -> ModelRecipe:
    layers = SOURCE_LAYERS * (1 + GHOSTS)
    return ModelRecipe(
        tensors=(
            *_outer(Encoding.F32, DENSE_NOISE),
            *(tensor for layer in range(layers) for tensor in _dense_layer(layer)),
        ),
        metadata={
            "general.name": "spectui demo dense target",
            "general.size_label": "347M",
            "general.file_type": _FTYPE_F32,
            "llama.block_count": layers,
        },
    )


def _dense_layer(layer: int) -> Iterator[TensorRecipe]:
    origin, ghost = divmod(layer, 1 + GHOSTS)
    for part in _NORMS:
        yield _layer_tensor(part, layer, origin, Encoding.F32)
    for part in _ATTENTION + _FFN:
        scale = GHOST_SCALE if ghost and part in _INTO_RESIDUAL else 1.0
        yield _layer_tensor(part, layer, origin, Encoding.F32, noise=DENSE_NOISE, scale=scale)


def _moe() -> ModelRecipe:
    return ModelRecipe(
        tensors=(
            *_outer(Encoding.Q8_0, MOE_NOISE),
            *(tensor for layer in range(SOURCE_LAYERS) for tensor in _moe_layer(layer)),
        ),
        metadata={
            "general.name": "spectui demo MoE target",
            "general.size_label": "8x109M",
            "general.file_type": _FTYPE_Q8_0,
            "llama.expert_count": EXPERTS,
            "llama.expert_used_count": EXPERTS_USED,
        },
    )


def _moe_layer(layer: int) -> Iterator[TensorRecipe]:
    for part in _NORMS:
        yield _layer_tensor(part, layer, layer, Encoding.F32)
    for part in _ATTENTION:
        yield _layer_tensor(part, layer, layer, Encoding.Q8_0, noise=MOE_NOISE)
    yield TensorRecipe(
        name=f"blk.{layer}.ffn_gate_inp.weight",
        source=f"blk.{layer}.ffn_norm.weight",
        encoding=Encoding.F32,
        copies=EXPERTS,
        router=True,
    )
    for part in _FFN:
        yield TensorRecipe(
            name=f"blk.{layer}.{part}_exps.weight",
            source=f"blk.{layer}.{part}.weight",
            encoding=Encoding.Q8_0,
            noise=EXPERT_NOISE,
            copies=EXPERTS,
        )


def _thin() -> ModelRecipe:
    kept = [layer for layer in range(SOURCE_LAYERS) if layer not in THIN_DROPPED]
    return ModelRecipe(
        tensors=(
            *_outer(Encoding.RAW),
            *(
                _layer_tensor(part, layer, origin, Encoding.RAW)
                for layer, origin in enumerate(kept)
                for part in _NORMS + _ATTENTION + _FFN
            ),
        ),
        metadata={
            "general.name": "spectui demo thin draft",
            "general.size_label": "99M",
            "general.file_type": _FTYPE_Q4_1,
            "llama.block_count": len(kept),
        },
    )


def _outer(encoding: Encoding, noise: float = 0.0) -> Iterable[TensorRecipe]:
    """Return the tensors outside the layers; SmolLM2's output matrix is its embedding."""
    norm = Encoding.RAW if encoding is Encoding.RAW else Encoding.F32
    embedding, output_norm = "token_embd.weight", "output_norm.weight"
    yield TensorRecipe(name=embedding, source=embedding, encoding=encoding, noise=noise)
    yield TensorRecipe(name=output_norm, source=output_norm, encoding=norm)


def _layer_tensor(
    part: str,
    layer: int,
    origin: int,
    encoding: Encoding,
    *,
    noise: float = 0.0,
    scale: float = 1.0,
) -> TensorRecipe:
    return TensorRecipe(
        name=f"blk.{layer}.{part}.weight",
        source=f"blk.{origin}.{part}.weight",
        encoding=encoding,
        noise=noise,
        scale=scale,
    )
