"""The document of ``bench``."""

from collections.abc import Sequence

from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import (
    NO_DETAIL,
    NO_ROUNDS,
    NOTHING_DRAFTED,
    config,
    header,
    lossless,
    prompt,
    speedup_of,
    throughput_of,
)
from spectui.errors import CancelledError
from spectui.measure.comparison import Comparison
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Detail, RoundTimes

_NO_MODEL = "n-gram drafters need no draft model"
_OWN_LAYERS = "the target's own MTP layers draft"


def bench_document(
    result: Comparison,
    *,
    machine: Machine,
    target: Json,
    draft: Json,
    workload: Workload,
    speculation: Speculation,
    schedule: Schedule,
) -> Json:
    """``spectui.bench/1``, without the fields of the backend.

    Args:
        result: result of the measurement.
        machine: machine of the measurement.
        target: from ``common.model`` or ``served.served_model``.
        draft: from ``draft_document``.
        workload: the decoded prompts.
        speculation: the setting.
        schedule: schedule of the measurement.
    """
    return {
        **header("bench", machine),
        "target": target,
        "draft": draft,
        "config": {**config(workload, speculation, schedule), **_length(workload)},
        "baseline": throughput_of([pair.baseline for pair in result.pairs]),
        "speculative": {
            **throughput_of([pair.speculative for pair in result.pairs]),
            **counters_document(result.counters),
            **or_reason("c", result.c, _no_c(result.counters, speculation)),
        },
        **speedup_of(result.speedup),
        **lossless(result.lossless),
        **ending(result.ended),
        "prompts": [prompt(pair) for pair in result.pairs],
    }


def benches_document(runs: Sequence[Json], machine: Machine) -> Json:
    """``spectui.benches/1``: several temperatures or lengths of prompt, each a ``bench``."""
    return {**header("benches", machine), "runs": list(runs)}


def _length(workload: Workload) -> Json:
    length = workload.prompt_length
    return {} if length is None else {"prompt_length": length}


def ending(ended: BaseException | None) -> Json:
    """Fields on how a measurement ended."""
    interrupted = isinstance(ended, KeyboardInterrupt | CancelledError)
    error = None if ended is None or interrupted else str(ended)
    return {"interrupted": interrupted, "error": error}


def _no_c(counters: Counters, speculation: Speculation) -> str:
    if counters.detail is not Detail.ROUNDS:
        return NO_DETAIL
    return _NO_MODEL if speculation.model is None else NOTHING_DRAFTED


def draft_document(draft: Json | None, speculation: Speculation) -> Json:
    """The drafter; of several, the one asked last. ``draft`` is a draft model."""
    if draft is not None:
        return {"kind": speculation.own.label, **draft}
    kind, reason = (
        ("mtp", _OWN_LAYERS) if speculation.is_mtp else (speculation.own.label, _NO_MODEL)
    )
    return {"kind": kind, **or_reason("path", None, reason)}


def counters_document(counters: Counters) -> Json:
    """Counts over all rounds, as far as they are known."""
    is_seen = counters.detail is Detail.ROUNDS
    known = counters.known_rounds
    no_length = "no round was run" if known is not None else NO_ROUNDS
    return {
        **or_reason("n_rounds", known, NO_ROUNDS),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **or_reason("acceptance_rate", counters.acceptance_rate, NOTHING_DRAFTED),
        **or_reason("mean_accepted_length", counters.mean_accepted_length, no_length),
        **or_reason(
            "accepted_per_position",
            list(counters.accepted_per_position) if is_seen else None,
            NO_DETAIL,
        ),
        **or_reason(
            "reached_per_position",
            list(counters.reached_per_position) if is_seen else None,
            NO_DETAIL,
        ),
        **or_reason("alpha", counters.alpha, NOTHING_DRAFTED if is_seen else NO_DETAIL),
        **or_reason("time_s", _times(counters.times) if is_seen else None, NO_DETAIL),
    }


def _times(times: RoundTimes) -> Json:
    return {
        "draft": times.draft_s,
        "verify": times.verify_s,
        "sample": times.sample_s,
        "rollback": times.rollback_s,
        "other": times.other_s,
    }


_COUNTS = ("n_drafted", "n_accepted", "n_rounds")
_RATIOS = ("acceptance_rate", "mean_accepted_length", "accepted_per_position", "alpha")


def without_counts(document: Json, reason: str) -> Json:
    """A ``bench`` of a server that does not report its drafts; ``reason`` says so."""
    ratios = [name for name in _RATIOS if name in document["speculative"]]
    bound = _unknown(("speedup_at_most",), reason) | {"speedup_is_noise": False}
    return {
        **document,
        "speculative": {**document["speculative"], **_unknown((*_COUNTS, *ratios), reason)},
        **(bound if "speedup_at_most" in document else {}),
        "prompts": [{**one, **_unknown(_COUNTS, reason)} for one in document["prompts"]],
    }


def _unknown(names: Sequence[str], reason: str) -> Json:
    fields: Json = {}
    for name in names:
        fields |= or_reason(name, None, reason)
    return fields
