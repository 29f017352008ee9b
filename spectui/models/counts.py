"""What a header counts: can a model be like that?"""

from collections.abc import Mapping

_MAX_LAYERS, _MAX_EXPERTS = 512, 1024
"""``LLAMA_MAX_LAYERS``, ``LLAMA_MAX_EXPERTS``."""
_MAX_CONTEXT = 1 << 27
"""Tokens that a model may be trained for: ten times the most of any, as memory grows with it."""


class BrokenError(Exception):
    """The header cannot be that of a model."""


def check_counts(numbers: Mapping[bytes, int]) -> None:
    """Hold counts against what llama.cpp asserts of them, and what it can plan.

    Raises:
        BrokenError: no model has such.
    """
    counts = {key.partition(b".")[2]: number for key, number in numbers.items()}
    n_layers, n_experts = counts.get(b"block_count", 1), counts.get(b"expert_count", 0)
    n_used = counts.get(b"expert_used_count", min(n_experts, 1))
    if not 1 <= n_layers <= _MAX_LAYERS:
        raise BrokenError(f"a model of {n_layers} layers")
    if n_experts > _MAX_EXPERTS:
        raise BrokenError(f"layers of {n_experts} experts")
    if (n_context := counts.get(b"context_length", 0)) > _MAX_CONTEXT:
        raise BrokenError(f"it is trained for {n_context} tokens")
    if (n_rotated := counts.get(b"rope.dimension_count", 0)) % 2:
        raise BrokenError(f"{n_rotated} dimensions are rotated in pairs")
    # One expert is none to some architectures, which then forget how many are used.
    if n_used > n_experts or (n_experts > 1 and n_used == 0):
        raise BrokenError(f"{n_used} of {n_experts} experts are used")
