"""Reads stored data of earlier versions: checks schemas, and converts settings to today's form."""

import re
from collections.abc import Mapping
from typing import Any

from spectui.errors import BadInputError
from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    DraftSimple,
    NgramSimple,
    drafter_class,
    kind_of,
    numbers_of,
)

_MODEL_NUMBERS = ("draft_max", "draft_min", "draft_p_min")


def check_schema(found: object, known: str, where: str, *, what: str, advice: str) -> None:
    """Refuse stored data of a schema that this spectui does not read.

    Args:
        found: its schema, as it says: ``spectui.KIND/VERSION``.
        known: the latest one that is read.
        where: file or study.
        what: word for its kind, such as ``trace``.
        advice: what to do where no update helps.

    Raises:
        BadInputError: it is of a newer spectui, of one that is too old, or of another kind.
    """
    if found == known:
        return
    kind, _, version = known.rpartition("/")
    kind_found, _, version_found = str(found).rpartition("/")
    is_other = kind_found != kind or not _NUMBER.fullmatch(version_found)
    thing = f"no {what}" if is_other else f"another version's {what}"
    sentence = f"{where} is {thing} ({found}, but this spectui reads {known})"
    if not is_other and int(version_found) > int(version):
        raise BadInputError(
            f"{sentence}: a newer spectui wrote it, so update spectui; it is left as it is"
        )
    raise BadInputError(f"{sentence}; {advice}")


def schema_of(kept: object) -> object:
    """Schema that plain data says it has; None where it says none."""
    return kept.get("schema") if isinstance(kept, Mapping) else None


_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def is_of_fast_schedule(kept: object) -> bool:
    """Whether an earlier version measured this on ``--schedule fast``.

    It did less work per round than llama-server does, so its seconds are invalid; counts are valid.
    """
    return isinstance(kept, Mapping) and kept.get("schedule") == "fast"


_NESTED = (dict, list, tuple)


def current(kept: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """Plain data in which every way of drafting has today's form (``Speculation``)."""
    # Most of thousands of trials are numbers and texts: no call for them.
    if isinstance(kept, dict):
        found = {
            key: _current_value(key, value) if isinstance(value, _NESTED) else value
            for key, value in kept.items()
        }
        if "draft" in found and found.get("n_cpu_moe") is not None:
            # The layout of an arm was a number once.
            found["layout"] = f"n_cpu_moe {found['n_cpu_moe']}"
        return found
    if isinstance(kept, list | tuple):
        return [current(value) if isinstance(value, _NESTED) else value for value in kept]
    return kept


def _current_value(key: str, value: Any) -> Any:  # noqa: ANN401 - as above
    is_flat = key == "speculation" and isinstance(value, dict) and "own" not in value
    return speculation_from_flat(value) if is_flat else current(value)


def speculation_from_flat(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The plain form of ``Speculation`` from the flat form of documents, and of earlier versions.

    There ``draft_max`` was the longest draft of an n-gram drafter, too. What had its default may
    be missing. What is of another form stays, and fails to decode.
    """
    ahead = kept.get("ahead", ())
    return {
        "own": _current_model(kept) if kept.get("ngram") is None else _ngram(kept),
        "ahead": [_ngram(one) for one in ahead] if isinstance(ahead, list | tuple) else ahead,
    }


def _current_model(kept: Mapping[str, Any]) -> dict[str, Any]:
    kind = MTP_KIND if kept.get("mtp") else kept.get("reader") or kept.get("spec_type", MODEL_KIND)
    return {"kind": kind, **{name: kept[name] for name in _MODEL_NUMBERS if name in kept}}


def _ngram(kept: object) -> dict[str, Any]:
    """Translate stored n-gram options; invalid ones stay and fail to decode."""
    ngram = kept.get("ngram") if isinstance(kept, Mapping) else None
    if not isinstance(kept, Mapping) or not isinstance(ngram, Mapping):
        return {"kind": None}
    kind = ngram.get("kind", kind_of(NgramSimple))
    if kind not in NGRAM_KINDS:
        return {"kind": kind}
    longest = kept.get("draft_max", DraftSimple().draft_max)
    numbers = {
        one.name: longest if one.bounds_drafts else ngram.get(one.name, one.default)
        for one in numbers_of(drafter_class(kind))
    }
    return {"kind": kind, **numbers}


def with_observed_runs(kept: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """A line of a sweep's log in which every prompt has today's form (``PromptRun``).

    Earlier versions kept both sides of a prompt apart, and what decoded nothing as well. What is
    of another form stays, and fails to decode.
    """
    try:
        runs = kept["record"]["runs"]
        if not runs or "off" not in runs[0]:
            return kept
        decoded = [one for one in runs if one["off"]["n_tokens"] and one["on"]["n_tokens"]]
        ended = [one["prompt_id"] for one in runs if one not in decoded]
        found = list(map(_current_run, decoded))
    except (TypeError, KeyError, AttributeError):
        return kept
    return {**kept, "record": {**kept["record"], "runs": found, "ended_at_once": ended}}


def _current_run(kept: Mapping[str, Any]) -> dict[str, Any]:
    off, on = kept["off"], kept["on"]
    whole_s = [side.get("request_s") for side in (off, on)]
    return {
        "measurement": {
            "prompt_id": kept["prompt_id"],
            "category": kept["category"],
            "baseline_s": off["decode_s"],
            "baseline_tokens": off["n_tokens"],
            "speculative_s": on["decode_s"],
            "speculative_tokens": on["n_tokens"],
            "n_accepted": on["n_accepted"],
        },
        "n_drafted": on["n_drafted"],
        "n_accepted": on["n_accepted"],
        # The conditions of a sweep hold its prompts.
        "digest": "",
        "n_prompt_tokens": kept["n_prompt_tokens"],
        "n_rounds": on["n_rounds"],
        "outputs": [side["output_sha256"] for side in (off, on)],
        "whole_s": None if None in whole_s else whole_s,
    }
