"""Writes one built model, tensor by tensor: a model is never in memory as a whole."""

import math
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, GGUFWriter

from spectui.demo.build import explained, sync
from spectui.demo.models import RECIPE_VERSION
from spectui.demo.recipes import Encoding, ModelRecipe, TensorRecipe
from spectui.demo.source import Source
from spectui.demo.weights import make_tensor

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
