"""The document that ``tune`` keeps with a study, as far as reports read it.

A study may come from somebody else: each part is decoded on its own, and one that is not as spectui
writes it is missing, with a reason.
"""

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from spectui.documents import Json
from spectui.llama.facts import LibraryFacts

_LARGEST = 1e15
_REASON = 300
"""Most characters of a reason that is passed on."""

Amount = Annotated[float, Meta(ge=0, le=_LARGEST)]
Count = Annotated[int, Meta(ge=0, le=int(_LARGEST))]
Interval = tuple[Amount, Amount]


class Times(Struct, frozen=True):
    """Seconds without and with speculation."""

    off: Amount
    on: Amount


class RequestPart(Struct, frozen=True):
    """A whole request."""

    n_prompt: Count
    n_answer: Count
    time_to_first_token_s: Times
    total_s: Times
    speedup: Amount
    speedup_ci95: Interval | None = None
    break_even: Count | None = None
    is_extrapolated: bool = False


class DepthPart(Struct, frozen=True):
    """The best setting behind prompts of one length; 0 is for the prompts as they are."""

    depth: Count
    speedup: Amount
    speedup_ci95: Interval | None = None
    acceptance_rate: Amount | None = None
    token_s: Amount | None = None


class TemperaturePart(Struct, frozen=True):
    """The best setting at another temperature."""

    temp: Amount
    n_prompts: Count
    predicted_speedup: Amount
    acceptance_rate: Amount | None = None


class CategoryPart(Struct, frozen=True):
    """The best setting on one category of prompts."""

    category: str
    n_prompts: Count
    speedup: Amount | None = None
    acceptance_rate: Amount | None = None


class RoundSeconds(Struct, frozen=True):
    """Seconds of the parts of a mean round."""

    draft: Amount
    second_draft_pass: Amount
    verify: Amount
    sample: Amount
    rollback: Amount
    other: Amount


class RoundPart(Struct, frozen=True):
    """A mean round of the best setting."""

    alpha: Amount
    c: Amount
    drafted_per_round: Amount
    tokens_per_round: Amount
    verify_ratio: Amount
    round_s: RoundSeconds
    speedup: Amount
    speedup_limit: Amount


class CausePart(Struct, frozen=True):
    """A cause of disturbance."""

    kind: str
    name: str | None = None
    n_processes: Count = 1
    seconds: Amount = 0.0
    share: Amount | None = None


class DisturbancePart(Struct, frozen=True):
    """What the rest of the machine did meanwhile."""

    watched_s: Amount
    disturbed_s: Amount = 0.0
    disturbed_share: Amount | None = None
    causes: tuple[CausePart, ...] = ()


class ConditionsPart(Struct, frozen=True):
    """Conditions of the measurement."""

    disturbance: DisturbancePart
    drift: Amount | None = None
    n_noisy: Count = 0
    temperature_before_c: Amount | None = None
    temperature_after_c: Amount | None = None


class MachinePart(Struct, frozen=True):
    """The hardware."""

    cpu: str
    n_cores: Count
    memory_bytes: Count
    gpus: tuple[str, ...] = ()
    driver: str | None = None


class EnginePart(Struct, frozen=True):
    """Versions of what computes."""

    llama_cpp: str
    llama_cpp_python: str | None = None
    library: LibraryFacts | None = None
    """Whose llama.cpp; None in older documents."""


class ModelPart(Struct, frozen=True):
    """A model file."""

    path: str
    name: str | None = None
    arch: str | None = None
    n_params: Count | None = None
    size_bytes: Count | None = None


class ConfigPart(Struct, frozen=True):
    """How it was measured."""

    n_predict: Count
    n_prompts: Count
    temp: Amount
    seed: Count = 0
    top_k: int = 0
    top_p: Amount = 0.0
    min_p: Amount = 0.0
    ignore_eos: bool = False


class Throughput(Struct, frozen=True):
    """Throughput of one side."""

    tokens_per_s: Amount | None = None


class BestPart(Throughput, frozen=True):
    """The best setting."""

    params: Json = {}
    speedup_at_most: Amount | None = None
    speedup_is_noise: bool = False
    speedup_is_capped: bool = False


class StandingPart(Struct, frozen=True):
    """A setting of the last race."""

    params: Json
    n_timed: Count | None = None
    speedup: Amount | None = None
    speedup_ci95: Interval | None = None


class GainPart(Struct, frozen=True):
    """A speedup with its interval."""

    speedup: Amount
    speedup_ci95: Interval | None = None


class PlacingPart(Struct, frozen=True):
    """The place in which the target is fastest by itself."""

    best: dict[str, int | str]
    """What differs from the user's command; empty for nothing."""
    decoding: GainPart | None = None


class ForecastPart(Struct, frozen=True):
    """A replayed setting."""

    params: Json
    speedup: Amount


class SlotsPart(Struct, frozen=True):
    """The best setting with a number of slots."""

    n_slots: Count
    off_all_tokens_per_s: Amount | None = None
    on_all_tokens_per_s: Amount | None = None
    speedup: Amount | None = None
    speedup_ci95: Interval | None = None


class DeliveredPart(Struct, frozen=True):
    """What a llama-server gave."""

    speedup: Amount | None = None
    speedup_ci95: Interval | None = None


class ServedPart(Struct, frozen=True):
    """A setting that was measured again on the user's llama-server."""

    params: Json
    delivered: DeliveredPart | None = None


class SpentPart(Struct, frozen=True):
    """Time of the search."""

    took_s: Amount


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
    baseline: Throughput | None = None
    placing: PlacingPart | None = None
    best: BestPart | None = None
    forecasts: tuple[ForecastPart, ...] | None = None
    n_replayed: Count | None = None
    time: SpentPart | None = None
    finalists: tuple[StandingPart, ...] | None = None
    requests: tuple[RequestPart, ...] | None = None
    depths: tuple[DepthPart, ...] | None = None
    depth_limit: Count | None = None
    other_temperatures: tuple[TemperaturePart, ...] | None = None
    per_category: tuple[CategoryPart, ...] | None = None
    explanation: str | None = None
    explanation_terms: RoundPart | None = None
    conditions: ConditionsPart | None = None
    lossless: bool | None = None
    slots: tuple[SlotsPart, ...] | None = None
    served: tuple[ServedPart, ...] | None = None


class Parts:
    """A study's document, and why each missing part is missing."""

    def __init__(self, kept: Json | None, missing: str) -> None:
        """Decode it; ``missing`` says why there is no document, where there is none."""
        self._reasons: dict[str, str] = {}
        self._missing = missing
        found: dict[str, Any] = {}
        if kept is not None and not _is_plain(kept):
            kept, self._missing = None, "the study's document holds numbers that are none"
        for field in msgspec.structs.fields(TuneDocument):
            value = None if kept is None else kept.get(field.name)
            if kept is not None and value is None:
                reason = kept.get(f"{field.name}_reason")
                if isinstance(reason, str):
                    self._reasons[field.name] = reason[:_REASON]
                continue
            try:
                found[field.name] = msgspec.convert(value, field.type)
            except (msgspec.ValidationError, UnicodeError):
                # Half a surrogate cannot be said in the error either.
                self._reasons[field.name] = "what is kept of it is not as spectui writes it"
        self.document = TuneDocument(**found)

    def reason(self, name: str) -> str:
        """Why a part is missing."""
        return self._reasons.get(name, self._missing)


def _is_plain(kept: Json) -> bool:
    """Whether all numbers are finite."""
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True
