"""The JSON documents of ``bench`` and ``tune``. Numbers are SI; None comes with its reason."""

import hashlib
from collections.abc import Sequence
from typing import Any

from spectui import __version__
from spectui.config import Schedule, SpeculationConfig
from spectui.engine.events import GenerationResult, ModelLoaded
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.monitor.machine import Machine
from spectui.speculative.counters import Counters
from spectui.tune.bench import BenchResult
from spectui.tune.candidates import Candidate
from spectui.tune.forecast import Forecast
from spectui.tune.lossless import LosslessCheck
from spectui.tune.measurement import Pair, throughput
from spectui.tune.search import TuneResult
from spectui.tune.statistics import Speedup
from spectui.tune.trials import OFF, Arm, TrialRecord, off_level, speedup_estimate
from spectui.tune.workload import Workload

Json = dict[str, Any]

_FORECASTS = 50
"""Of the replayed settings, those that a document lists: the best."""
_NOTHING_DRAFTED = "nothing was drafted"


def header(kind: str, machine: Machine) -> Json:
    """What every document starts with."""
    return {
        "schema": f"spectui.{kind}/1",
        "spectui": __version__,
        "engine": {"llama_cpp_python": binding_version(), "llama_cpp": llama_cpp_version()},
        "machine": {
            "fingerprint": machine.fingerprint,
            "cpu": machine.cpu,
            "n_cores": machine.n_cores,
            "memory_bytes": machine.memory_bytes,
            "gpus": list(machine.gpus),
        },
    }


def model(loaded: ModelLoaded) -> Json:
    """A loaded model."""
    info = loaded.info
    return {
        "path": str(info.path),
        "arch": info.arch,
        "name": info.name,
        "n_params": info.n_params,
        "size_bytes": info.size_bytes,
        "rollback": str(loaded.rollback),
        "n_ctx": loaded.n_ctx,
    }


def bench(
    result: BenchResult,
    *,
    machine: Machine,
    target: ModelLoaded,
    draft: ModelLoaded,
    workload: Workload,
    speculation: SpeculationConfig,
    schedule: Schedule,
) -> Json:
    """``spectui.bench/1``."""
    return {
        **header("bench", machine),
        "target": model(target),
        "draft": {"kind": "model", **model(draft)},
        "config": config(workload, speculation, schedule),
        "baseline": _throughput([pair.baseline for pair in result.pairs]),
        "speculative": {
            **_throughput([pair.speculative for pair in result.pairs]),
            **_counters(result.counters),
            **_or_reason("c", result.c, _NOTHING_DRAFTED),
        },
        **_speedup(result.speedup),
        **_lossless(result.lossless),
        "interrupted": result.interrupted,
        "prompts": [_prompt(pair) for pair in result.pairs],
    }


def config(workload: Workload, speculation: SpeculationConfig, schedule: Schedule) -> Json:
    """What was run."""
    sampling = workload.sampling
    return {
        **_speculation(speculation),
        "schedule": str(schedule),
        "temp": sampling.temp,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "ignore_eos": sampling.ignore_eos,
        "n_predict": workload.n_predict,
    }


def tune(
    result: TuneResult,
    *,
    machine: Machine,
    study: str,
    target: ModelLoaded,
    candidates: Sequence[Candidate],
    workload: Workload,
    schedule: Schedule,
    flags: Sequence[str],
    command: str,
) -> Json:
    """``spectui.tune/1``."""
    return {
        **header("tune", machine),
        "study": study,
        "target": model(target),
        "drafts": [_candidate(candidate) for candidate in candidates],
        "config": {
            "schedule": str(schedule),
            "n_predict": workload.n_predict,
            "n_prompts": len(workload.items),
        },
        "baseline": _baseline(result),
        "trials": [_trial(record, result.trials) for record in result.trials],
        "forecasts": [_forecast(one) for one in result.forecasts[:_FORECASTS]],
        "n_replayed": len(result.forecasts),
        **_or_reason("best", _best(result), "no speculative setting could be measured"),
        "per_category": _per_category(result),
        "prompts": [_prompt(pair) for pair in result.pairs],
        **_lossless(result.lossless),
        "verdict": {
            "use_speculation": result.verdict.use_speculation,
            "reason": result.verdict.reason,
        },
        "interrupted": result.interrupted,
        "flags": list(flags),
        "command": command,
    }


def _throughput(results: Sequence[GenerationResult]) -> Json:
    return {
        **_or_reason("tokens_per_s", throughput(results), "nothing was decoded"),
        "n_tokens": sum(result.n_decoded for result in results),
        "decode_s": sum(result.decode_s for result in results),
    }


def _counters(counters: Counters) -> Json:
    times = counters.times
    return {
        "n_rounds": counters.n_rounds,
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **_or_reason("acceptance_rate", counters.acceptance_rate, _NOTHING_DRAFTED),
        **_or_reason("mean_accepted_length", counters.mean_accepted_length, "no round was run"),
        "accepted_per_position": list(counters.accepted_per_position),
        "reached_per_position": list(counters.reached_per_position),
        **_or_reason("alpha", counters.alpha, _NOTHING_DRAFTED),
        "time_s": {
            "draft": times.draft_s,
            "verify": times.verify_s,
            "sample": times.sample_s,
            "rollback": times.rollback_s,
            "other": times.other_s,
        },
    }


