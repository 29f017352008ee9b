"""Plausibility of the counts in a header, and in metadata that replaces it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from spectui.errors import UsageError
from spectui.options.setup import KvOverride

_MAX_LAYERS, _MAX_EXPERTS = 512, 1024
"""``LLAMA_MAX_LAYERS``, ``LLAMA_MAX_EXPERTS``."""
_MOST = (1 << 32) - 1
_MAX_CONTEXT = 1 << 27
"""Tokens that a model may be trained for: ten times the most of any, as memory grows with it."""


class BrokenError(Exception):
    """The header cannot be that of a model."""


def check_counts(numbers: Mapping[str, int]) -> None:
    """Hold counts against what llama.cpp asserts of them, and what it can plan.

    Raises:
        BrokenError: no model has such.
    """
    counts = {key.partition(".")[2]: number for key, number in numbers.items()}
    for number in counts.values():
        if not 0 <= number <= _MOST:
            raise BrokenError(f"{number} is no number of 32 bits without a sign")
    n_layers, n_experts = counts.get("block_count", 1), counts.get("expert_count", 0)
    n_used = counts.get("expert_used_count", min(n_experts, 1))
    if not 1 <= n_layers <= _MAX_LAYERS:
        raise BrokenError(f"a model of {n_layers} layers")
    if n_experts > _MAX_EXPERTS:
        raise BrokenError(f"layers of {n_experts} experts")
    if (n_context := counts.get("context_length", 0)) > _MAX_CONTEXT:
        raise BrokenError(f"it is trained for {n_context} tokens")
    if (n_rotated := counts.get("rope.dimension_count", 0)) % 2:
        raise BrokenError(f"{n_rotated} dimensions are rotated in pairs")
    # One expert is none to some architectures, which then forget how many are used.
    if n_used > n_experts or (n_experts > 1 and n_used == 0):
        raise BrokenError(f"{n_used} of {n_experts} experts are used")


def check_overrides(
    path: Path, numbers: Mapping[str, int], overrides: Sequence[KvOverride]
) -> None:
    """Refuse numbers that a header would be refused for: llama.cpp aborts on them.

    Args:
        path: path of the model.
        numbers: numbers of its header.
        overrides: those of keys that it lacks are left to llama.cpp.

    Raises:
        UsageError: they make no model.
    """
    taken = [one for one in overrides if one.key in numbers and type(one.value) is int]
    try:
        check_counts({**numbers, **{one.key: int(one.value) for one in taken}})
    except BrokenError as error:
        texts = ",".join(one.text for one in taken)
        raise UsageError(
            f"--override-kv {texts}: {path} cannot be read like that ({error}); correct it, or "
            "leave it out"
        ) from error
