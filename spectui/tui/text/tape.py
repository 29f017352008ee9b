"""Text that only grows: characters in chunks, and what kind each run of them is."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

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
