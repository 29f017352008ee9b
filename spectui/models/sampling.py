"""The sampling that a model's file asks for: llama-server's defaults for that model."""

import math
import re
from pathlib import Path

from spectui.errors import BadInputError
from spectui.models.gguf import read_gguf
from spectui.models.header import GgufFile
from spectui.options.option import INT_MAX
from spectui.paths import text_of

_LONGEST_SEQUENCE = 511
"""Bytes of a list of samplers that llama-server reads."""
_CHAIN = ("topk", "topp", "minp", "temperature")
"""The engine's samplers, in the order of llama-server's default."""
_IDLE = frozenset({"penalties", "dry", "topnsigma", "typp", "typ", "typicalp", "xtc"})
"""Samplers that do nothing, unless a number says so."""
_ALIASES = {"nucleus": "topp", "temp": "temperature"}
_NOTHING = GgufFile(metadata={}, array_lengths={}, tensors=())
_XTC_OFF = 0.5
"""Threshold above which XTC removes nothing."""


def model_sampling(path: Path) -> dict[str, float]:
    """Fields of ``SamplingConfig`` that the model's file has, within the options' ranges.

    A file that cannot be read has none: it is refused where it is loaded.
    """
    header = _header(path)
    top_k = _number(header, "top_k")
    found = {
        "temp": _within(_number(header, "temp"), math.inf),
        "top_k": None if top_k is None else int(min(max(top_k, 0), INT_MAX)),
        "top_p": _within(_number(header, "top_p"), 1.0),
        "min_p": _within(_number(header, "min_p"), 1.0),
    }
    return {name: value for name, value in found.items() if value is not None}


def unmeasured_sampling(path: Path) -> dict[str, str]:
    """Options that the file asks for and the engine's samplers lack, in words, by name.

    Only what changes the output; nothing of a file that cannot be read.
    """
    header = _header(path)
    found = {}
    penalty = _number(header, "penalty_repeat") or 1.0
    if penalty != 1 and _number(header, "penalty_last_n") != 0:
        found["repeat-penalty"] = f"a repeat penalty of {penalty:g}"
    xtc = _number(header, "xtc_probability") or 0.0
    if xtc > 0 and (_number(header, "xtc_threshold") or 0.0) <= _XTC_OFF:
        found["xtc-probability"] = f"an XTC probability of {xtc:g}"
    mirostat = _number(header, "mirostat") or 0
    if mirostat > 0:
        found["mirostat"] = f"Mirostat {mirostat:g}"
    sequence = header.text("general.sampling.sequence")[:_LONGEST_SEQUENCE]
    if sequence and not _is_default(sequence):
        found["samplers"] = "samplers of its own choice"
    return found


def unmeasured_sentences(path: Path) -> tuple[str, ...]:
    """A sentence on what the file asks for and no measurement applies; none where there is none."""
    *others, last = unmeasured_sampling(path).values() or ("",)
    if not last:
        return ()
    asked = f"{', '.join(others)} and {last}" if others else last
    verb = "are" if others else "is"
    return (f"{text_of(path.name)} asks for {asked}, which {verb} not measured",)


def _header(path: Path) -> GgufFile:
    try:
        # A server that runs already may not tell which file it has.
        return read_gguf(path) if path.name else _NOTHING
    except BadInputError:
        return _NOTHING


def _number(header: GgufFile, name: str) -> float | None:
    """A number, also one that is written as a text; None where it cannot be sampled with.

    It has six decimals, as the text that ``gguf_kv_to_str`` makes of it.
    """
    value = header.metadata.get(f"general.sampling.{name}", "")
    try:
        number = math.nan if isinstance(value, bool) else round(float(value), 6)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _within(value: float | None, high: float) -> float | None:
    """The number in the range of 0 to ``high``, beyond which nothing changes."""
    return None if value is None else min(max(value, 0.0), high)


def _is_default(sequence: str) -> bool:
    """Whether a list of samplers draws as the default one."""
    names = [re.sub("[-_]", "", name.lower()) for name in sequence.split(";")]
    active = [_ALIASES.get(name, name) for name in names if name not in _IDLE]
    return active == list(_CHAIN)
