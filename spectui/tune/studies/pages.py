"""Rows of a SQLite file by its pages, where no table leads to them any more.

A page of a table's rows holds them whole, but does not name the table
(https://www.sqlite.org/fileformat2.html).
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from mmap import mmap

Values = tuple[object, ...]
Row = tuple[int, Values]
"""Number of a row, and its values; one that is the number itself is None there."""

MAGIC = b"SQLite format 3\0"
_USUAL_BYTES = 4096
_HEADER = 100
_INNER, _LEAF = 5, 13
"""Kinds of a table's pages."""
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Kinds of values, and their bytes."""
_FLOAT, _ZERO, _ONE, _TEXTS = 7, 8, 9, 12
_LONGEST_VARINT = 9
_MORE = 0x80
"""Bit of a number's byte behind which there is another one."""


class Pages:
    """The pages of a file, counted from 1."""

    def __init__(self, content: bytes | mmap) -> None:
        """Take a file's content; without a header its pages are taken to be of the usual size."""
        self._content = content
        has_header = content[: len(MAGIC)] == MAGIC
        told = int.from_bytes(content[16:18], "big") if has_header else _USUAL_BYTES
        self._bytes = 65_536 if told == 1 else max(told, 512)
        self._usable = self._bytes - (content[20] if has_header else 0)
        self._first_free = int.from_bytes(content[32:36], "big") if has_header else 0
        self._n_pages = len(content) // self._bytes

    def rows(self, but_of: Iterable[int]) -> Iterator[list[Row]]:
        """The rows of every page that has some, but for those of tables with these first pages."""
        known = self._free()
        for first in but_of:
            self._walk(first, known)
        for number in range(1, self._n_pages + 1):
            if number not in known and self._kind(number) == _LEAF:
                yield list(self._rows_of(number))

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self._n_pages:
            return b""
        return self._content[(number - 1) * self._bytes : number * self._bytes]

    def _kind(self, number: int) -> int | None:
        start = _HEADER if number == 1 else 0
        return next(iter(self._page(number)[start : start + 1]), None)

    def _free(self) -> set[int]:
        """Pages that are not used, which may hold what was deleted."""
        found: set[int] = set()
        number = self._first_free
        while number not in found and (page := self._page(number)):
            found.add(number)
            number, n = struct.unpack_from(">II", page)
            room = min(n, (self._bytes - 8) // 4)
            found.update(struct.unpack_from(f">{room}I", page, 8))
        return found

    def _walk(self, first: int, known: set[int]) -> None:
        """Add the pages of a table."""
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if number in known or not self._page(number):
                continue
            known.add(number)
            if self._kind(number) == _INNER:
                page, start = self._page(number), _HEADER if number == 1 else 0
                waiting.append(int.from_bytes(page[start + 8 : start + 12], "big"))
                cells = self._cells(page, start, 12)
                waiting.extend(int.from_bytes(page[at : at + 4], "big") for at in cells)

    @staticmethod
    def _cells(page: bytes, start: int, head: int) -> list[int]:
        n = int.from_bytes(page[start + 3 : start + 5], "big")
        room = min(n, (len(page) - start - head) // 2)
        return list(struct.unpack_from(f">{room}H", page, start + head))

    def _rows_of(self, number: int) -> Iterator[Row]:
        page = self._page(number)
        for at in self._cells(page, _HEADER if number == 1 else 0, 8):
            with suppress(ValueError, IndexError, struct.error):
                size, at = _varint(page, at)  # noqa: PLW2901 - onwards
                rowid, at = _varint(page, at)  # noqa: PLW2901
                yield rowid, _values(self._payload(page, at, size))

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """Bytes of a row, which may go on in further pages.

        Raises:
            ValueError: they are not all there.
        """
        if size > len(self._content):
            raise ValueError(size)
        room = self._usable - 35
        if size <= room:
            return page[at : at + size]
        least = (self._usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (self._usable - 4)
        here = here if here <= room else least
        parts, left = [page[at : at + here]], size - here
        number, seen = int.from_bytes(page[at + here : at + here + 4], "big"), set[int]()
        while left > 0:
            more = self._page(number)
            if number in seen or not more:
                raise ValueError(number)
            seen.add(number)
            parts.append(more[4 : 4 + min(left, self._usable - 4)])
            left -= len(parts[-1])
            number = int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for n in range(_LONGEST_VARINT):
        byte = content[at + n]
        if n == _LONGEST_VARINT - 1:
            value = value << 8 | byte
            break
        value = value << 7 | byte & ~_MORE
        if byte < _MORE:
            break
    signed = value - (1 << 64) if value >= 1 << 63 else value
    return signed, at + n + 1


def _values(payload: bytes) -> Values:
    """The values of a row.

    Raises:
        IndexError, ValueError: it is none.
    """
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    found: list[object] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        found.append(value)
    if at != len(payload):
        raise ValueError(at)
    return tuple(found)


def _value(payload: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind in {0, _ZERO, _ONE}:
        return (None if kind == 0 else kind - _ZERO), at
    if kind in _INTEGERS or kind == _FLOAT:
        size = _INTEGERS.get(kind, 8)
        part = payload[at : at + size]
        if kind == _FLOAT:
            return struct.unpack(">d", part)[0], at + size
        return int.from_bytes(part, "big", signed=True), at + size
    if kind < _TEXTS:
        raise ValueError(kind)
    size = (kind - _TEXTS) // 2
    part = payload[at : at + size]
    return (part.decode() if kind % 2 else part), at + size
