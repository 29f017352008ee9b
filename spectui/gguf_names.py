"""Meaning of GGUF file names: shards of one model, companions of a model.

The conventions are those of llama.cpp's ``gguf-split`` and of the GGUF naming rules on the hub.
"""

import re
from dataclasses import dataclass

SUFFIX = ".gguf"

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<total>\d{5})", re.DOTALL)
_COMPANION = re.compile(
    r"(?:.*[-._])?mmproj(?:[-._].*)?"
    r"|(?:imatrix|ggml-(?:vocab|adapter|lora))(?:[-._].*)?"
    r"|.*[-._](?:(?<=\.)imatrix|vocab|lora)",
    re.IGNORECASE | re.DOTALL,
)
"""Projectors, importance matrices, bare vocabularies and adapters."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Series:
    """The files of one model."""

    stem: str
    """Common beginning of their names."""
    suffix: str
    n_shards: int
    """0 where the model is one file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all files, the one that llama.cpp is given first."""
        numbers = range(1, self.n_shards + 1)
        shards = (f"{self.stem}-{n:05}-of-{self.n_shards:05}{self.suffix}" for n in numbers)
        return tuple(shards) or (self.stem + self.suffix,)


def series_of(name: str) -> Series:
    """Return the files of the model that the GGUF file called ``name`` belongs to."""
    stem, suffix = _split(name)
    shard = _SHARD.fullmatch(stem)
    if shard is None or not 1 <= int(shard["index"]) <= int(shard["total"]):
        return Series(stem=stem, suffix=suffix, n_shards=0)
    return Series(stem=shard["stem"], suffix=suffix, n_shards=int(shard["total"]))


def is_part_of_model(name: str) -> bool:
    """Tell whether a file called ``name`` can be a model or a shard of one.

    Projectors, importance matrices, bare vocabularies and adapters are GGUF files too, but only
    ever loaded beside a model.
    """
    stem, suffix = _split(name)
    return suffix.lower() == SUFFIX and bool(stem) and _COMPANION.fullmatch(stem) is None


def _split(name: str) -> tuple[str, str]:
    return name[: -len(SUFFIX)], name[-len(SUFFIX) :]
