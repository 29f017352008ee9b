"""Order in which cells are measured: random, but with few loads of models."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spectui.sweep.cells import Cell, Place, coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One measurement of a cell on all prompts."""

    cell: Cell
    repeat: int


def ordered(cells: Iterable[Cell], repeats: int, seed: int) -> tuple[Visit, ...]:
    """Visit every cell once per repeat; the same cells and seed give the same order.

    Each repeat is a pass of its own over all cells. Within it, cells of one place stand together,
    since another place costs a load of the target, and within those the cells of one draft. The
    order of the places, of the drafts and of the cells is random. Cells that need no draft model
    are spread over the drafts at random, so that no drafter is measured earlier than another on
    the average.
    """
    visits: list[Visit] = []
    unique = sorted(dict.fromkeys(cells), key=lambda cell: repr(coordinates(cell)))
    for repeat in range(repeats):
        chance = random.Random(f"{seed}/{repeat}")  # noqa: S311 - an order is no secret
        for block in _shuffled_blocks(unique, lambda cell: cell.place, chance):
            drafts = _spread(block, chance)
            for group in _shuffled_blocks(block, drafts.__getitem__, chance):
                visits += [Visit(cell=cell, repeat=repeat) for cell in group]
    return tuple(visits)


def _spread(block: Sequence[Cell], chance: random.Random) -> dict[Cell, str]:
    """The draft model that is loaded while each cell of one place is measured."""
    models = sorted({cell.arm.draft for cell in block if cell.arm.draft is not None}) or [""]
    return {cell: cell.arm.draft or chance.choice(models) for cell in block}


def _shuffled_blocks(
    cells: Sequence[Cell], key: Callable[[Cell], Place | str], chance: random.Random
) -> list[list[Cell]]:
    blocks: dict[Place | str, list[Cell]] = {}
    for cell in cells:
        blocks.setdefault(key(cell), []).append(cell)
    shuffled = list(blocks.values())
    chance.shuffle(shuffled)
    for block in shuffled:
        chance.shuffle(block)
    return shuffled


def n_loads(visits: Sequence[Visit]) -> int:
    """Number of loads of the target over all visits."""
    places = [visit.cell.place for visit in visits]
    return sum(place != before for place, before in zip(places, [None, *places], strict=False))
