"""Text for numbers and steps of progress."""

from spectui.format import counted, percent_text, rate_text, times_text
from spectui.measure.measurer import Run
from spectui.trace.costs import Costs
from spectui.tune.events import (
    CostsMeasured,
    DraftLeftOut,
    DraftRecorded,
    OutputRecorded,
    PromptProbed,
    StudyResumed,
    TracingEvent,
    TrialStarted,
)
from spectui.tune.forecast import Forecast
from spectui.tune.race import finalist
from spectui.tune.trials import TrialRecord, TrialState, n_measured, speedup_estimate


def setting(record: TrialRecord, *, is_best: bool) -> str:
    """Name a trial's arm, with a remark if there is one."""
    # The mark comes first: a long name may be cut off.
    marks = ["* best:"] if is_best else []
    marks.append(record.arm.label)
    if record.noisy:
        marks.append("(noisy)")
    if record.state is TrialState.INTERRUPTED:
        marks.append("(not finished)")
    elif record.state is not TrialState.COMPLETE:
        what = "pruned" if record.state is TrialState.PRUNED else "failed"
        marks.append(f"{what}: {record.error}")
    return " ".join(marks)


def line(record: TrialRecord, records: list[TrialRecord]) -> str:
    """Describe a finished trial."""
    gain = speedup_estimate(record, records)
    return (
        f"trial {record.number}: {rate_text(record.tokens_per_s)} tokens/s, {times_text(gain)}, "
        f"acceptance {percent_text(record.acceptance_rate)}, {setting(record, is_best=False)}"
    )


def measured(run: Run) -> str:
    """Describe a prompt that was measured."""
    if not run.has_decoded:
        return f"{run.item.id}: ended at once"
    off = "" if run.baseline is None else f"off {rate_text(run.baseline.tokens_per_s)}, on "
    rate = percent_text(run.speculative.counters.acceptance_rate)
    on = rate_text(run.speculative.tokens_per_s)
    return f"{run.item.id}: {off}{on} tokens/s, acceptance {rate}"


def forecast(forecasts: tuple[Forecast, ...]) -> str:
    """Describe a replay."""
    if not forecasts:
        return "nothing could be replayed: the answers were too short to measure what rounds cost"
    chosen = finalist((), forecasts)
    best = next((one for one in forecasts if one.arm == chosen), forecasts[0])
    return (
        f"replayed {len(forecasts):,} settings; the forecast's choice: {best.arm.label}, "
        f"{times_text(best.speedup)}"
    )


def resumed(event: StudyResumed) -> str:
    """Describe trials that were resumed."""
    return f"resuming a study with {counted(n_measured(event.records), 'trial')}"


def measuring_off(event: TrialStarted) -> str:
    """Describe the baseline trial that all others are compared with."""
    return f"measuring the target alone on {counted(event.n_prompts, 'prompt')}"


def traced(event: TracingEvent) -> str:
    """Describe a step of a recording."""
    match event:
        case DraftLeftOut(draft=draft, reason=reason):
            return f"left out {draft}: {reason}"
        case OutputRecorded(prompt_id=prompt, n_tokens=n):
            return f"{prompt}: {n} tokens of the target"
        case DraftRecorded(prompt_id=prompt, draft=draft, n_tokens=n, seconds=seconds):
            return f"{prompt}: {draft} along {n} tokens in {seconds:.1f} s"
        case PromptProbed(prompt_id=prompt, drafter=drafter):
            return f"{prompt}: measured rounds of every length with {drafter}"
        case CostsMeasured(draft=draft, costs=costs):
            return f"{draft}: measured what rounds cost{_unsteady(costs)}"


def _unsteady(costs: Costs) -> str:
    return "" if costs.spread is None else f", the machine unsteady by {percent_text(costs.spread)}"
