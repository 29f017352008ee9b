"""Models on disk: the files of each, and what its name tells of size and quantisation."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from spectui.gguf_names import Series, series_of

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
    """Path of the file that llama.cpp is given: the first shard."""
    name: str
    """Name of the file, without its ending and the shard's number."""
    size_bytes: int
    """Bytes of all shards that are present."""
    n_shards: int = 1
    missing: tuple[str, ...] = ()
    """Names of the shards that are not there: the model cannot be loaded without them."""
    cut: tuple[str, ...] = ()
    """Names of the files that end before their tensors do."""

    @property
    def damage(self) -> str | None:
        """Reason why the files that are there cannot be loaded, None if they can."""
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


def group(parts: Iterable[Part]) -> Iterator[tuple[FoundModel, tuple[Part, ...]]]:
    """Put the shards of each model together.

    Args:
        parts: Files of one folder.
    """
    ordered = sorted(parts, key=lambda part: (_series(part), part.path.name))
    for series, found in groupby(ordered, key=_series):
        shards = tuple(found)
        yield _model(series, shards), shards


def _series(part: Part) -> Series:
    return series_of(part.path.name)


def _model(series: Series, parts: tuple[Part, ...]) -> FoundModel:
    there = {part.path.name for part in parts}
    names = series.names
    return FoundModel(
        path=parts[0].path.with_name(names[0]),
        name=series.stem,
        size_bytes=sum(part.size_bytes for part in parts),
        n_shards=len(names),
        missing=tuple(name for name in names if name not in there),
        cut=tuple(part.path.name for part in parts if part.is_cut),
    )
