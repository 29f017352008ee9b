"""Writes one built model, tensor by tensor: a model is never in memory as a whole.

The numbers are the same on every machine for the same seed. For that, everything stays within what
is exact: raw bits of a NumPy bit generator (whose streams are guaranteed never to change), a table,
and element-wise float32 arithmetic. ``standard_normal`` is avoided, since its last digits depend on
libm and the NumPy release, and the one reduction is rounded, since its last digits depend on SIMD
width.
"""

import hashlib
import math
from collections.abc import Generator
from contextlib import closing
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from gguf import (
    GGML_QUANT_SIZES,
    GGMLQuantizationType,
    GGUFValueType,
    GGUFWriter,
    ReaderTensor,
    quants,
)
from numpy.typing import NDArray

from spectui.demo.build import Source, explained, sync
from spectui.demo.recipes import RECIPE_VERSION, Encoding, ModelRecipe, TensorRecipe

_QUANTILES = 1 << 16
_ROUTER_STD = 0.5
"""Logits of different tokens then differ by 1 to 2: routing varies, and both experts count."""


def gaussian(name: str, seed: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return standard normal noise that depends on nothing but ``name``, ``seed`` and ``shape``.

    Drawn from the normal distribution's 65,536 quantiles, so it lies within 4.4.

    Returns:
        float32 of ``shape``, writable and owned by the caller.
    """
    key = hashlib.sha256(f"{seed}/{RECIPE_VERSION}/{name}".encode()).digest()
    bits = np.random.SFC64(np.random.SeedSequence(int.from_bytes(key, "little")))
    count = math.prod(shape)
    raw = bits.random_raw(-(-count // 4)).astype("<u8", copy=False)
    return _quantiles().take(raw.view("<u2")[:count]).reshape(shape)


@cache
def _quantiles() -> NDArray[np.float32]:
    normal = NormalDist()
    values = [normal.inv_cdf((index + 0.5) / _QUANTILES) for index in range(_QUANTILES)]
    return np.array(values, dtype=np.float32)


def make_tensor(recipe: TensorRecipe, source: ReaderTensor, seed: int) -> NDArray[Any]:
    """Compute one tensor as it stands in the file.

    Args:
        recipe: model to make.
        source: SmolLM2's tensor of the name ``recipe.source``.
        seed: seed of the noise.

    Returns:
        ``[*copies, rows, columns]``: float32, or for quantised tensors uint8 with the bytes of a
        row in the last dimension.
    """
    if recipe.encoding is Encoding.RAW:
        raw: NDArray[Any] = source.data
        return raw
    if recipe.router:
        shape = (recipe.copies, source.n_elements)
        return gaussian(recipe.name, seed, shape) * np.float32(_ROUTER_STD)
    values: NDArray[np.float32] = quants.dequantize(source.data, source.tensor_type)
    if recipe.noise:
        values = _noisy(values, recipe, seed)
    if recipe.scale != 1.0:
        values *= np.float32(recipe.scale)
    encoded: NDArray[Any] = quants.quantize(values, GGMLQuantizationType[recipe.encoding])
    return encoded


def _noisy(values: NDArray[np.float32], recipe: TensorRecipe, seed: int) -> NDArray[np.float32]:
    shape = (recipe.copies, *values.shape) if recipe.copies else values.shape
    # In place: the embedding alone is 113 MB, and each temporary would be as large.
    noise = gaussian(recipe.name, seed, shape)
    noise *= np.float32(recipe.noise * _std(values))
    noise += values
    return noise


def _std(values: NDArray[np.float32]) -> float:
    # Three digits are enough for a noise level, and hide the order of summation.
    return float(f"{np.std(values, dtype=np.float64):.3g}")


_METADATA_BYTES = 4 << 20
"""Upper bound of what is not weights, nearly all of it vocabulary."""


def size_bytes(recipe: ModelRecipe, source: Source) -> int:
    """Return an upper bound, within a few MB, of the file's size."""
    return _METADATA_BYTES + sum(_plan(tensor, source)[2] for tensor in recipe.tensors)


def write_model(
    recipe: ModelRecipe, source: Source, path: Path, seed: int
) -> Generator[float, None, None]:
    """Write ``path`` and flush it to disk; yields the fraction written after every tensor.

    Close the generator to stop early; the incomplete file is then the caller's to remove.

    Raises:
        BadInputError: the file cannot be written, for instance because the disk is full.
    """
    sizes = [_plan(tensor, source)[2] for tensor in recipe.tensors]
    written, total = 0, sum(sizes)
    with explained(path.parent), closing(GGUFWriter(path, "llama")) as writer:
        _write_head(writer, recipe, source, seed)
        for tensor, size in zip(recipe.tensors, sizes, strict=True):
            writer.write_tensor_data(make_tensor(tensor, source.tensors[tensor.source], seed))
            written += size
            yield written / total
    with explained(path.parent):
        sync(path)


def _write_head(writer: GGUFWriter, recipe: ModelRecipe, source: Source, seed: int) -> None:
    """Write everything that precedes the weights."""
    _add_metadata(writer, recipe, source, seed)
    for tensor in recipe.tensors:
        kind, shape, size = _plan(tensor, source)
        # Given as float32 since for uint8 gguf-py takes the shape to be in bytes.
        dtype = np.dtype(np.float32)
        writer.add_tensor_info(tensor.name, shape, dtype, size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()


def _add_metadata(writer: GGUFWriter, recipe: ModelRecipe, source: Source, seed: int) -> None:
    new = {
        **recipe.metadata,
        "spectui.demo.recipe": RECIPE_VERSION,
        "spectui.demo.seed": str(seed),
    }
    for field in source.reader.fields.values():
        # GGUF.* are gguf-py's names for the header; the writer has set the architecture.
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.name not in new:
            kind = field.types[0]
            inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for name, value in new.items():
        kind = GGUFValueType.STRING if isinstance(value, str) else GGUFValueType.UINT32
        writer.add_key_value(name, value, kind)


def _plan(
    tensor: TensorRecipe, source: Source
) -> tuple[GGMLQuantizationType, tuple[int, ...], int]:
    """Return the GGML type, the shape in numpy's order, and the bytes of a tensor."""
    origin = source.tensors[tensor.source]
    raw = tensor.encoding is Encoding.RAW
    kind = origin.tensor_type if raw else GGMLQuantizationType[tensor.encoding]
    # GGUF lists the fastest dimension first, numpy last.
    shape = tuple(int(length) for length in reversed(origin.shape))
    if tensor.copies:
        shape = (tensor.copies, *shape)
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return kind, shape, math.prod(shape) // block * block_bytes
