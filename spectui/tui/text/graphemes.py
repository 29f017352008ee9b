"""Characters as people count them, with the widths that rich gives them."""

from collections.abc import Iterator

from rich.cells import cell_len, get_character_cell_size

REGIONAL_INDICATORS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
"""Letters; two of them make a flag."""

_ZWJ = "\u200d"


def continues(before: str, after: str) -> bool:
    """Whether a code point belongs to the same character as the one before it."""
    return before == _ZWJ or (get_character_cell_size(after) == 0 and after != "\n")


def graphemes(text: str, start: int) -> Iterator[tuple[int, int, int]]:
    """Characters of a text from a position on: start, end, and width in cells.

    A newline is a character of its own. A flag's two letters are one character.
    """
    position = start
    while position < len(text):
        end = position + 1
        if text[position] != "\n":
            if REGIONAL_INDICATORS.issuperset(text[position : end + 1]):
                end = min(end + 1, len(text))
            while end < len(text) and continues(text[end - 1], text[end]):
                end += 1
        if end == position + 1:
            cells = get_character_cell_size(text[position])
        else:
            cells = cell_len(text[position:end])
        yield position, end, cells
        position = end
