"""Values of llama-server's options, as each dialect reads them; ``tables/values.txt`` has them."""

import csv
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from spectui.commands.server_options import server_option, table
from spectui.options.dialect import Dialect

_INT = (-(2**31), 2**31 - 1)
_LONG = 2**64 - 1
_SHORT = 2**16
_LARGEST, _SMALLEST = 3.4028235e38, 1.17549435e-38
"""Limits of a float, beyond which ``std::stof`` fails."""
# ASCII: C knows no other blanks and digits.
_WHOLE = re.compile(r"\s*[+-]?\d+", re.ASCII)
_DIGITS = r"0x[\da-f]+(?:\.[\da-f]*)?(?:p[+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_FINITE = re.compile(rf"\s*[+-]?(?:{_DIGITS})", re.IGNORECASE | re.ASCII)
_DECIMAL = re.compile(rf"\s*[+-]?(?:{_DIGITS}|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)
_BIAS = re.compile(r"\s*[+-]?\d+\s*[+-](.*)", re.DOTALL | re.ASCII)
_METADATA = re.compile(
    r"([^=]*)=(?:int:.*|float:.*|bool:(?:true|false)|str:(?P<text>.*))", re.DOTALL
)
_MOST_METADATA = 127
"""Most bytes of a key and of a text of metadata."""
_BLANKS = " \t\n\r\f\v"
_NUMBERS = {
    "whole": ("a whole number", _WHOLE),
    "short": ("a whole number", _WHOLE),
    "unsigned": ("a whole number", _WHOLE),
    "decimal": ("a number", _DECIMAL),
    "finite": ("a number", _FINITE),
    "exact": ("a number", _DECIMAL),
}
_MOST_CPUS = 512
_MOST = re.compile(r"x(\d+)")
_RANGE = re.compile(r"(-?\d*)\.\.(-?\d*)")
_SEPARATORS = re.compile(r"[,/]+")
_EMPTY = "''"
"""The empty word in a table."""
_PAIR, _TRIPLE = 2, 3
_MOST_SHOWN = 20
"""Most words that a sentence lists beside a form."""
_TABLES = {Dialect.IK: "ik-values"}
"""Tables of the dialects that have one of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of one option."""

    what: str
    """Description of the values for sentences."""
    words: tuple[str, ...] = ()
    """Valid words."""
    number: str | None = None
    """Kind of number in the table; None if only words are valid."""
    low: float = -math.inf
    high: float = math.inf
    refused: float | None = None
    is_list: bool = False
    most: float = math.inf
    """Maximum number of numbers in a list."""
    form: str | None = None
    """Name of the form, if values are not only words and no numbers."""
    is_folded: bool = False
    """Whether the case of words is ignored."""
    only_last: bool = False
    """Whether the first of two values is any text."""

    def read(self, value: str) -> str | None:
        """The part of a value that the server reads; None if it refuses the value."""
        if (value.lower() if self.is_folded else value) in self.words:
            return value
        if self.form is not None:
            return value if _FORMS[self.form][1](value) else None
        if self.number is None:
            return None
        parts = self._parts(value)
        if len(parts) > self.most:
            return None
        read = [self._number(part) for part in parts]
        if None in read:
            return None
        return value if read == parts else ",".join(filter(None, read))

    def _parts(self, value: str) -> list[str]:
        if not self.is_list:
            return [value]
        if self.number == "exact":
            return value.split(",")
        parts = _SEPARATORS.split(value)
        # Nothing behind the last separator is no part.
        return parts[:-1] if len(parts) > 1 and not parts[-1] else parts

    def _number(self, text: str) -> str | None:
        assert self.number is not None  # noqa: S101 - asked before
        found = _NUMBERS[self.number][1].match(text)
        if found is None or (self.number == "exact" and found.end() < len(text.rstrip(_BLANKS))):
            return None
        number = _value(self.number, found[0])
        if number is None or number < self.low or number > self.high or number == self.refused:
            return None
        return found[0]


def values_of(flag: str, dialect: Dialect = Dialect.LLAMA_CPP) -> Values | None:
    """Valid values behind a flag in a dialect; None if unknown or unrestricted."""
    option = server_option(flag)
    if option is None:
        return None
    return _by_flag(_TABLES.get(dialect, "values")).get(option.long_flag)


def takes_values(flag: str, values: tuple[str, ...], dialect: Dialect) -> bool:
    """Whether a dialect that has the option reads as many values, and these."""
    option = server_option(flag)
    count = None if option is None else option.counts.get(dialect)
    if count is not None and count != len(values):
        return False
    known = values_of(flag, dialect)
    checked = values[-1:] if known is not None and known.only_last else values
    return known is None or all(known.read(value) is not None for value in checked)


@cache
def listed_flags(dialect: Dialect = Dialect.LLAMA_CPP) -> frozenset[str]:
    """Every flag of a dialect's table, including those that take any text."""
    return frozenset(flag for line in _lines(_TABLES.get(dialect, "values")) for flag in line[1])


@cache
def values_by_name(name: str) -> dict[str, Values | None]:
    """The values in a table of other names than flags; None for any text."""
    return {one: _values(kind) for kind, names in _lines(name) for one in names}


def _lines(name: str) -> list[tuple[list[str], list[str]]]:
    halves = (line.split("|") for line in table(name))
    return [(left.split(), right.split()) for left, right in halves]


@cache
def _by_flag(name: str) -> dict[str, Values]:
    found = values_by_name(name).items()
    return {_long(flag): values for flag, values in found if values is not None}


def _long(flag: str) -> str:
    option = server_option(flag)
    return flag if option is None else option.long_flag


def _values(line: list[str]) -> Values | None:
    kind, *rest = line
    if kind == "text":
        return None
    if kind == "form":
        form, *words = rest
        words = [word.replace(_EMPTY, "") for word in words]
        shown = [_FORMS[form][0], *(words if len(words) <= _MOST_SHOWN else ())]
        return Values(what=", ".join(shown), words=tuple(words), form=form)
    if kind in {"one", "folded"}:
        words = [word.replace(_EMPTY, "") for word in rest]
        spelled: dict[str, str] = {}
        for word in filter(None, words):
            # Of two that differ in case the first is told.
            spelled.setdefault(word.lower(), word)
        return Values(
            what=f"one of {', '.join(spelled.values())}",
            words=tuple(words),
            is_folded=kind == "folded",
        )
    only_last = kind == "last"
    return _numbers(*(rest if only_last else line), only_last=only_last)


def _numbers(kind: str, *rest: str, only_last: bool) -> Values:
    is_list = kind not in _NUMBERS
    number = kind.removesuffix("s") if is_list else kind
    low, high = next((m.groups() for word in rest if (m := _RANGE.fullmatch(word))), ("", ""))
    refused = next((word[1:] for word in rest if word.startswith("!")), None)
    most = next((match[1] for word in rest if (match := _MOST.fullmatch(word))), "")
    marks = {f"!{refused}", f"x{most}"}
    words = tuple(word for word in rest if word not in marks and ".." not in word)
    what = f"{_NUMBERS[number][0]}{_limits(low, high, refused)}"
    if is_list:
        what = f"{what.split(' ', 1)[1]}s with commas between them"
        what = f"at most {most} {what}" if most else what
    return Values(
        what=", or ".join((f"{what} as the last of two" if only_last else what, *words)),
        words=words,
        number=number,
        low=float(low or -math.inf),
        high=float(high or math.inf),
        refused=None if refused is None else float(refused),
        is_list=is_list,
        most=float(most or math.inf),
        only_last=only_last,
    )


def _limits(low: str, high: str, refused: str | None) -> str:
    span = f" from {low} to {high}" if low and high else f" from {low} on" if low else ""
    return span if refused is None else f"{span} but {refused}"


def _value(number: str, text: str) -> float | None:
    """A parsed number; None if it is too large for the server."""
    if number in {"whole", "short"}:
        if not _INT[0] <= Decimal(text) <= _INT[1]:
            return None
        return float(int(text) % _SHORT if number == "short" else text)
    if number == "unsigned":
        return float(text) if Decimal(text).copy_abs() <= _LONG else None
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except OverflowError:
        return None
    if "n" in text.lower():
        # It says inf or nan itself.
        return value
    is_held = value == 0 or _SMALLEST <= abs(value) <= _LARGEST or number == "exact"
    return value if is_held and math.isfinite(value) else None


def _is_whole(text: str) -> bool:
    found = _WHOLE.match(text)
    return found is not None and _value("whole", found[0]) is not None


def _is_unsigned(text: str) -> bool:
    found = _WHOLE.match(text)
    return found is not None and _value("unsigned", found[0]) is not None


def _is_decimal(text: str) -> bool:
    found = _DECIMAL.match(text)
    return found is not None and _value("decimal", found[0]) is not None


def _is_addresses(value: str) -> bool:
    return any(part.strip() for part in _row(value))


def _is_mask(value: str) -> bool:
    return re.fullmatch(r"(0x)?[0-9A-Fa-f]*", value) is not None


def _is_range(value: str) -> bool:
    first, dash, last = value.partition("-")
    ends = [_WHOLE.match(end) for end in (first, last) if end]
    return bool(dash) and all(end is not None and 0 <= Decimal(end[0]) < _MOST_CPUS for end in ends)


def _is_bias(value: str) -> bool:
    found = _BIAS.match(value)
    return found is not None and _is_whole(value) and _is_decimal(found[1])


def _is_scaled(value: str) -> bool:
    pairs = [part.split(":") for part in _row(value)]
    return all(len(pair) == _PAIR and _is_decimal(pair[1]) for pair in pairs)


def _is_metadata(value: str) -> bool:
    return all(map(_is_override, _row(value)))


def _is_override(value: str) -> bool:
    found = _METADATA.fullmatch(value)
    if found is None:
        return False
    return all(len((part or "").encode()) <= _MOST_METADATA for part in found.group(1, "text"))


def _row(value: str) -> list[str]:
    try:
        return [part for row in csv.reader([value]) for part in row] or [value]
    except csv.Error:
        return [value]


def _is_json(value: str) -> bool:
    return _json(value) is not None


def _is_schema(value: str) -> bool:
    found = _json(value)
    return found is not None and isinstance(found[0], dict | bool)


def _json(value: str) -> tuple[object] | None:
    try:
        return (json.loads(value, parse_float=_finite, parse_constant=_finite),)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    """The finite number that a text holds.

    Raises:
        ValueError: the text is no finite number.
    """
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _is_object(value: str) -> bool:
    found = _json(value)
    return found is not None and isinstance(found[0], dict)


def _is_template(value: str) -> bool:
    return "{" in value or value.startswith("mistral")


def _is_typed(value: str) -> bool:
    """Whether it is a type of the cache and a number of layers."""
    types = _by_flag(_TABLES[Dialect.IK])["--cache-type-k"]
    kind, *numbers = value.split(",")
    return types.read(kind) is not None and len(numbers) == 1 and _is_whole(numbers[0])


def _parts_of_pairs(value: str) -> int:
    parts = value.split(",")
    return len(parts) - (not parts[-1])


def _is_pair(value: str) -> bool:
    # Whatever is no number counts as 0, and what is left behind the last pair as nothing.
    return _PAIR <= _parts_of_pairs(value) <= _TRIPLE


def _is_pairs(value: str) -> bool:
    return _parts_of_pairs(value) >= _PAIR


def _is_devices(value: str) -> bool:
    return "-" not in value and value != " "


def _is_rule(value: str) -> bool:
    """Whether it is a range of code points, a script, or both, with or without a bias."""
    points, *bias = value.split(":")
    if bias and not _is_decimal(bias[0]):
        return False
    span, *others = points.split(",")
    script = (others or [span])[-1]
    is_named = script == "" or (script.isascii() and script.isalpha())
    if script.lower() == "ascii" or (is_named and not others):
        return True
    ends = span.split(".")
    return all(_is_unsigned(end) for end in (ends[0], ends[-1]) if end)


def _is_named(value: str) -> bool:
    return bool(value)


_FORMS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "addresses": ("an address, or several with commas", _is_addresses),
    "mask": ("a hexadecimal mask", _is_mask),
    "range": ("a range of CPUs such as 0-7", _is_range),
    "bias": ("TOKEN+BIAS or TOKEN-BIAS, with numbers", _is_bias),
    "scaled": ("FILE:SCALE, or several with commas", _is_scaled),
    "metadata": ("KEY=TYPE:VALUE with int, float, bool or str, or several", _is_metadata),
    "override": ("KEY=TYPE:VALUE with int, float, bool or str", _is_override),
    "json": ("JSON", _is_json),
    "schema": ("a schema in JSON", _is_schema),
    "object": ("a schema in JSON that is an object", _is_object),
    "template": ("a template's text, or the name of a built-in one such as chatml", _is_template),
    "typed": ("a cache type and a number of layers, such as q8_0,4", _is_typed),
    "pair": ("two numbers with a comma between them", _is_pair),
    "pairs": ("pairs of numbers with commas between all of them", _is_pairs),
    "devices": ("names of devices without '-', such as CUDA0,CUDA1", _is_devices),
    "rule": ("FIRST..LAST,SCRIPT:BIAS, or a part of it", _is_rule),
    "named": ("a name", _is_named),
}
