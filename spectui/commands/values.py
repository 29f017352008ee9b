"""Valid values of llama-server's options, and how the server reads them.

A line of ``VALUES`` holds what options take and, after ``|``, their long flags:

- ``text``: anything, or what only the machine or the server's own parser can tell.
- ``whole``, ``unsigned``, ``decimal``, ``finite``, ``exact``: a number. The server reads as far as
  it looks like one and forgets the rest, but the whole of an ``exact`` one. ``low..high`` are the
  values that it does not stop at, both inclusive, and either may be missing; ``!0`` is one that it
  stops at.
- ``unsigneds``, ``decimals``, ``exacts``: several with commas between them; ``x15`` for 15 at most.
- ``one``: one of the words that follow. Behind a number, words that stand for one.
- ``form NAME``: what ``_FORMS`` has a pattern for, under that name.

The readers are those of ``common/arg.cpp`` for the server (``std::stoi``, ``std::stoul``,
``std::stof``). Other programs read numbers alike, and have other words and forms.
"""

import csv
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from spectui.commands.server_options import server_option

VALUES = """
text | --lookup-cache-static --lookup-cache-dynamic --reverse-prompt --samplers --sampler-seq
text | --dry-sequence-breaker --grammar --grammar-file --json-schema-file --mmproj --mmproj-url
text | --mmproj-device --video-ffmpeg-dir --rpc --device --override-tensor --lora --control-vector
text | --alias --tags --model --model-url --docker-repo --hf-repo --hf-file --hf-token --path
text | --cors-origins --cors-methods --cors-headers --api-prefix --ui-config --ui-config-file
text | --tools --tools-runtime --mcp-servers-config --mcp-servers-json --api-key --api-key-file
text | --ssl-key-file --ssl-cert-file --slot-save-path --media-path --models-dir --models-preset
text | --reasoning-effort --reasoning-budget-message --chat-template --chat-template-file --log-file
text | --log-prompts-dir --spec-draft-hf --spec-draft-override-tensor --spec-draft-device
text | --spec-draft-model --spec-type --defrag-thold
whole | --threads --threads-batch --ctx-size --kv-unified-per-slot --predict --batch-size
whole | --ubatch-size --keep --ctx-checkpoints --cache-ram --top-k --dry-allowed-length --mirostat
whole | --yarn-orig-ctx --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens
whole | --video-timestamp-interval --main-gpu --fit-ctx --embd-normalize --port --timeout
whole | --sse-ping-interval --threads-http --cache-reuse --models-max --verbosity --cpu-strict-batch
whole | --poll-batch --spec-draft-threads --spec-draft-threads-batch --spec-draft-cpu-strict
whole | --spec-draft-poll --spec-draft-cpu-strict-batch --spec-draft-poll-batch --spec-draft-n-min
whole | --control-vector-layer-range
whole | --draft-max --draft-min --ctx-size-draft --grp-attn-n --grp-attn-w
whole !0 | --parallel
whole -1.. | --reasoning-budget
whole -1.. !0 | --sleep-idle-seconds
whole 0.. | --checkpoint-min-step --repeat-last-n --dry-penalty-last-n --n-cpu-moe --n-cpu-ffn
whole 0.. | --spec-draft-n-cpu-moe --spec-draft-n-max
whole -1..3 | --prio
whole 0..3 | --prio-batch --spec-draft-prio --spec-draft-prio-batch
whole 0..1024 | --spec-ngram-mod-n-min --spec-ngram-mod-n-max
whole 1..1024 | --spec-ngram-mod-n-match --spec-ngram-simple-size-n --spec-ngram-simple-size-m
whole 1..1024 | --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m
whole 1..1024 | --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m
whole 1.. | --spec-ngram-simple-min-hits --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-min-hits
whole auto all | --gpu-layers --spec-draft-ngl
unsigned | --cpu-strict --poll --seed
unsigneds | --fit-target
decimal | --temp --top-p --min-p --top-nsigma --xtc-probability --xtc-threshold --typical
decimal | --dry-multiplier --dry-base --adaptive-target --adaptive-decay --dynatemp-range
decimal | --dynatemp-exp --mirostat-lr --mirostat-ent --rope-scale --rope-freq-base
decimal | --rope-freq-scale --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast
decimal | --video-fps --slot-prompt-similarity --spec-draft-p-split --spec-draft-p-min
finite | --presence-penalty --frequency-penalty
finite 0.. !0 | --repeat-penalty
decimals x15 | --tensor-split
exact !-1 | --spec-synth-len
exacts | --spec-synth-rates
one on off auto enabled disabled true false 1 0 -1 | --flash-attn --reasoning --log-colors
one on off enabled disabled true false 1 0 | --fit
one none mean cls last rank | --pooling
one none linear yarn | --rope-scaling
one none layer row tensor | --split-mode
one auto none mmap mlock mmap+mlock dio | --load-mode
one on auto off | --lazy-mode
one distribute isolate numactl | --numa
one none auto deepseek deepseek-legacy | --reasoning-format
one f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1 | --cache-type-k --cache-type-v
one f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1 | --spec-draft-type-k --spec-draft-type-v
form addresses | --host
form mask | --cpu-mask --cpu-mask-batch --spec-draft-cpu-mask --spec-draft-cpu-mask-batch
form range | --cpu-range --cpu-range-batch --spec-draft-cpu-range
form bias | --logit-bias
form scaled | --lora-scaled --control-vector-scaled
form metadata | --override-kv
form json | --chat-template-kwargs
form schema | --json-schema
"""


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


def values_of(flag: str) -> Values | None:
    """Valid values behind a flag; None if unknown or unrestricted."""
    option = server_option(flag)
    return None if option is None else _by_flag().get(option.long_flag)


@cache
def listed_flags() -> frozenset[str]:
    """Every flag of the table, including those that take any text."""
    return frozenset(flag for line in _lines() for flag in line[1])


def _lines() -> list[tuple[list[str], list[str]]]:
    halves = (line.split("|") for line in VALUES.strip().splitlines())
    return [(left.split(), right.split()) for left, right in halves]


@cache
def _by_flag() -> dict[str, Values]:
    found = ((_values(kind), flags) for kind, flags in _lines())
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
        return Values(what=f"one of {', '.join(rest)}", words=tuple(rest))
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
