"""What a short recording says of every setting, and which of them are worth a real trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spectui.config import Schedule, SpeculationConfig
from spectui.engine.driver import Engine
from spectui.replay.costs import Costs
from spectui.replay.ngrams import (
    hashes_tokens,
    ngram_costs,
    replay_chained,
    replay_ngrams,
)
from spectui.replay.totals import Total, replay_trace
from spectui.replay.trace import Recording
from spectui.tune.candidates import Candidate
from spectui.tune.kept import KeptTrace
from spectui.tune.space import SearchSpace
from spectui.tune.tracing import Tracer, TracingEvent, n_probed_drafters, n_tracing_steps
from spectui.tune.trials import Arm
from spectui.tune.workload import Workload

RECORDING_PASSES = 2.5
"""What recording and probing a draft costs, in decodes of the same text by the target alone."""
_PROBING_PASSES = 1.5
"""What nothing but probing costs: where there is no draft, or none that drafts far enough."""
_DRAFT_READING = 0.25
"""What a draft takes to read a prompt, as a share of what the target takes; roughly."""
_PROMISING = 5
"""Settings that are measured first. Their predictions differ by less than the model's error."""
_CHAINED = 8
"""Settings of a draft model, the best of so many lengths, that are replayed behind n-gram drafters:
each of these walks along the text in Python, where the grid walks all settings together."""
_CHAIN_GAIN = 1.01
"""What a drafter ahead must be forecast to add. Most texts give it nothing to propose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A setting that was replayed, not measured."""

    arm: Arm
    speedup: float
    """Predicted, over the target alone."""
    n_drafted: int
    """Exact, on the recorded prompts."""
    n_accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a recording says before anything is tried."""

    forecasts: tuple[Forecast, ...]
    """Best first."""
    costs: Mapping[str, Costs]
    """What rounds were found to cost, by drafter."""


def forecasts(
    recordings: Sequence[Recording],
    costs_by_draft: Mapping[str, Costs],
    space: SearchSpace,
    *,
    has_text: bool = True,
) -> tuple[Forecast, ...]:
    """Replay every setting of ``space`` with every drafter whose costs are known.

    Args:
        recordings: of a trace.
        costs_by_draft: of a trace.
        space: what to replay.
        has_text: whether tokens are those of the vocabulary; otherwise n-gram drafters that hash
            them are left out.

    Returns:
        Best first; settings that do the same on all recordings stand for themselves.
    """
    found = list[Forecast]()
    if not recordings:
        return ()
    for draft in space.drafts:
        costs = costs_by_draft.get(draft)
        if costs is not None:
            totals = replay_trace(recordings, draft, space.grid(draft), costs)
            alone = [_forecast(total) for total in totals if _is_sensible(total.speculation)]
            ahead = [s for s in space.ahead() if has_text or not hashes_tokens(s)]
            found += [*alone, *_chained(recordings, alone, ahead, costs)]
    costs = ngram_costs(costs_by_draft)
    if costs is not None:
        settings = [s for s in space.ngrams() if has_text or not hashes_tokens(s)]
        found += map(_forecast, replay_ngrams(recordings, settings, costs))
    return tuple(sorted(found, key=lambda one: -one.speedup))


def _chained(
    recordings: Sequence[Recording],
    alone: Sequence[Forecast],
    ahead: Sequence[SpeculationConfig],
    costs: Costs,
) -> Iterator[Forecast]:
    """The best settings of a draft model with each of ``ahead`` before it, where that gains."""
    best = _best_of_each_length(sorted(alone, key=lambda one: -one.speedup))[:_CHAINED]
    for one in best:
        if one.arm.draft is None or one.arm.speculation is None:
            continue
        settings = [one.arm.speculation.after((drafter,)) for drafter in ahead]
        for total in replay_chained(recordings, one.arm.draft, settings, costs):
            if (total.speedup or 0.0) > _CHAIN_GAIN * one.speedup:
                yield _forecast(total)


def _is_sensible(speculation: SpeculationConfig) -> bool:
    """Whether not every draft would be dropped."""
    return speculation.draft_min <= speculation.draft_max


def _forecast(total: Total) -> Forecast:
    return Forecast(
        arm=Arm(draft=total.draft, speculation=total.speculation),
        speedup=total.speedup or 0.0,
        n_drafted=total.n_drafted,
        n_accepted=total.n_accepted,
    )


def promising(ordered: Sequence[Forecast], n: int = _PROMISING) -> tuple[Arm, ...]:
    """Choose the best setting of each of the ``n`` best pairs of drafter and ``draft_max``.

    Where the cost model errs, it errs along the length of the draft: neighbours in the other
    parameters share its error, and measuring them would say little. A setting that drafted nothing
    is the off arm under another name.
    """
    return tuple(one.arm for one in _best_of_each_length(ordered)[:n])


def _best_of_each_length(ordered: Sequence[Forecast]) -> list[Forecast]:
    chosen: dict[tuple[str, int], Forecast] = {}
    for one in ordered:
        speculation = one.arm.speculation
        if speculation is not None and one.n_drafted:
            # With and without a drafter ahead, a model of one length shares its error, too.
            who = one.arm.draft or one.arm.drafter
            chosen.setdefault((who, speculation.draft_max), one)
    return list(chosen.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was recorded."""

    recordings: Sequence[Recording]
    costs: Mapping[str, Costs]
    has_text: bool


