"""The numbers in a built model: the same on every machine for the same seed.

For that, everything stays within what is exact: raw bits of a NumPy bit generator (whose streams
are guaranteed never to change), a table, and element-wise float32 arithmetic. ``standard_normal``
is avoided, since its last digits depend on libm and the NumPy release, and the one reduction is
rounded, since its last digits depend on SIMD width.
"""

import hashlib
import math
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, ReaderTensor, quants
from numpy.typing import NDArray

from spectui.demo.models import RECIPE_VERSION
from spectui.demo.recipes import Encoding, TensorRecipe

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
