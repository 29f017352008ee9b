"""The document of ``bench``."""

from collections.abc import Sequence

from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import (
    NOTHING_DRAFTED,
    config,
    header,
    lossless,
    model,
    prompt,
    speedup_of,
    throughput_of,
)
from spectui.config import Schedule, SpeculationConfig
from spectui.engine.events import ModelLoaded
from spectui.monitor.machine import Machine
from spectui.speculative.counters import Counters
from spectui.tune.bench import BenchResult
from spectui.tune.workload import Workload

_NO_MODEL = "n-gram drafters need no draft model"
_OWN_LAYERS = "the target's own MTP layers draft"


def bench_document(
    result: BenchResult,
    *,
    machine: Machine,
    target: ModelLoaded,
    draft: ModelLoaded | None,
    workload: Workload,
    speculation: SpeculationConfig,
    schedule: Schedule,
) -> Json:
    """``spectui.bench/1``."""
    return {
        **header("bench", machine),
        "target": model(target),
        "draft": _draft(draft, speculation),
        "config": {**config(workload, speculation, schedule), **_length(workload)},
        "baseline": throughput_of([pair.baseline for pair in result.pairs]),
        "speculative": {
            **throughput_of([pair.speculative for pair in result.pairs]),
            **_counters(result.counters),
            **or_reason("c", result.c, NOTHING_DRAFTED if draft or speculation.mtp else _NO_MODEL),
        },
        **speedup_of(result.speedup),
        **lossless(result.lossless),
        "interrupted": result.interrupted,
        "prompts": [prompt(pair) for pair in result.pairs],
    }


def benches_document(runs: Sequence[Json], machine: Machine) -> Json:
    """``spectui.benches/1``: several temperatures or lengths of prompt, each a ``bench``."""
    return {**header("benches", machine), "runs": list(runs)}


def _length(workload: Workload) -> Json:
    length = workload.prompt_length
    return {} if length is None else {"prompt_length": length}


def _draft(draft: ModelLoaded | None, speculation: SpeculationConfig) -> Json:
    """Who drafts; of several, the one that is asked last."""
    if draft is not None:
        return {"kind": "model", **model(draft)}
    kind, reason = ("mtp", _OWN_LAYERS) if speculation.mtp else (speculation.kind, _NO_MODEL)
    return {"kind": kind, **or_reason("path", None, reason)}


def _counters(counters: Counters) -> Json:
    times = counters.times
    return {
        "n_rounds": counters.n_rounds,
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **or_reason("acceptance_rate", counters.acceptance_rate, NOTHING_DRAFTED),
        **or_reason("mean_accepted_length", counters.mean_accepted_length, "no round was run"),
        "accepted_per_position": list(counters.accepted_per_position),
        "reached_per_position": list(counters.reached_per_position),
        **or_reason("alpha", counters.alpha, NOTHING_DRAFTED),
        "time_s": {
            "draft": times.draft_s,
            "verify": times.verify_s,
            "sample": times.sample_s,
            "rollback": times.rollback_s,
            "other": times.other_s,
        },
    }
