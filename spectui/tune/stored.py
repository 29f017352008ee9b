"""Records beside a study, as its storage keeps them."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from spectui.options.stored import current

T = TypeVar("T")


def to_plain(record: object) -> dict[str, Any]:
    """Plain form of a dataclass, as a storage keeps it."""
    return dict(msgspec.to_builtins(record, enc_hook=str))


def from_plain(kept: object, kind: type[T]) -> T | None:
    """Decode a stored value; None for one that another version of spectui wrote."""
    try:
        return msgspec.convert(current(kept), kind, dec_hook=_path)
    except msgspec.ValidationError:
        return None


def _path(kind: type, value: str) -> Path:
    if kind is not Path:
        raise NotImplementedError(kind)
    return Path(value)
