"""Levels of detail: blocks of lines compete for the height that a panel has."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Part = tuple[str, str]
"""Text, and how it looks: a component class of the panels, empty for plain."""
Line = tuple[Part, ...]
Lines = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """One variant of a text."""

    rank: int
    """0 is what must be there first."""
    height: int
    draw: Callable[[], Lines]
    """Called only for forms that are shown: charts cost time."""


Block = tuple[Form, ...]
"""Something to say, in forms that replace each other; none if there is nothing."""


def block(*forms: tuple[int, Lines]) -> Block:
    """Return a block of forms, each given by its rank and its lines."""
    return tuple(_written(rank, lines) for rank, lines in forms if lines)


def growing(rank: int, forms: Iterable[Lines], step: int = 1) -> Block:
    """Return a block of forms, each ranked ``step`` behind the one before."""
    return block(*((rank + step * index, lines) for index, lines in enumerate(forms)))


def charted(rank: int, step: int, forms: Iterable[tuple[int, Callable[[], Lines]]]) -> Block:
    """Return a block of forms that are drawn when shown, each given by its height."""
    return tuple(
        Form(rank + step * index, height, draw) for index, (height, draw) in enumerate(forms)
    )


def fit(blocks: Sequence[Block], height: int) -> list[Line]:
    """Choose a form of each block, or none, for ``height`` lines.

    Forms are tried by rank; one takes the place of its block's form so far if there is room for it.
    The order on screen is that of ``blocks``.
    """
    tries = [(index, form) for index, forms in enumerate(blocks) for form in forms]
    chosen: dict[int, Form] = {}
    room = height
    for index, form in sorted(tries, key=_rank):
        spare = room + (chosen[index].height if index in chosen else 0)
        if form.height <= spare:
            chosen[index] = form
            room = spare - form.height
    return [line for index in sorted(chosen) for line in chosen[index].draw()]


def _rank(candidate: tuple[int, Form]) -> int:
    return candidate[1].rank


def _written(rank: int, lines: Lines) -> Form:
    return Form(rank, len(lines), lambda: lines)


def cells(line: Iterable[Part]) -> int:
    """Return a line's width. All that panels write is one cell wide per character."""
    return sum(len(text) for text, _look in line)


def spread(left: Line, right: Line, width: int) -> Line:
    """Return one line with ``right`` at the right end; without it where there is no room."""
    gap = width - cells(left) - cells(right)
    return (*left, (" " * gap, ""), *right) if gap > 0 else left


def crop(line: Line, width: int, ellipsis: str) -> Line:
    """Return ``line`` within ``width`` characters."""
    if cells(line) <= width:
        return line
    room = max(width - len(ellipsis), 0)
    parts: list[Part] = []
    for text, look in line:
        parts.append((text[:room], look))
        room -= len(parts[-1][0])
    return (*parts, (ellipsis[:width], ""))
