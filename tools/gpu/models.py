"""Models of real shapes with random weights: their bytes and times are real, their text is not."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from tests.support.shapes import QWEN3_0_6B, QWEN3_30B_A3B, Quant, Shape, write_header

Bytes = npt.NDArray[np.uint8]

EXPERTS = replace(QWEN3_30B_A3B, quant=Quant.Q4_0)
"""A target of 17 GB, of whose 128 experts 8 are used."""
DRAFT = QWEN3_0_6B
SMALL: dict[str, Any] = {"n_embd": 256, "n_heads": 8, "n_heads_kv": 4, "head_dim": 32, "n_ff": 512}
SMALL |= {"n_vocab": 2048, "n_merges": 1024}
SMALL_EXPERTS = replace(EXPERTS, n_layers=6, n_experts=16, n_ff_expert=128, **SMALL)
SMALL_DRAFT = replace(DRAFT, n_layers=2, **SMALL)
_BLOCKS = {
    Quant.Q4_0: np.dtype([("scale", "<f2"), ("values", "u1", 16)]),
    Quant.Q8_0: np.dtype([("scale", "<f2"), ("values", "i1", 32)]),
}
_SCALES = {Quant.Q4_0: 0.02 / 4.6, Quant.Q8_0: 0.02 / 74}
"""So that weights have a standard deviation of 0.02."""
_POOL_BYTES = 64 << 20


def write_model(shape: Shape, path: Path, seed: int = 0) -> Path:
    """Write a model of this shape, unless it is there.

    Weights are cut from 64 MiB of random blocks, at another place for each tensor. Norms are ones.
    """
    if path.exists():
        return path
    # A check whose runner was killed may still be writing one.
    unfinished = path.with_suffix(f".{os.getpid()}.partial")
    write_header(shape, unfinished)
    random = np.random.default_rng(seed)
    pool = _pool(shape.quant, random)
    for tensor in gguf.GGUFReader(unfinished, "r+").tensors:
        if tensor.tensor_type == Quant.F32:
            tensor.data[...] = 1.0
        else:
            block = _BLOCKS[Quant(tensor.tensor_type)].itemsize
            begin = block * int(random.integers(len(pool) // block))
            _fill(tensor.data.reshape(-1).view("u1"), pool, begin)
    unfinished.rename(path)
    return path


def _pool(quant: Quant, random: np.random.Generator) -> Bytes:
    block = _BLOCKS[quant]
    pool = np.frombuffer(random.bytes(_POOL_BYTES // block.itemsize * block.itemsize), block).copy()
    pool["scale"] = _SCALES[quant]
    return pool.view("u1")


def _fill(data: Bytes, pool: Bytes, begin: int) -> None:
    """Copy from there on, and from the pool's beginning once that has ended."""
    while len(data):
        n_bytes = min(len(data), len(pool) - begin)
        data[:n_bytes] = pool[begin : begin + n_bytes]
        data, begin = data[n_bytes:], 0
