"""The settings of a search or of a replayed chat, the best one, and what can be done now."""

from collections.abc import Iterator
from dataclasses import dataclass

from spectui.live.recording import ChatRecording
from spectui.measure.arm import Arm
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Drafted
from spectui.trace.costs import Costs
from spectui.trace.replay import Total, replay_trace
from spectui.tui import draw
from spectui.tune.forecast import Forecast, promising
from spectui.tune.progress import Phase, TuningState
from spectui.tune.race import finalist
from spectui.tune.space import SearchSpace
from spectui.tune.trials import TrialRecord, TrialState

ACTIONS = frozenset({"begin", "start", "stop"})
"""Actions that depend on the state of the search."""
FORECAST = "forecast"
_N_FORECASTS = 12
"""Forecasts to show, the best of as many drafters and lengths."""
_SUREST = "Its gain is the surest: higher forecasts here are the gain of a few answers alone."


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting."""

    arm: Arm
    origin: str
    """Where its numbers are from, or why there are none."""
    speedup: float | None = None
    """Over off, without interval: by the trial, raced, forecast, or replayed."""
    tokens_per_s: float | None = None
    acceptance_rate: float | None = None
    is_known: bool = True
    """Whether the setting works on this machine, as far as is known."""
    detail: str = ""
    """An error, or the counts of a replay, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All settings: the best, then the fastest, and behind them those without a speedup."""

    rows: tuple[Row, ...] = ()
    best: Row | None = None
    """The setting that was confirmed; else the one that would be raced now."""
    n_tried: int = 0
    """Trials that were measured or cannot be."""

    @property
    def leader(self) -> Row | None:
        """``best``, unless off is faster."""
        speedup = None if self.best is None else self.best.speedup
        return None if speedup is not None and speedup <= 1 else self.best


def digest(state: TuningState) -> Ledger:
    """Return the ledger of a search."""
    rows = (*_trials(state), *_without_trial(state))
    raced = next(iter(state.raced), None)
    best = state.confirmed or raced or finalist(state.records, state.forecasts)
    # Of several trials of a setting the last one.
    known = {row.arm: row for row in rows if row.is_known}
    first = None if best is None else known.get(best)
    return Ledger(
        rows=tuple(sorted(rows, key=lambda row: (row is not first, -(row.speedup or 0.0)))),
        best=first,
        n_tried=sum(record.is_tried for record in state.records),
    )


def _trials(state: TuningState) -> Iterator[Row]:
    for record in state.records:
        is_known = record.state is TrialState.COMPLETE
        yield Row(
            arm=record.arm,
            origin=_origin(record),
            speedup=record.speedup,
            tokens_per_s=record.tokens_per_s,
            acceptance_rate=record.acceptance_rate,
            is_known=is_known,
            detail=draw.one_line(record.error or ""),
        )


def _origin(record: TrialRecord) -> str:
    if record.state is TrialState.COMPLETE:
        return f"trial {record.number}{', old way' * record.is_old}"
    return "failed" if record.state is TrialState.FAIL else record.state.value


def _without_trial(state: TuningState) -> Iterator[Row]:
    """Settings that were raced, and those with the best forecasts."""
    timed = {record.arm for record in state.records if record.is_tried}
    known = {one.arm: one for one in state.forecasts if one.arm not in timed}
    raced = {arm: speedup for arm, speedup in state.raced.items() if arm not in timed}
    best = promising(tuple(known.values()), _N_FORECASTS)
    counted = {arm: speedup for arm, speedup in state.counted.items() if arm not in timed}
    forecast = {**{arm: known[arm].speedup for arm in best}, **counted}
    higher = max((known[arm].speedup for arm in best), default=0.0)
    for arm in dict.fromkeys((*raced, *counted, *best)):
        is_surest = arm in best[:1] and arm not in raced and known[arm].speedup < higher
        yield Row(
            arm=arm,
            origin="raced" if arm in raced else FORECAST,
            speedup=raced[arm] if arm in raced else forecast[arm],
            acceptance_rate=_acceptance_rate(state, arm, known.get(arm)),
            detail=_SUREST if is_surest else "",
        )


def _acceptance_rate(state: TuningState, arm: Arm, forecast: Forecast | None) -> float | None:
    """Acceptance on the prompts that the speedup is of: those of the race, else of the forecast."""
    finalists = () if state.result is None else state.result.finalists
    counted: list[Drafted] = []
    for one in finalists:
        if one.arm == arm:
            counted += one.categories or (pair.speculative.counters for pair in one.pairs)
    found = Drafted(
        n_drafted=sum(one.n_drafted for one in counted),
        n_accepted=sum(one.n_accepted for one in counted),
    )
    if found.n_drafted:
        return found.acceptance_rate
    return None if forecast is None else forecast.acceptance_rate


def replay_chat(recording: ChatRecording, costs: Costs | None) -> tuple[Total, ...]:
    """Replay the search space of tuning on the recorded answers, of which there is at least one.

    Args:
        recording: recording of the session's answers.
        costs: costs of rounds that tuning measured of this pair; None before that.

    Returns:
        Best first; without costs, those of most tokens per round.
    """
    space = SearchSpace(drafts=(recording.draft,), max_draft=recording.longest)
    grid = space.grid(recording.draft)
    totals = replay_trace(recording.recordings, recording.draft, grid, costs)
    able = [total for total in totals if total.model.check() is None]
    # Of those that do the same, the one that asks for the least.
    able.sort(key=lambda one: (-(one.speedup or one.tokens_per_round or 1.0), one.model.draft_min))
    return tuple(able)


def replayed(draft: str, totals: tuple[Total, ...], in_use: Speculation | None) -> Ledger:
    """Return the ledger of a chat: the best setting of each longest draft, and the one in use.

    The best comes first; without costs, the shortest drafts.
    """
    best = {one.model.draft_max: one for one in reversed(totals)}
    # Without costs nothing says which is the best.
    is_priced = totals[0].speedup is not None
    by_length = sorted(totals, key=lambda one: one.model.draft_max)
    rows = tuple(
        Row(
            arm=Arm(draft=draft, speculation=one.speculation),
            origin="in use" if one.speculation == in_use else "replayed",
            speedup=one.speedup,
            tokens_per_s=one.tokens_per_s,
            acceptance_rate=one.acceptance_rate,
            detail=f"{one.n_rounds} rounds, {one.n_drafted} drafted, {one.n_accepted} accepted, "
            f"{draw.number(one.tokens_per_round)} tokens/round",
        )
        for one in (totals if is_priced else by_length)
        if one is best[one.model.draft_max] or one.speculation == in_use
    )
    return Ledger(rows=rows, best=rows[0] if is_priced else None)


def available(state: TuningState) -> frozenset[str]:
    """Return the names of the actions that make sense, but for those of the form."""
    if not state.is_running:
        return frozenset({"start"})
    return frozenset() if state.phase is Phase.STOPPING else frozenset({"stop"})
