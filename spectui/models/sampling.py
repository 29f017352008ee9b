"""The sampling that a model's file asks for: llama-server's defaults for that model."""

import math
from pathlib import Path

from spectui.errors import BadInputError
from spectui.models.gguf import read_gguf
from spectui.models.header import GgufFile
from spectui.options.option import INT_MAX
from spectui.paths import text_of

_NOTHING = GgufFile(metadata={}, array_lengths={}, tensors=())


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


def repeat_penalty(path: Path) -> float | None:
    """The repeat penalty that the file asks for, which no measurement applies; None for none."""
    penalty = _number(_header(path), "penalty_repeat")
    return None if penalty == 1 else penalty


def unmeasured_sentences(path: Path) -> tuple[str, ...]:
    """A sentence on what the file asks for and no measurement applies; none where there is none."""
    penalty = repeat_penalty(path)
    if penalty is None:
        return ()
    name = text_of(path.name)
    return (f"{name} asks for a repeat penalty of {penalty:g}, which is not measured",)


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
