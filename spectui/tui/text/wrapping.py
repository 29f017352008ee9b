"""Where lines start: word wrap of text that grows, in cells, one line from the last one's start."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.cells import get_character_cell_size

from spectui.tui.text.graphemes import REGIONAL_INDICATORS, graphemes
from spectui.tui.text.store import CHUNK_CHARS, Tape

MIN_WIDTH = 2
"""Cells; a wide character needs two."""

_NEVER_FIRST = frozenset({"Pe", "Pf", "Po"})
"""Unicode categories of what closes: brackets, quotation marks, stops."""

_WIDE = 2


def line_starts(tape: Tape, start: int, width: int, *, with_rejected: bool) -> Iterator[int]:
    """Offsets of the lines after the one at ``start``, up to the tape's end at that time.

    What a line holds depends only on what follows its start, and an ended line does not change when
    text is appended. So going on from the last line's start gives what starting anew gives.

    Args:
        tape: The text.
        start: Offset of a line's first character.
        width: Cells of a line, at least `MIN_WIDTH`.
        with_rejected: Whether rejected drafts take part.
    """
    size = CHUNK_CHARS
    while True:
        stop = min(start + size, len(tape))
        parts = list(tape.visible(start, stop, with_rejected=with_rejected))
        text = "".join(part for _, part in parts)
        bounds = [0, *accumulate(len(part) for _, part in parts)]
        position = 0
        while (end := line_end(text, position, width)) is not None:
            position = end
            # Right after the last visible character: what is hidden belongs to the next line.
            part = bisect_left(bounds, position) - 1
            start = parts[part][0] + position - bounds[part]
            yield start
        if stop == len(tape):
            return
        size = CHUNK_CHARS if position else 2 * size


def line_end(text: str, start: int, width: int) -> int | None:
    """Return the position after a line, None while text that is still to come may belong to it.

    A line ends after a newline, else after the last space that fits, else beside a wide character,
    else inside a word. Spaces hang over its end, but no more than fit on a line.
    """
    candidate = text[start : start + width + 1]
    if candidate.isascii():
        newline = candidate.find("\n")
        if newline >= 0:
            return start + newline + 1
        if len(candidate) <= width:
            return None
        full, at_wide = start + width, 0
    else:
        full, at_wide = _fill(text, start, width)
        if full == len(text):
            return None
        if text[full] == "\n":
            return full + 1
    if text[full] == " ":
        return _after_spaces(text, full, width)
    at_space = text.rfind(" ", start, full) + 1
    cut = max(at_space, at_wide)
    return cut if text[start:cut].strip(" ") else full


def _after_spaces(text: str, start: int, width: int) -> int | None:
    position = start
    while position < len(text) and text[position] == " " and position < start + width:
        position += 1
    if position == len(text):
        return None
    return position + 1 if text[position] == "\n" else position


def _fill(text: str, start: int, width: int) -> tuple[int, int]:
    """Fill one line with characters of any width.

    Returns:
        The position of the newline or of the first character that does not fit, and the last
        position up to there at which a wide character allows a break (0 for none).
    """
    positions, cells = _measure(text, start, width)
    n_fitting = bisect_right([*accumulate(cells)], width)
    if n_fitting == 0 and text[start] != "\n":
        n_fitting = 1
    if n_fitting == len(cells):
        return len(text), 0
    breaks = (
        positions[i]
        for i in range(n_fitting, 0, -1)
        if _may_break(text[positions[i]], text[positions[i - 1]])
    )
    return positions[n_fitting], next(breaks, 0) if _WIDE in cells else 0


def _measure(text: str, start: int, width: int) -> tuple[Sequence[int], list[int]]:
    """Positions and widths of characters, at least up to the first one that does not fit.

    A newline never fits.
    """
    candidate, newline, _ = text[start : start + width + 1].partition("\n")
    cells = [*map(get_character_cell_size, candidate)]
    if 0 not in cells and REGIONAL_INDICATORS.isdisjoint(candidate):
        cells += [width + 1] * len(newline)
        return range(start, start + len(cells)), cells
    positions = []
    cells = []
    used = 0
    for position, _, wide in graphemes(text, start):
        positions.append(position)
        cells.append(width + 1 if text[position] == "\n" else wide)
        used += cells[-1]
        if used > width:
            break
    return positions, cells


def _may_break(first: str, before: str) -> bool:
    if get_character_cell_size(first) == _WIDE:
        return unicodedata.category(first) not in _NEVER_FIRST
    return first.isalnum() and get_character_cell_size(before) == _WIDE
