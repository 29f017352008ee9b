"""The document of ``tune``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.cli.documents.categories import per_category_rows, profiles_document
from spectui.cli.documents.common import header, model
from spectui.cli.documents.explanation import explanation_fields
from spectui.documents import Json, or_reason
from spectui.measure.lossless import lossless_document
from spectui.measure.measurer import NOTHING_DRAFTED, throughput, throughput_document
from spectui.measure.served_models import NOT_LOADED
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine
from spectui.options.setup import Schedule
from spectui.tune.candidates import Candidate
from spectui.tune.categories import CategoryResult, Profiles
from spectui.tune.conditions import Conditions
from spectui.tune.explain import Explanation
from spectui.tune.forecast import Forecast
from spectui.tune.pace import Spent
from spectui.tune.placements import Placements
from spectui.tune.race import Standing
from spectui.tune.result import TuneResult
from spectui.tune.trials import TrialRecord, speedup_estimate

_FORECASTS = 50
"""Number of replayed settings that a document lists: the best ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Conclusions drawn from a result."""

    explanation: Explanation
    categories: tuple[CategoryResult, ...]
    profiles: Profiles
    conditions: Conditions


def tune_document(
    result: TuneResult,
    findings: Findings,
    *,
    machine: Machine,
    study: str,
    target: Json,
    candidates: Sequence[Candidate],
    memory_bytes: Mapping[str, int],
    placements: Placements | None,
    workload: Workload,
    schedule: Schedule,
    min_gain: float,
    flags: Sequence[str],
    command: str,
    best_command: str | None,
) -> Json:
    """``spectui.tune/1``: ``command`` follows the verdict, ``best_command`` what measured best."""
    return {
        **header("tune", machine),
        "study": study,
        "target": target,
        "drafts": [_candidate(one, memory_bytes.get(one.name)) for one in candidates],
        "config": {
            "schedule": str(schedule),
            **workload.document(),
            "n_prompts": len(workload.items),
            "min_gain": min_gain,
        },
        **or_reason("placements", _placements(placements), "n_cpu_moe was not searched"),
        "baseline": {"params": result.off.document(), **_baseline(result)},
        "trials": [_trial(record, result.trials) for record in result.trials],
        "forecasts": [_forecast(one) for one in result.forecasts[:_FORECASTS]],
        "n_replayed": len(result.forecasts),
        **_or_ended(result),
        "time": _time(result.spent),
        **or_reason("best", _best(result), "no speculative setting could be measured"),
        **or_reason("best_command", best_command, "no speculative setting could be measured"),
        "finalists": [_standing(one) for one in result.finalists],
        "per_category": per_category_rows(result, findings.categories),
        "profiles": profiles_document(findings.profiles),
        **explanation_fields(findings.explanation),
        "conditions": _conditions(findings.conditions),
        "prompts": [pair.document() for pair in result.pairs],
        **lossless_document(result.lossless),
        "verdict": {
            "use_speculation": result.verdict.use_speculation,
            "reason": result.verdict.reason,
        },
        "interrupted": result.interrupted,
        "flags": list(flags),
        "command": command,
    }


def _placements(placements: Placements | None) -> Json | None:
    """Layers with their experts in RAM."""
    if placements is None:
        return None
    return {"alone": placements.alone, "beside": dict(placements.beside)}


def _conditions(met: Conditions) -> Json:
    before, after = met.temperatures_c
    return {
        **or_reason("drift", met.drift, "fewer than two trials were measured"),
        "n_noisy": met.n_noisy,
        **or_reason("temperature_before_c", before.value, before.reason or ""),
        **or_reason("temperature_after_c", after.value, after.reason or ""),
        "notes": list(met.notes),
    }


def _or_ended(result: TuneResult) -> Json:
    reason = "the trials were not ended by forecasts"
    return or_reason("expected_improvement", result.expected_improvement, reason)


def _time(spent: Spent) -> Json:
    return {
        **or_reason("budget_s", spent.budget_s, "no --time-budget was given"),
        "took_s": spent.took_s,
        "ended_trials": spent.ended_trials,
        "left_out_recording": spent.left_out_recording,
    }


def _standing(one: Standing) -> Json:
    nothing = "nothing was decoded"
    speedup = one.speedup
    if speedup is None:
        return {"params": one.arm.document(), **or_reason("speedup", None, nothing)}
    return {"params": one.arm.document(), "n_prompts": speedup.n_prompts, **speedup.document()}


def _candidate(candidate: Candidate, memory_bytes: int | None) -> Json:
    """A candidate with its memory: weights, cache and scratch; before loading, the first two."""
    loaded = candidate.loaded
    unknown = "it could not be loaded" if candidate.error else NOT_LOADED
    if candidate.is_mtp:
        unknown = "its layers are part of the target"
    elif loaded is not None:
        memory_bytes = sum(buffer.size_bytes for buffer in loaded.memory.buffers)
    known = {"path": str(candidate.options.path)}
    return {
        **(known if candidate.loaded is None else model(candidate.loaded)),
        # As trials call it, not as its file does.
        "name": candidate.name,
        **or_reason("memory_bytes", memory_bytes, unknown),
        "compatible": candidate.reason is None,
        "reason": candidate.reason,
    }


def _trial(record: TrialRecord, records: Sequence[TrialRecord]) -> Json:
    reason = record.error or "it is not finished"
    was_measured = record.tokens_per_s is not None
    no_speedup = "the off arm was not measured" if was_measured else reason
    nothing_drafted = NOTHING_DRAFTED if was_measured else reason
    return {
        "number": record.number,
        "state": str(record.state),
        "source": "measured",
        "params": record.arm.document(),
        **or_reason("tokens_per_s", record.tokens_per_s, reason),
        **or_reason("speedup", speedup_estimate(record, records), no_speedup),
        **or_reason("acceptance_rate", record.acceptance_rate, nothing_drafted),
        "noisy": record.noisy,
        "error": record.error,
    }


def _forecast(one: Forecast) -> Json:
    return {
        "source": "replayed",
        "params": one.arm.document(),
        "speedup": one.speedup,
        "n_drafted": one.n_drafted,
        "n_accepted": one.n_accepted,
    }


def _baseline(result: TuneResult) -> Json:
    if result.pairs:
        return throughput_document([pair.baseline for pair in result.pairs])
    off = [record for record in result.trials if record.arm.is_off and record.tokens_per_s]
    seconds = sum(prompt.decode_s for record in off for prompt in record.prompts)
    n_tokens = sum(prompt.n_tokens for record in off for prompt in record.prompts)
    rate = n_tokens / seconds if seconds else None
    return {
        **or_reason("tokens_per_s", rate, "the off arm was not measured"),
        "n_tokens": n_tokens,
        "decode_s": seconds,
    }


def _best(result: TuneResult) -> Json | None:
    best = result.best
    if best is None:
        return None
    if result.speedup is not None:
        rate = throughput([pair.speculative for pair in result.pairs])
        return {
            "params": best.document(),
            "tokens_per_s": rate,
            **result.speedup.document(),
        }
    trial = next(one for one in reversed(result.trials) if one.arm == best and one.tokens_per_s)
    return {
        "params": best.document(),
        "tokens_per_s": trial.tokens_per_s,
        **or_reason(
            "speedup", speedup_estimate(trial, result.trials), "the off arm was not measured"
        ),
        **or_reason("speedup_ci95", None, "it was not confirmed on fresh measurements"),
    }
