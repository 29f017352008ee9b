"""Reads GGUF file names: shards of one model, and companions of a model.

The conventions are those of llama.cpp's ``gguf-split`` and of the GGUF naming rules on the hub.
"""

import re

SUFFIX = ".gguf"

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<total>\d{5})", re.DOTALL)
_COMPANION = re.compile(
    r"(?:.*[-._])?mmproj(?:[-._].*)?"
    r"|(?:imatrix|ggml-(?:vocab|adapter|lora))(?:[-._].*)?"
    r"|.*[-._](?:(?<=\.)imatrix|vocab|lora)",
    re.IGNORECASE | re.DOTALL,
)
"""Projectors, importance matrices, bare vocabularies and adapters."""


def model_name(name: str) -> str:
    """The name of the model that the GGUF file called ``name`` belongs to, as shards share it."""
    stem, _suffix = _split(name)
    shard = _shard(stem)
    return stem if shard is None else shard["stem"]


def first_name(name: str) -> str:
    """The name of that model's file that llama.cpp is given, for all of its shards the same."""
    stem, suffix = _split(name)
    shard = _shard(stem)
    return name if shard is None else f"{shard['stem']}-00001-of-{shard['total']}{suffix}"


def shard_names(name: str) -> tuple[str, ...]:
    """Names of all files of that model, in order."""
    stem, suffix = _split(name)
    shard = _shard(stem)
    if shard is None:
        return (name,)
    numbers = range(1, int(shard["total"]) + 1)
    return tuple(f"{shard['stem']}-{n:05}-of-{shard['total']}{suffix}" for n in numbers)


def is_part_of_model(name: str) -> bool:
    """Tell whether a file called ``name`` can be a model or a shard of one.

    Projectors, importance matrices, bare vocabularies and adapters are GGUF files too, but only
    ever loaded beside a model.
    """
    stem, suffix = _split(name)
    return suffix.lower() == SUFFIX and bool(stem) and _COMPANION.fullmatch(stem) is None


def _shard(stem: str) -> re.Match[str] | None:
    """The parts of a shard's name; None for a model of one file."""
    found = _SHARD.fullmatch(stem)
    return found if found and 1 <= int(found["index"]) <= int(found["total"]) else None


def _split(name: str) -> tuple[str, str]:
    return name[: -len(SUFFIX)], name[-len(SUFFIX) :]
