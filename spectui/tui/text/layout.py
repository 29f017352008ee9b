"""Text that only grows, and its lines at one width.

Characters lie in chunks, with the kind of each run of them. Words are wrapped in cells; lines are
extended as text arrives, and renewed in slices.
"""

import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, islice
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size

CHUNK_CHARS = 4096


class Kind(IntEnum):
    """Kind of a run of characters."""

    USER = 0
    NOTICE = 1
    DRAFT = 2
    TARGET = 3
    REJECTED = 4
    NOTE = 5


class Span(NamedTuple):
    """Characters of one kind."""

    start: int
    """Offset of the first one."""
    text: str
    kind: Kind


class TextStore:
    """Characters by offset. Appending copies at most one chunk of what is there."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks = [""]

    def __len__(self) -> int:
        return (len(self._chunks) - 1) * CHUNK_CHARS + len(self._chunks[-1])

    def append(self, text: str) -> None:
        """Add text at the end."""
        tail = self._chunks.pop() + text
        self._chunks += (tail[i : i + CHUNK_CHARS] for i in range(0, len(tail), CHUNK_CHARS))
        if len(tail) % CHUNK_CHARS == 0:
            # The last chunk is the one with room.
            self._chunks.append("")

    def slice(self, start: int, stop: int) -> str:
        """Characters from ``start`` to before ``stop``, which may lie behind the end."""
        first = start // CHUNK_CHARS
        base = first * CHUNK_CHARS
        chunks = self._chunks[first : stop // CHUNK_CHARS + 1]
        return "".join(chunks)[start - base : stop - base]


class Tape:
    """Text with a kind for each character: 1 byte a character while it is ASCII, 5 bytes a run."""

    __slots__ = ("_kinds", "_run_starts", "_text")

    def __init__(self) -> None:
        self._text = TextStore()
        self._run_starts = array("I")
        self._kinds = bytearray()

    def __len__(self) -> int:
        return len(self._text)

    def append(self, text: str, kind: Kind) -> None:
        """Add text at the end."""
        if not text:
            return
        if not self._kinds or self._kinds[-1] != kind:
            self._run_starts.append(len(self))
            self._kinds.append(kind)
        self._text.append(text)

    def ends_with(self, suffix: str) -> bool:
        """Whether the last characters are these."""
        return self._text.slice(max(0, len(self) - len(suffix)), len(self)) == suffix

    def spans(self, start: int, stop: int, *, with_rejected: bool) -> Iterator[Span]:
        """Runs from ``start`` to before ``stop``, rejected drafts only where they are asked for."""
        stop = min(stop, len(self))
        text = self._text.slice(start, stop)
        run = bisect_right(self._run_starts, start) - 1
        offset = start
        while offset < stop:
            following = run + 1
            end = self._run_starts[following] if following < len(self._kinds) else stop
            kind = Kind(self._kinds[run])
            if with_rejected or kind is not Kind.REJECTED:
                yield Span(offset, text[offset - start : min(end, stop) - start], kind)
            offset, run = end, following

    def visible(self, start: int, stop: int, *, with_rejected: bool) -> Iterator[tuple[int, str]]:
        """Texts of `spans` of whatever kind, with offsets, cut where text is left out."""
        stop = min(stop, len(self))
        run = max(0, bisect_right(self._run_starts, start) - 1)
        last = bisect_left(self._run_starts, stop)
        while not with_rejected and (run := self._kinds.find(Kind.REJECTED, run, last)) >= 0:
            if start < self._run_starts[run]:
                yield start, self._text.slice(start, self._run_starts[run])
            run += 1
            start = self._run_starts[run] if run < len(self._run_starts) else stop
        if start < stop:
            yield start, self._text.slice(start, stop)


REGIONAL_INDICATORS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
"""Letters; two of them make a flag."""

_ZWJ = "\u200d"
MIN_WIDTH = 2
"""Cells; a wide character needs two."""
_NEVER_FIRST = frozenset({"Pe", "Pf", "Po"})
"""Unicode categories of what closes: brackets, quotation marks, stops."""
_WIDE = 2
LINES_PER_CHECK = 32
"""Lines between two looks at the clock."""


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


class Layout:
    """Offsets at which lines start: 4 bytes a line.

    After a change of width the old lines stay until all new ones are found. Till then they say
    where in the text the screen is, and `lines_from` says what it shows there.
    """

    def __init__(self, tape: Tape, *, width: int, with_rejected: bool) -> None:
        self.tape = tape
        self.width = width
        self.with_rejected = with_rejected
        self._starts = array("I", [0])
        self._renewed = array("I")
        self._renewal: Iterator[int] | None = None
        self.extend()

    @property
    def line_count(self) -> int:
        """Lines; an empty last one does not count."""
        return len(self._starts) - (self._starts[-1] == len(self.tape))

    @property
    def renewing(self) -> bool:
        """Whether the lines are still those of an earlier width."""
        return self._renewal is not None

    def line(self, index: int) -> tuple[int, int]:
        """Offsets of a line's first character and of the next line's."""
        following = index + 1
        end = self._starts[following] if following < len(self._starts) else len(self.tape)
        return self._starts[index], end

    def line_at(self, offset: int) -> int:
        """Index of the line that holds a character."""
        return bisect_right(self._starts, offset) - 1

    def lines_from(self, start: int, count: int) -> list[tuple[int, int]]:
        """At most ``count`` lines at the new width, the first one from ``start``."""
        starts = [start, *islice(self._wrap(start), count)]
        ends = [*starts[1:], len(self.tape)]
        return list(zip(starts, ends, strict=True))[:count]

    def last_lines(self, count: int) -> list[tuple[int, int]]:
        """At most ``count`` lines at the new width, up to the end."""
        back = count * self.width
        while True:
            start, _ = self.line(self.line_at(max(0, len(self.tape) - back)))
            lines = self.lines_from(start, back)
            if start == 0 or len(lines) > count:
                return lines[-count:]
            back *= 2

    def extend(self) -> int:
        """Lay out what was appended; return the index of the first line that changed."""
        last = len(self._starts) - 1
        self._starts.extend(self._wrap(self._starts[last]))
        return last

    def renew(self, *, width: int, with_rejected: bool) -> None:
        """Begin to lay everything out anew; `step` does it."""
        self.width = width
        self.with_rejected = with_rejected
        self._renewed = array("I", [0])
        self._renewal = self._wrap(0)

    def step(self, is_time_up: Callable[[], bool]) -> bool:
        """Go on with the renewal until it is done or time is up; return whether it is done."""
        while self._renewal is not None:
            known = len(self._renewed)
            self._renewed.extend(islice(self._renewal, LINES_PER_CHECK))
            if len(self._renewed) == known:
                self._starts, self._renewal = self._renewed, None
                self.extend()
            elif is_time_up():
                return False
        return True

    def _wrap(self, start: int) -> Iterator[int]:
        return line_starts(self.tape, start, self.width, with_rejected=self.with_rejected)
