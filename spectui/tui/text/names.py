"""Names of files as they may be shown: safe, short, on one line."""

import re

from rich.cells import cell_len, get_character_cell_size

from spectui.tui.text.display import Display, shown

_UNDECODABLE = re.compile("[\udc80-\udcff]")
_FIRST_SURROGATE = 0xDC00


def visible(text: str, *, ascii_only: bool) -> str:
    r"""Return ``text`` on one line, without anything that a terminal would obey or hide.

    Bytes of a file's name that are no UTF-8 are written as ``\xff``, the way a shell lists them.
    """
    text = _UNDECODABLE.sub(lambda match: f"\\x{ord(match[0]) - _FIRST_SURROGATE:02x}", text)
    text = text.replace("\n", shown("\n", ascii_only=ascii_only))
    display = Display(ascii_only=ascii_only)
    return display.feed(text) + display.flush()


def fit(text: str, width: int, ellipsis: str) -> str:
    """Cut the middle out of ``text`` until it takes at most ``width`` cells.

    What tells two models apart stands at both ends: the family in front, the quantisation behind.
    """
    if cell_len(text) <= width:
        return text
    left = width - cell_len(ellipsis)
    if left <= 0:
        return _head(text, max(width, 0))
    tail = _head(text[::-1], left // 2)[::-1]
    return _head(text, left - cell_len(tail)) + ellipsis + tail


def clip(text: str, width: int, ellipsis: str) -> str:
    """Cut the end off ``text`` until it takes at most ``width`` cells."""
    if cell_len(text) <= width:
        return text
    left = width - cell_len(ellipsis)
    return _head(text, left) + ellipsis if left > 0 else _head(text, max(width, 0))


def _head(text: str, width: int) -> str:
    for index, character in enumerate(text):
        width -= get_character_cell_size(character)
        if width < 0:
            return text[:index]
    return text
