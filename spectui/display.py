"""Text and names of files as they may be shown: what a terminal would obey or hide is visible."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from rich.cells import cell_len, get_character_cell_size

_TAB = "    "
_ZWNJ, _SOFT_HYPHEN = "\u200c", "\u00ad"
_HANGUL_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F
_CONTROL_PICTURES, _PICTURE_OF_DELETE = 0x2400, "\u2421"
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_FIRST_SURROGATE = 0xDC00


def displayed(text: str) -> str:
    """Return a part of a text as it is displayed, the same for every way of cutting the whole.

    Newlines stay, returns do not; tabs become spaces. Zero-width joiners are left out: terminals
    disagree on the width of what they join.
    """
    return text if text.isprintable() else "".join(map(_displayed, text))


def _displayed(character: str) -> str:
    match character:
        case "\n":
            return character
        case "\r" | "\u200d":
            return ""
        case "\t":
            return _TAB
        case _:
            return shown(character)


@lru_cache(maxsize=4096)
def shown(character: str, *, ascii_only: bool = False) -> str:
    """Return the displayed form of a character: itself, or the visible form of a control.

    Args:
        character: One character that is neither a tab nor a newline.
        ascii_only: Write controls as ``^[`` instead of their pictures.
    """
    code = ord(character)
    if code < _FIRST_PRINTABLE or code == _DELETE:
        if ascii_only:
            return "^" + chr(code ^ 0x40)
        return _PICTURE_OF_DELETE if code == _DELETE else chr(_CONTROL_PICTURES + code)
    if ascii_only and character == "\ufffd":
        return "?"
    category = unicodedata.category(character)
    invisible = category == "Cf" and get_character_cell_size(character) == 0
    if (
        category in {"Cc", "Cs", "Zl", "Zp"}
        or (invisible and character != _ZWNJ)
        or character == _SOFT_HYPHEN
        or character in _HANGUL_FILLERS
    ):
        return f"<U+{code:04X}>"
    return character


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return ``text`` on one line, without anything that a terminal would obey or hide.

    Bytes of a file's name that are no UTF-8 are written as ``\xff``, the way a shell lists them.
    """
    text = _UNDECODABLE.sub(lambda match: f"\\x{ord(match[0]) - _FIRST_SURROGATE:02x}", text)
    return "".join(shown(one, ascii_only=ascii_only) for one in text.replace("\t", _TAB))


def fit(text: str, width: int, ellipsis: str = "…") -> str:
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


def clip(text: str, width: int) -> str:
    """Cut the end off ``text`` until it takes at most ``width`` cells."""
    if cell_len(text) <= width:
        return text
    return _head(text, width - 1) + "…" if width > 1 else _head(text, max(width, 0))


def _head(text: str, width: int) -> str:
    for index, character in enumerate(text):
        width -= get_character_cell_size(character)
        if width < 0:
            return text[:index]
    return text


def aligned(
    text: str,
    width: int,
    *,
    right: bool = False,
    cut: Callable[[str, int], str] = clip,
) -> str:
    """Return ``text`` in exactly ``width`` cells; where it is longer, it is ``cut``."""
    text = cut(text, width)
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding
