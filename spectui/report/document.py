"""Reads the document that ``tune`` stores with a study, as far as reports need it.

A study may come from another user: each part is decoded on its own, and counts as missing if it has
another form than spectui's.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from spectui.documents import Json
from spectui.format import time_text
from spectui.llama.facts import LibraryFacts
from spectui.measure.arm import Arm
from spectui.options.stored import speculation_from_flat

_LARGEST = 1e15
_LABEL = 120

Amount = Annotated[float, Meta(ge=0, le=_LARGEST)]
Count = Annotated[int, Meta(ge=0, le=int(_LARGEST))]
Interval = tuple[Amount, Amount]


def short(text: str, most: int = _LABEL) -> str:
    """A text, cut to the length of a label."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class Gained(Struct, frozen=True, kw_only=True):
    """A speedup with its interval, as ``Speedup.document`` has them."""

    speedup: Amount | None = None
    speedup_ci95: Interval | None = None


class Times(Struct, frozen=True):
    """Seconds without and with speculation."""

    off: Amount
    on: Amount

    @property
    def text(self) -> str:
        """Both, such as ``370 ms → 210 ms``."""
        return f"{time_text(self.off)} → {time_text(self.on)}"


class RequestPart(Gained, frozen=True, kw_only=True):
    """A whole request."""

    n_prompt: Count
    n_answer: Count
    time_to_first_token_s: Times
    total_s: Times
    break_even: Count | None = None
    is_extrapolated: bool = False

    @property
    def shape(self) -> str:
        """Lengths of prompt and answer."""
        return f"{self.n_prompt:,} + {self.n_answer:,} tokens"


class StandingPart(Gained, frozen=True, kw_only=True):
    """A setting of the last race."""

    params: Json
    n_timed: Count | None = None


class PlacingPart(Struct, frozen=True):
    """The place in which the target is fastest by itself."""

    best: dict[str, int | str]
    """Differences from the user's command; empty for none."""
    decoding: Gained | None = None


class RoundPart(Struct, frozen=True):
    """A mean round of the best setting."""

    alpha: Amount
    c: Amount
    drafted_per_round: Amount
    tokens_per_round: Amount
    verify_ratio: Amount
    round_s: dict[str, Amount]
    """Seconds by the part of the round."""
    speedup: Amount


class ConditionsPart(Struct, frozen=True):
    """Conditions of the measurement."""

    notes: tuple[str, ...]


class MachinePart(Struct, frozen=True):
    """The hardware: as ``Machine``, with bounds."""

    cpu: str
    n_cores: Count
    memory_bytes: Count
    gpus: tuple[str, ...] = ()
    driver: str | None = None


class EnginePart(Struct, frozen=True):
    """Version of llama.cpp, and its library."""

    llama_cpp: str
    library: LibraryFacts | None = None
    """The library; None in older documents."""


class ModelPart(Struct, frozen=True):
    """A model file."""

    path: str
    name: str | None = None
    arch: str | None = None
    n_params: Count | None = None
    size_bytes: Count | None = None

    @property
    def file_name(self) -> str:
        """Name of the file, without its folder."""
        return short(self.path.replace("\\", "/").rpartition("/")[2])


class ConfigPart(Struct, frozen=True):
    """Options of the measurement."""

    n_predict: Count
    n_prompts: Count
    temp: Amount
    seed: Count = 0
    top_k: int = 0
    top_p: Amount = 0.0
    min_p: Amount = 0.0
    ignore_eos: bool = False


class SidePart(Struct, frozen=True):
    """The target alone, or the best setting."""

    tokens_per_s: Amount | None = None
    params: Json = {}
    speedup_at_most: Amount | None = None
    speedup_is_noise: bool = False
    speedup_is_capped: bool = False


class ServerPart(Struct, frozen=True):
    """The llama-server that measured."""

    version: str | None = None


class TuneDocument(Struct, frozen=True, kw_only=True):
    """Parts of ``spectui.tune/1``; each is None where it is missing."""

    spectui: str | None = None
    engine: EnginePart | None = None
    machine: MachinePart | None = None
    server: ServerPart | None = None
    target: ModelPart | None = None
    drafts: tuple[ModelPart, ...] | None = None
    config: ConfigPart | None = None
    baseline: SidePart | None = None
    placing: PlacingPart | None = None
    best: SidePart | None = None
    finalists: tuple[StandingPart, ...] | None = None
    requests: tuple[RequestPart, ...] | None = None
    explanation: str | None = None
    explanation_terms: RoundPart | None = None
    conditions: ConditionsPart | None = None
    lossless: bool | None = None


def read_document(kept: Json | None) -> TuneDocument:
    """Decode a stored document part by part; parts of another form are None."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(TuneDocument):
        value = None if kept is None else kept.get(field.name)
        if value is not None and _is_plain(value):
            with suppress(msgspec.ValidationError, UnicodeError):
                found[field.name] = msgspec.convert(value, field.type)
    return TuneDocument(**found)


def _is_plain(kept: object) -> bool:
    """Whether all numbers are finite."""
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def arm_of(params: Mapping[str, Any]) -> Arm | None:
    """The arm that ``Arm.document`` wrote; None where it is none."""
    try:
        plain = speculation_from_flat(params) if "draft_max" in params else None
        both = {name: params.get(name) for name in ("draft", "layout")}
        return msgspec.convert({**both, "speculation": plain}, Arm)
    except (msgspec.ValidationError, TypeError):
        return None
