"""What the names of GGUF files tell: shards of one model, companions of a model, size and quant.

The conventions are those of llama.cpp's ``gguf-split`` and of the GGUF naming rules on the hub.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

SUFFIX = ".gguf"

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<total>\d{5})", re.DOTALL)
_COMPANION = re.compile(
    r"(^|.*[-._])mmproj([-._].*|$)|(imatrix|ggml-(vocab|adapter|lora))([-._].*|$)"
    r"|.*(\.imatrix|[-._](vocab|lora))",
    re.IGNORECASE | re.DOTALL,
)
_SIZE = re.compile(
    r"(?<![^-._ ])((?:\d+x)?\d+(?:\.\d+)?[KMBT](?:-A\d+(?:\.\d+)?[KMBT])?)(?![^-._ ])",
    re.IGNORECASE,
)
_QUANT = re.compile(
    r"(?<![^-._ ])((?:I?Q\d|TQ\d|MXFP4|NVFP4|BF16|F16|F32)(?:_[A-Z0-9]+)*)(?![^-._ ])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model on disk, known by its name alone."""

    path: Path
    """Of the file that llama.cpp is given: the first shard."""
    name: str
    """Of the file, without its ending and the shard's number."""
    size_bytes: int
    """Of all shards that are there."""
    n_shards: int = 1
    missing: tuple[str, ...] = ()
    """Names of the shards that are not there: the model cannot be loaded without them."""
    cut: tuple[str, ...] = ()
    """Names of the files that end before their tensors do."""

    @property
    def damage(self) -> str | None:
        """Why the files that are there cannot be loaded, None if nothing speaks against them."""
        if not self.cut:
            return None
        return f"is cut short: {self.cut[0]} ends before its tensors do; download it again"

    @property
    def label(self) -> str:
        """Parameters and quantisation as far as the name tells, such as ``30B-A3B Q4_K_M``."""
        size, quant = _SIZE.search(self.name), _QUANT.search(self.name)
        parts = (size and size[1].upper().replace("X", "x"), quant and quant[1].upper())
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file: a model, or a shard of one."""

    path: Path
    size_bytes: int
    identity: tuple[int, int]
    """Device and inode: equal for two links to one file."""
    is_cut: bool = False
    """Whether it ends before its tensors do."""


def is_part_of_model(name: str) -> bool:
    """Tell whether a file called ``name`` can be a model or a shard of one.

    Projectors, importance matrices, bare vocabularies and adapters are GGUF files too, but only
    ever loaded beside a model.
    """
    stem, suffix = name[: -len(SUFFIX)], name[-len(SUFFIX) :]
    return suffix.lower() == SUFFIX and bool(stem) and _COMPANION.fullmatch(stem) is None


def group(parts: Iterable[Part]) -> Iterator[tuple[FoundModel, tuple[Part, ...]]]:
    """Put the shards of each model together.

    Args:
        parts: Files of one folder.
    """
    ordered = sorted(parts, key=lambda part: (_series(part), part.path.name))
    for (stem, suffix, n_shards), found in groupby(ordered, key=_series):
        shards = tuple(found)
        yield _model(stem, suffix, n_shards, shards), shards


def _series(part: Part) -> tuple[str, str, int]:
    """Name of the model, its ending, and its number of shards, 0 where the file is no shard."""
    stem, suffix = part.path.name[: -len(SUFFIX)], part.path.name[-len(SUFFIX) :]
    shard = _SHARD.fullmatch(stem)
    if shard is None or not 1 <= int(shard["index"]) <= int(shard["total"]):
        return stem, suffix, 0
    return shard["stem"], suffix, int(shard["total"])


def _model(stem: str, suffix: str, n_shards: int, parts: tuple[Part, ...]) -> FoundModel:
    there = {part.path.name for part in parts}
    shards = range(1, n_shards + 1)
    names = [f"{stem}-{index:05}-of-{n_shards:05}{suffix}" for index in shards] or [stem + suffix]
    return FoundModel(
        path=parts[0].path.with_name(names[0]),
        name=stem,
        size_bytes=sum(part.size_bytes for part in parts),
        n_shards=len(names),
        missing=tuple(name for name in names if name not in there),
        cut=tuple(part.path.name for part in parts if part.is_cut),
    )