class Forecaster:
    """Records the first prompts of a workload with every draft, and replays the space on them.

    Without a draft the target's output is enough: n-gram drafters need no more.
    """

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        candidates: Sequence[Candidate],
        space: SearchSpace,
        *,
        schedule: Schedule,
        n_ctx: int,
        kept: KeptTrace | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            engine: has loaded the target.
            workload: what to record.
            candidates: drafts; those with an error are left out.
            space: what to replay.
            schedule: the work per round.
            n_ctx: of the target.
            kept: the study's trace, for when it goes on; None keeps none.
        """
        self._kept = kept
        self._known: _Known | None = None
        self._engine = engine
        self._workload = workload
        self._candidates = tuple(c for c in candidates if c.error is None)
        self._space = space
        self._schedule = schedule
        self._n_ctx = n_ctx

    @property
    def n_prompts(self) -> int:
        """Prompts that can be recorded."""
        return len(self._workload.items)

    def n_steps(self, n_prompts: int) -> int:
        """Events that ``run`` tells of."""
        return n_tracing_steps(n_prompts, self._candidates)

    def seconds_per_prompt(self, tokens_per_s: float, prompt_token_s: float) -> float:
        """Estimate for ``run``.

        Args:
            tokens_per_s: of the target alone.
            prompt_token_s: what it takes per token of a prompt.
        """
        n_drafts, items = len(self._candidates), self._workload.items
        n_more = n_probed_drafters(self._candidates) - n_drafts
        passes = RECORDING_PASSES * n_drafts + _PROBING_PASSES * n_more
        readings = 1 + _DRAFT_READING * n_drafts
        mean_tokens = sum(len(item.tokens) for item in items) / max(len(items), 1)
        decoding_s = self._workload.n_predict / tokens_per_s * (1 + passes)
        return decoding_s + mean_tokens * prompt_token_s * readings

    def run(
        self, n_prompts: int, on_event: Callable[[TracingEvent], None], loaded: str | None
    ) -> tuple[Outlook, str | None]:
        """Record and replay.

        Args:
            n_prompts: to record, of those that there are.
            on_event: told what is done, on the caller's thread.
            loaded: the candidate that the engine has loaded.

        Returns:
            What was found, and the candidate that is loaded now.

        Raises:
            BadInputError: the trace cannot be written.
            KeyboardInterrupt: it was stopped.
        """
        tracer = Tracer(
            self._engine,
            self._workload.first(n_prompts),
            self._candidates,
            depth=self._space.max_draft,
            n_ctx=self._n_ctx,
            schedule=self._schedule,
            loaded=loaded,
            on_event=on_event,
        )
        tracing = tracer.run()
        if tracing.interrupted:
            raise KeyboardInterrupt
        if self._kept is not None and tracing.recordings:
            self._kept.keep(tracing)
        return self._outlook(tracing.recordings, tracing.costs), tracer.loaded

    def recall(self) -> Outlook | None:
        """Replay what an earlier run of the study has recorded; None if it is not there."""
        trace = None if self._kept is None else self._kept.read()
        if trace is None or not self._is_deep_enough(trace.recordings):
            return None
        return self._outlook(trace.recordings, trace.costs, has_text=trace.has_text)

    def _is_deep_enough(self, recordings: Sequence[Recording]) -> bool:
        depths = [chains.depth for one in recordings for chains in one.chains.values()]
        return min(depths, default=self._space.max_draft) >= self._space.max_draft

    def _outlook(
        self,
        recordings: Sequence[Recording],
        costs: Mapping[str, Costs],
        *,
        has_text: bool = True,
    ) -> Outlook:
        self._known = _Known(recordings=recordings, costs=costs, has_text=has_text)
        found = forecasts(recordings, costs, self._space, has_text=has_text)
        return Outlook(forecasts=found, costs=costs)

    def forecast(self, arm: Arm) -> Forecast | None:
        """Replay one arm; None where nothing was recorded that tells."""
        known, speculation = self._known, arm.speculation
        if known is None or speculation is None or not known.recordings:
            return None
        if hashes_tokens(speculation) and not known.has_text:
            return None
        if arm.draft is None:
            own = ngram_costs(known.costs)
            totals = () if own is None else replay_ngrams(known.recordings, (speculation,), own)
        else:
            own = known.costs.get(arm.draft)
            totals = (
                ()
                if own is None
                else replay_chained(known.recordings, arm.draft, (speculation,), own)
            )
        return _forecast(totals[0]) if totals else None
