"""Values of llama-server's options: how it reads them, and what is said of those it refuses."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import cache

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.lint.finding import (
    Finding,
    error,
    warning,
)
from spectui.commands.reader import Reader
from spectui.commands.rewriting import counted, switched
from spectui.commands.server_options import server_option, table
from spectui.options.dialect import Dialect

_INT = (-(2**31), 2**31 - 1)
_LONG = 2**64 - 1
_LARGEST, _SMALLEST = 3.4028235e38, 1.17549435e-38
"""Limits of a float, beyond which ``std::stof`` fails."""
# ASCII: C knows no other blanks and digits.
_WHOLE = re.compile(r"\s*[+-]?\d+", re.ASCII)
_DIGITS = r"0x[\da-f]+(?:\.[\da-f]*)?(?:p[+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_FINITE = re.compile(rf"\s*[+-]?(?:{_DIGITS})", re.IGNORECASE | re.ASCII)
_DECIMAL = re.compile(rf"\s*[+-]?(?:{_DIGITS}|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)
_BIAS = re.compile(r"\s*[+-]?\d+\s*[+-](.*)", re.DOTALL | re.ASCII)
_BLANKS = " \t\n\r\f\v"
_NUMBERS = {
    "whole": ("a whole number", _WHOLE),
    "unsigned": ("a whole number", _WHOLE),
    "decimal": ("a number", _DECIMAL),
    "finite": ("a number", _FINITE),
    "exact": ("a number", _DECIMAL),
}
_MOST_CPUS = 512
_MOST = re.compile(r"x(\d+)")
_RANGE = re.compile(r"(-?\d*)\.\.(-?\d*)")
_SEPARATORS = re.compile(r"[,/]+")


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
    """Name of the form, if values are neither words nor numbers."""

    @property
    def is_everywhere(self) -> bool:
        """Whether all dialects read the values alike."""
        return self.number is not None

    def read(self, value: str) -> str | None:
        """The part of a value that the server reads; None if it refuses the value."""
        if self.form is not None:
            return value if _FORMS[self.form][1](value) else None
        if value in self.words:
            return value
        if self.number is None:
            return None
        parts = _SEPARATORS.split(value) if self.is_list else [value]
        if len(parts) > self.most:
            return None
        read = [self._number(part) for part in parts]
        if None in read:
            return None
        return value if read == parts else ",".join(filter(None, read))

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
    values = _by_flag("values").get(option.long_flag)
    if dialect is not Dialect.IK:
        return values
    own = _by_flag("ik-values").get(option.long_flag)
    # Both read numbers alike.
    return own or (values if values is not None and values.is_everywhere else None)


@cache
def listed_flags() -> frozenset[str]:
    """Every flag of the table, including those that take any text."""
    return frozenset(flag for line in _lines("values") for flag in line[1])


def _lines(name: str) -> list[tuple[list[str], list[str]]]:
    halves = (line.split("|") for line in table(name))
    return [(left.split(), right.split()) for left, right in halves]


@cache
def _by_flag(name: str) -> dict[str, Values]:
    found = ((_values(kind), flags) for kind, flags in _lines(name))
    return {_long(flag): values for values, flags in found for flag in flags if values is not None}


def _long(flag: str) -> str:
    option = server_option(flag)
    return flag if option is None else option.long_flag


def _values(line: list[str]) -> Values | None:
    kind, *rest = line
    if kind == "text":
        return None
    if kind == "form":
        return Values(what=_FORMS[rest[0]][0], form=rest[0])
    if kind == "one":
        return Values(
            what=f"one of {', '.join(dict.fromkeys(word.lower() for word in rest))}",
            words=tuple(rest),
        )
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
        what=", or ".join((what, *words)),
        words=words,
        number=number,
        low=float(low or -math.inf),
        high=float(high or math.inf),
        refused=None if refused is None else float(refused),
        is_list=is_list,
        most=float(most or math.inf),
    )


def _limits(low: str, high: str, refused: str | None) -> str:
    span = f" from {low} to {high}" if low and high else f" from {low} on" if low else ""
    return span if refused is None else f"{span} but {refused}"


def _value(number: str, text: str) -> float | None:
    """A parsed number; None if it is too large for the server."""
    if number == "whole":
        return float(text) if _INT[0] <= Decimal(text) <= _INT[1] else None
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
    return found is not None and _DECIMAL.match(found[1]) is not None


def _is_scaled(value: str) -> bool:
    pairs = [part.split(":") for part in _row(value)]
    return all(len(pair) == 2 and _DECIMAL.match(pair[1]) for pair in pairs)  # noqa: PLR2004 - a pair


def _is_metadata(value: str) -> bool:
    pattern = re.compile(r"[^=]*=(int:.*|float:.*|bool:(true|false)|str:.*)", re.DOTALL)
    return all(pattern.fullmatch(part) for part in _row(value))


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


_FORMS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "addresses": ("an address, or several with commas", _is_addresses),
    "mask": ("a hexadecimal mask", _is_mask),
    "range": ("a range of CPUs such as 0-7", _is_range),
    "bias": ("TOKEN+BIAS or TOKEN-BIAS, with numbers", _is_bias),
    "scaled": ("FILE:SCALE, or several with commas", _is_scaled),
    "metadata": ("KEY=TYPE:VALUE with int, float, bool or str, or several", _is_metadata),
    "json": ("JSON", _is_json),
    "schema": ("a schema in JSON", _is_schema),
}


_INSTEAD = {"split-mode": "layer", **dict.fromkeys(("cache-type-k", "cache-type-v"), "q8_0")}
"""Nearest equivalents of values of ik_llama.cpp; a draft's caches have the same."""
_MEANT = {"yes": "on", "y": "on", "no": "off", "n": "off"}
_ALIKE = 0.8
"""Similarity of two words, from 0 to 1, above which one may be meant by the other."""
_IN_TOKENS = (
    *("ctx-size", "ctx-size-draft", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"),
    *("cache-reuse", "yarn-orig-ctx", "kv-unified-per-slot"),
)
_FACTORS = {
    **{key: {"k": 1 << 10, "m": 1 << 20} for key in _IN_TOKENS},
    **{key: {"m": 1, "g": 1 << 10} for key in ("cache-ram", "fit-target")},
}
"""Multipliers of letters behind a number, by the option's unit: tokens, or MiB."""


def values_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on invalid values."""
    for at, item in _read(command, reader):
        if _is_miscounted(item, reader):
            yield _miscounted(at, item, reader)
            continue
        yield from _item_value(at, item, reader)
        yield from _switched(at, item, reader)
        if item.name in {"override-tensor", "override-tensor-draft"}:
            yield from _placement(at, item, reader)
    yield from misread_rule(command, reader)


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on values of which the reader takes a part."""
    for at, item in _read(command, reader):
        values = None if _is_miscounted(item, reader) else values_of(item.flag, reader.dialect)
        reads = [] if values is None else [(value, values.read(value)) for value in item.values]
        for value, read in reads:
            if read is not None and read != value.rstrip():
                yield _misread(at, item, value, read)


def _read(command: ServerCommand, reader: Reader) -> Iterator[tuple[int, Item]]:
    """Yield the items whose values the reader reads, but for those with a rule of their own."""
    for at, item in enumerate(command.items):
        is_unread = item.variable is not None and reader.reads(item.variable) is False
        if item.values and item.name != "spec-type" and not is_unread:
            yield at, item


def _is_miscounted(item: Item, reader: Reader) -> bool:
    """Whether an option has one value where the reader takes two, or two in place of one."""
    count = None if item.server is None else item.server.counts.get(reader.dialect)
    return count in {1, 2} and len(item.values) in {1, 2} and count != len(item.values)


def _miscounted(at: int, item: Item, reader: Reader) -> Finding:
    words = (item.flag, *counted(item, reader))
    takes = "one value" if len(words) == 2 else "two values"  # noqa: PLR2004 - a flag and its value
    return error(
        (at, item),
        f"{reader.name} takes {takes} behind {item.flag}",
        "other builds count otherwise, and it stops at what it does not read",
        fix=words if len(words) != 1 + len(item.values) else None,
    )


def _item_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    values = values_of(item.flag, reader.dialect)
    if values is None:
        return
    for value in item.values:
        if values.read(value) is None:
            yield _refused(at, item, value, values, reader)


def _refused(at: int, item: Item, value: str, values: Values, reader: Reader) -> Finding:
    instead, is_meant = _instead(item, value, values)
    words = None if instead is None else (item.flag, instead)
    return error(
        (at, item),
        f"{reader.name} knows no {item.flag} {value}",
        f"it takes {values.what}, and stops at anything else{_in_ik(item, value, reader)}",
        write=words,
        fix=words if is_meant else None,
    )


def _in_ik(item: Item, value: str, reader: Reader) -> str:
    """Hint at ik_llama.cpp, where that takes the value."""
    theirs = values_of(item.flag, Dialect.IK)
    is_taken = theirs is not None and theirs.read(value) is not None
    return "; ik_llama.cpp takes it (--dialect ik)" if reader.is_current and is_taken else ""


def _instead(item: Item, value: str, values: Values) -> tuple[str | None, bool]:
    """A replacement value, and whether it is certainly the intended one."""
    meant = meant_by(value, values.words)
    if meant is not None:
        return meant, True
    alike = next(iter(get_close_matches(value, values.words, 1, _ALIKE)), None)
    # A near value is another one: its author chooses.
    return alike or _INSTEAD.get(item.name.removesuffix("-draft")), False


def meant_by(value: str, words: tuple[str, ...]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _misread(at: int, item: Item, value: str, read: str) -> Finding:
    whole = _spelled_out(item.name, value, read)
    return warning(
        (at, item),
        f"{item.flag} {value} is read as {read}",
        "the server takes the number that it begins with, and forgets the rest",
        write=None if whole is None else (item.flag, whole),
    )


def _spelled_out(name: str, value: str, read: str) -> str | None:
    """The number that was probably meant; None if unknown."""
    rest = value.removeprefix(read)
    factor = _FACTORS.get(name, {}).get(rest.casefold())
    if factor is not None and read.isdigit():
        return str(int(read) * factor)
    digits = rest[1:]
    if rest[:1] == "_" and digits.replace("_", "").isdigit():
        return f"{read}{digits.replace('_', '')}"
    return f"{read}.{digits}" if rest[:1] == "," and digits.isdigit() and read == "0" else None


def _switched(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find a value of ik_llama.cpp behind a switch that takes none."""
    words = switched(item, reader)
    if words is None:
        return
    yield error(
        (at, item),
        f"{reader.name} takes no {item.value} behind {item.flag}",
        "it is a switch, and the server stops at a word by itself",
        fix=words,
    )


_BACKENDS = (
    *("CUDA", "ROCm", "HIP", "MUSA", "Vulkan", "SYCL", "CANN", "Metal", "MTL", "RPC", "OpenCL"),
    *("GPUOpenCL", "Kompute", "WebGPU", "BLAS", "HTP", "OPENVINO", "VirtGPU", "ZDNN", "Accelerate"),
)
"""Beginnings of the names of llama.cpp's devices, and of buffers on them."""
_DEVICE = re.compile(rf"(?:{'|'.join(_BACKENDS)})[\w.\[\]:-]*", re.IGNORECASE)
_BUFFER = re.compile(rf"CPU|CPU_\w+|AMX|{_DEVICE.pattern}", re.IGNORECASE)


def devices_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on devices that no backend of llama.cpp has."""
    for at, item in command.all("device", "spec-draft-device", "device-draft"):
        for name in item.value.split(","):
            if name != "none" and not _DEVICE.fullmatch(name) and name:
                yield error(
                    (at, item),
                    f"no backend of llama.cpp has a device called {name}",
                    f"{reader.name} stops at it; llama-server --list-devices says their names, "
                    "such as CUDA0, ROCm0 or Vulkan0",
                )


def _placement(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    for part in item.value.split(","):
        pattern, separator, buffer = part.partition("=")
        if pattern and buffer and not _BUFFER.fullmatch(buffer):
            yield error(
                (at, item),
                f"no backend of llama.cpp has a buffer called {buffer}",
                f"{reader.name} stops at it; there are CPU, and names of devices such as CUDA0, "
                "ROCm0 or Vulkan0",
            )
        if not (pattern and separator and buffer):
            yield error(
                (at, item),
                f"{item.flag} {part} is no PATTERN=BUFFER",
                f"{reader.name} splits at commas first, and stops at a part without '='",
            )
