"""Metadata that is taken for what a file says: can a model be like that?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from spectui.config import KvOverride
from spectui.errors import UsageError
from spectui.models.counts import BrokenError, check_counts

_LAYERS = b".block_count"
_EXPERTS, _USED = b".expert_count", b".expert_used_count"
_MOST = (1 << 32) - 1


def check_overrides(
    path: Path, numbers: Mapping[bytes, int], overrides: Sequence[KvOverride]
) -> None:
    """Refuse numbers that a header would be refused for: llama.cpp aborts on them.

    Args:
        path: of the model.
        numbers: of its header.
        overrides: those of other architectures are left out, as llama.cpp does.

    Raises:
        UsageError: they make no model.
    """
    archs = tuple(key.removesuffix(_LAYERS) + b"." for key in numbers if key.endswith(_LAYERS))
    taken: dict[bytes, int] = {}
    for one in overrides:
        key = one.key.encode()
        if type(one.value) is int and key.startswith(archs) and _is_read(key, numbers):
            if not 0 <= one.value <= _MOST:
                raise _refusal(path, (one,), f"{one.value} is no number of 32 bits without a sign")
            taken[key] = one.value
    # A dense model's file does not say how many experts are used, and llama.cpp takes none.
    unused = {
        key.removesuffix(_EXPERTS) + _USED: 0
        for key in taken.keys() - numbers.keys()
        if key.endswith(_EXPERTS)
    }
    try:
        check_counts({**unused, **numbers, **taken})
    except BrokenError as error:
        counted = [one for one in overrides if one.key.encode() in taken]
        raise _refusal(path, counted, str(error)) from error


def _is_read(key: bytes, numbers: Mapping[bytes, int]) -> bool:
    """Whether llama.cpp looks for it where the file does not have it (``get_key_or_arr``)."""
    return key in numbers or not key.endswith(_USED)


def _refusal(path: Path, overrides: Sequence[KvOverride], reason: str) -> UsageError:
    texts = ",".join(one.text for one in overrides)
    return UsageError(
        f"--override-kv {texts}: {path} cannot be read like that ({reason}); correct it, or leave "
        "it out"
    )
