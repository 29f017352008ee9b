"""Ways of drafting as files and studies keep them, the forms of earlier versions included."""

from collections.abc import Mapping
from typing import Any

from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    drafter_class,
    kind_of,
    numbers_of,
)

_MODEL_NUMBERS = ("draft_max", "draft_min", "draft_p_min")
_FLAT = frozenset({*_MODEL_NUMBERS, "ahead"})
"""Keys of the flat form, which had all drafters' numbers at once."""


def current(kept: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """Plain data in which every way of drafting has today's form (``Speculation``)."""
    match kept:
        case dict():
            if kept.keys() >= _FLAT and "own" not in kept:
                return speculation_from_flat(kept)
            return {key: current(value) for key, value in kept.items()}
        case list() | tuple():
            return [current(value) for value in kept]
        case _:
            return kept


def speculation_from_flat(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The plain form of ``Speculation`` from the flat form of versions before 0.2.

    There ``draft_max`` was the longest draft of an n-gram drafter, too.
    """
    ngram = kept.get("ngram")
    own = _model(kept) if ngram is None else _ngram(ngram, kept.get("draft_max"))
    ahead = [_ngram(one.get("ngram"), one.get("draft_max")) for one in kept.get("ahead", ())]
    return {"own": own, "ahead": ahead}


def _model(kept: Mapping[str, Any]) -> dict[str, Any]:
    kind = MTP_KIND if kept.get("mtp") else kept.get("reader") or MODEL_KIND
    return {"kind": kind, **{name: kept[name] for name in _MODEL_NUMBERS if name in kept}}


def _ngram(kept: object, longest: object) -> dict[str, Any]:
    """What is damaged or unknown stays so: decoding refuses it."""
    if not isinstance(kept, Mapping) or kept.get("kind") not in NGRAM_KINDS:
        return {"kind": None}
    drafter = drafter_class(kept["kind"])
    numbers = {
        one.name: longest if one.bounds_drafts else kept.get(one.name, one.default)
        for one in numbers_of(drafter)
    }
    return {"kind": kind_of(drafter), **numbers}
