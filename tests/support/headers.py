"""Where the fields of a GGUF's header lie, for who wants to break them."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


class Part(StrEnum):
    VERSION = "version"
    COUNT = "count"
    LENGTH = "length"
    TYPE = "type"
    VALUE = "value"
    DIMENSION = "dimension"
    OFFSET = "offset"


@dataclass(frozen=True, kw_only=True)
class Field:
    part: Part
    at: int
    size: int
    key: str = ""
    """The value's or tensor's name."""

    def put(self, data: bytes, number: int) -> bytes:
        """Return ``data`` with another number in this field, as much of it as there is room for."""
        new = number.to_bytes(16, "little", signed=number < 0)[: self.size]
        return data[: self.at] + new + data[self.at + self.size :]


def fields(data: bytes) -> tuple[Field, ...]:
    """Return every number of a valid header in order; of long lists only the first few."""
    return tuple(_Walk(data).fields())


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4
        self._key = ""

    def fields(self) -> Iterator[Field]:
        yield self._field(Part.VERSION, 4)
        n_tensors = yield from self._number(Part.COUNT, 8)
        n_values = yield from self._number(Part.COUNT, 8)
        for _ in range(n_values):
            yield from self._name()
            kind = yield from self._number(Part.TYPE, 4)
            yield from self._value(kind)
        for _ in range(n_tensors):
            yield from self._name()
            n_dims = yield from self._number(Part.COUNT, 4)
            for _dim in range(n_dims):
                yield self._field(Part.DIMENSION, 8)
            yield self._field(Part.TYPE, 4)
            yield self._field(Part.OFFSET, 8)

    def _name(self) -> Iterator[Field]:
        begin = self._at + 8
        yield from self._string()
        self._key = self._data[begin : self._at].decode()

    def _value(self, kind: int) -> Iterator[Field]:
        if kind == _STRING:
            yield from self._string()
        elif kind == _ARRAY:
            of = yield from self._number(Part.TYPE, 4)
            n = yield from self._number(Part.COUNT, 8)
            for index in range(n):
                found = tuple(self._value(of))
                yield from found if index < 2 else ()
        else:
            yield self._field(Part.VALUE, _SIZES[kind])

    def _string(self) -> Iterator[Field]:
        n = yield from self._number(Part.LENGTH, 8)
        self._at += n

    def _number(self, part: Part, size: int) -> Generator[Field, None, int]:
        yield self._field(part, size)
        return int.from_bytes(self._data[self._at - size : self._at], "little")

    def _field(self, part: Part, size: int) -> Field:
        self._at += size
        return Field(part=part, at=self._at - size, size=size, key=self._key)
