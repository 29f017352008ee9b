"""Text and names of files as they may be shown: what a terminal would obey or hide is visible."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from rich.cells import cell_len, get_character_cell_size

TAB_CELLS = 4
MAX_MARKS = 16
"""Combining marks on one character. More are no script, but a way to break a screen."""

_CR, _ZWJ, _ZWNJ, _SOFT_HYPHEN = "\r", "\u200d", "\u200c", "\u00ad"
_HANGUL_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F
_CONTROL_PICTURES, _PICTURE_OF_DELETE = 0x2400, "\u2421"
_split_lines = re.compile("(\n)").split
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_FIRST_SURROGATE = 0xDC00


def code_point(character: str) -> str:
    """Return a character's number between angle brackets, as in ``<U+202E>``."""
    return f"<U+{ord(character):04X}>"


@lru_cache(maxsize=4096)
def shown(character: str, *, ascii_only: bool) -> str:
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
        return code_point(character)
    return character


class Display:
    """Turns a stream of text into what is shown, the same for every way of cutting the stream.

    Newlines stay, also after a carriage return; tabs become spaces. A zero-width joiner stays
    between two symbols, where it makes one emoji of them, and is left out elsewhere: terminals and
    rich disagree there on the width of what follows.
    """

    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._held = ""
        self._column = 0
        self._base = ""
        self._marks = 0
        self._joining = False

    def feed(self, text: str) -> str:
        """Return the displayed form of the next text; a return or joiner at its end waits."""
        return "".join(map(self._feed_part, _split_lines(text)))

    def flush(self) -> str:
        """Return the displayed form of the waiting rest, at the end of the stream."""
        return self._release("")

    def _feed_part(self, part: str) -> str:
        if not part or self._held or not part.isprintable():
            return "".join(map(self._take, part))
        widths = [1] * len(part) if part.isascii() else list(map(get_character_cell_size, part))
        if 0 in widths or "\ufffd" in part:
            return "".join(map(self._take, part))
        # Most text comes this way, ten times as fast as one character at a time.
        self._column += sum(widths)
        self._base = part[-1]
        self._marks = 0
        return part

    def _take(self, character: str) -> str:
        released = self._release(character)
        if character in {_CR, _ZWJ}:
            self._held = character
            return released
        return released + self._write(character)

    def _release(self, following: str) -> str:
        held, self._held = self._held, ""
        if held == _CR and following != "\n":
            return self._write(_CR)
        if held == _ZWJ and self._joins(following):
            self._marks += 1
            self._joining = True
            return _ZWJ
        return ""

    def _joins(self, following: str) -> bool:
        symbols = self._base + following
        return self._marks < MAX_MARKS and [*map(unicodedata.category, symbols)] == ["So", "So"]

    def _write(self, character: str) -> str:
        if character == "\n":
            self._column, self._base, self._marks = 0, "", 0
            return "\n"
        if character == "\t":
            visible = " " * (TAB_CELLS - self._column % TAB_CELLS)
        else:
            visible = shown(character, ascii_only=self._ascii_only)
        if visible == character and get_character_cell_size(character) == 0:
            # A mark: it needs something to stand on.
            if self._base.strip() and self._marks < MAX_MARKS:
                self._marks += 1
                return character
            visible = code_point(character)
        self._advance(visible)
        return visible

    def _advance(self, visible: str) -> None:
        joined, self._joining = self._joining, False
        self._base = visible[-1]
        if not joined:
            self._marks = 0
            self._column += sum(map(get_character_cell_size, visible))


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


def aligned(
    text: str,
    width: int,
    *,
    right: bool = False,
    ellipsis: str = "",
    cut: Callable[[str, int, str], str] = clip,
) -> str:
    """Return ``text`` in exactly ``width`` cells; where it is longer, it is ``cut``."""
    text = cut(text, width, ellipsis)
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding
