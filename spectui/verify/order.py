"""Order in which prompts are sent without and with speculation. Pure: randomness from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

_HALVES = 2


class Side(StrEnum):
    """One of the two servers."""

    OFF = "off"
    """Without speculation: the baseline."""
    ON = "on"
    """With the exported flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Prompts that are sent in a row to one side, and then to the other."""

    repeat: int
    indexes: tuple[int, ...]
    """Indexes of the prompts."""
    sides: tuple[Side, Side]
    """Order of the two sides."""


def blocks(n_prompts: int, repeats: int, seed: int, *, keeps_both: bool) -> tuple[Block, ...]:
    """Every prompt on both sides, ``repeats`` times.

    Of two blocks in a row, chance orders the first and the second has the opposite order: a
    machine that grows slower or faster at an even pace favours neither side.

    Args:
        n_prompts: number of prompts.
        repeats: repeats of all prompts.
        seed: seed of the order.
        keeps_both: whether both servers run at once. Then they take turns prompt by prompt; else
            half of the prompts make a block, since each change of sides loads a model.
    """
    shares = list(_shares(n_prompts, repeats, 1 if keeps_both else -(-n_prompts // _HALVES)))
    orders = _orders(Random(seed))  # noqa: S311 - an order, not a secret
    return tuple(
        Block(repeat=repeat, indexes=indexes, sides=sides)
        for (repeat, indexes), sides in zip(shares, orders, strict=False)
    )


def n_starts(order: tuple[Block, ...]) -> int:
    """Number of server starts if only one fits in memory: one per change of sides."""
    sides = [side for block in order for side in block.sides]
    return sum(side != before for side, before in zip(sides, [None, *sides], strict=False))


def _shares(n_prompts: int, repeats: int, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    for repeat in range(repeats):
        for start in range(0, n_prompts, size):
            yield repeat, tuple(range(start, min(start + size, n_prompts)))


def _orders(chance: Random) -> Iterator[tuple[Side, Side]]:
    while True:
        first, second = chance.sample([Side.OFF, Side.ON], 2)
        yield first, second
        yield second, first