def _speculation(speculation: SpeculationConfig) -> Json:
    return {
        "draft_max": speculation.draft_max,
        "draft_min": speculation.draft_min,
        "draft_p_min": speculation.draft_p_min,
    }


def _speedup(speedup: Speedup) -> Json:
    interval = None if speedup.low is None else [speedup.low, speedup.high]
    reason = speedup.interval_reason or "the interval is not known"
    return {"speedup": speedup.estimate, **_or_reason("speedup_ci95", interval, reason)}


def _lossless(check: LosslessCheck | None) -> Json:
    if check is None:
        reason = "only complete runs of greedy output are compared"
        return {"lossless": None, "lossless_reason": reason, "divergence": None}
    divergence = check.divergence
    if divergence is None:
        return {"lossless": True, "divergence": None}
    return {
        "lossless": check.lossless,
        "divergence": {
            "prompt": divergence.prompt_id,
            "position": divergence.position,
            "margin": divergence.margin,
            "noise": divergence.noise,
        },
    }


def _prompt(pair: Pair) -> Json:
    counters = pair.speculative.counters
    nothing = "the answer ended before anything was decoded"
    return {
        "id": pair.item.id,
        "category": pair.item.category,
        "n_prompt_tokens": pair.speculative.n_prompt_tokens,
        **_or_reason("baseline_tokens_per_s", pair.baseline.tokens_per_s, nothing),
        **_or_reason("tokens_per_s", pair.speculative.tokens_per_s, nothing),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        "n_rounds": counters.n_rounds,
        "stop": str(pair.speculative.stop),
        "output_sha256": _sha256(pair.speculative.tokens),
    }


def _candidate(candidate: Candidate) -> Json:
    known = {"path": str(candidate.options.path)}
    return {
        "name": candidate.name,
        **(known if candidate.loaded is None else model(candidate.loaded)),
        "compatible": candidate.reason is None,
        "reason": candidate.reason,
    }


def _arm(arm: Arm) -> Json:
    if arm.speculation is None:
        return {"draft": None}
    return {"draft": arm.draft, **_speculation(arm.speculation)}


def _trial(record: TrialRecord, records: Sequence[TrialRecord]) -> Json:
    reason = record.error or "it is not finished"
    no_speedup = "the off arm was not measured" if record.tokens_per_s else reason
    return {
        "number": record.number,
        "state": str(record.state),
        "source": "measured",
        "params": _arm(record.arm),
        **_or_reason("tokens_per_s", record.tokens_per_s, reason),
        **_or_reason("speedup", speedup_estimate(record, records), no_speedup),
        **_or_reason("acceptance_rate", record.acceptance_rate, _NOTHING_DRAFTED),
        "noisy": record.noisy,
        "error": record.error,
    }


def _forecast(one: Forecast) -> Json:
    return {
        "source": "replayed",
        "params": _arm(one.arm),
        "speedup": one.speedup,
        "n_drafted": one.n_drafted,
        "n_accepted": one.n_accepted,
    }


def _baseline(result: TuneResult) -> Json:
    if result.pairs:
        return _throughput([pair.baseline for pair in result.pairs])
    off = [record for record in result.trials if record.arm == OFF and record.tokens_per_s]
    seconds = sum(prompt.decode_s for record in off for prompt in record.prompts)
    n_tokens = sum(prompt.n_tokens for record in off for prompt in record.prompts)
    rate = n_tokens / seconds if seconds else None
    return {
        **_or_reason("tokens_per_s", rate, "the off arm was not measured"),
        "n_tokens": n_tokens,
        "decode_s": seconds,
    }


def _best(result: TuneResult) -> Json | None:
    best = result.best
    if best is None:
        return None
    if result.speedup is not None:
        rate = throughput([pair.speculative for pair in result.pairs])
        return {"params": _arm(best.arm), "tokens_per_s": rate, **_speedup(result.speedup)}
    level = off_level(result.trials)
    return {
        "params": _arm(best.arm),
        "tokens_per_s": best.tokens_per_s,
        **_or_reason(
            "speedup",
            best.relative / level if best.relative and level else None,
            "the off arm was not measured",
        ),
        **_or_reason("speedup_ci95", None, "it was not confirmed on fresh measurements"),
    }


def _per_category(result: TuneResult) -> list[Json]:
    categories: dict[str, list[Pair]] = {}
    for pair in result.pairs:
        categories.setdefault(pair.item.category, []).append(pair)
    return [_category(name, pairs) for name, pairs in categories.items()]


def _category(name: str, pairs: Sequence[Pair]) -> Json:
    off = throughput([pair.baseline for pair in pairs])
    on = throughput([pair.speculative for pair in pairs])
    rounds = sum((pair.speculative.counters for pair in pairs), Counters())
    return {
        "category": name,
        "n_prompts": len(pairs),
        **_or_reason("speedup", on / off if on and off else None, "nothing was decoded"),
        **_or_reason("acceptance_rate", rounds.acceptance_rate, _NOTHING_DRAFTED),
    }


def _sha256(tokens: Sequence[int]) -> str:
    """Of the token ids as decimal numbers, one per line."""
    return hashlib.sha256("\n".join(map(str, tokens)).encode()).hexdigest()


def _or_reason(name: str, value: object, reason: str) -> Json:
    """A value, or null with its sibling ``<name>_reason``."""
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}
