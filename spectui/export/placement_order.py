"""Keeps the order of placements, of which llama-server applies the first that matches."""

import re
from collections.abc import Mapping

_EXPERTS = r"ffn_(up|down|gate|gate_up)_(ch|)exps"
_MOST_LAYERS = 256
_PARTS = ("up", "down", "gate", "gate_up")


def experts_first(options: Mapping[str, tuple[str, ...]], overrides: tuple[str, ...]) -> str | None:
    """Pattern for ``--cpu-moe`` or ``--n-cpu-moe``, if their coming first makes a difference.

    llama-server takes the first placement that matches a tensor. spectui, as its export, writes
    ``-ot`` before them; so where an ``-ot`` that stands behind them moves some of the same experts
    elsewhere, they have to become a pattern before it.

    Args:
        options: options taken over so far.
        overrides: values of the ``-ot`` that comes now.
    """
    n_layers = _n_layers(options)
    if not any(_moves(part, n_layers) for value in overrides for part in value.split(",")):
        return None
    if "cpu-moe" in options:
        return rf"\.{_EXPERTS}=CPU"
    layers = "|".join(map(str, range(n_layers)))
    return rf"blk\.({layers})\.{_EXPERTS}=CPU"


def _n_layers(options: Mapping[str, tuple[str, ...]]) -> int:
    if "cpu-moe" in options:
        return _MOST_LAYERS
    given = options.get("n-cpu-moe", ("0",))[-1]
    return min(int(given), _MOST_LAYERS) if given.isascii() and given.isdigit() else 0


def _moves(override: str, n_layers: int) -> bool:
    """Whether the override puts experts of the first layers anywhere but in RAM."""
    pattern, _, buffer = override.partition("=")
    if buffer == "CPU":
        return False
    try:
        compiled = re.compile(pattern)
    except re.error:
        # llama-server's dialect of regular expressions is another one.
        return n_layers > 0
    return any(
        compiled.search(f"blk.{layer}.ffn_{part}_exps.weight")
        for layer in range(n_layers)
        for part in _PARTS
    )
