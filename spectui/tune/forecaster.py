"""The recorder of a search: prompts with every draft, and the replay of its space on them."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError
from spectui.measure.arm import Arm
from spectui.measure.workload import Workload
from spectui.trace.record import Recording, Trace
from spectui.tune.candidates import Loader
from spectui.tune.forecast import Answers, Forecast, Outlook
from spectui.tune.probing import N_TOKENS
from spectui.tune.recorded import Recorded
from spectui.tune.space import SearchSpace
from spectui.tune.studies.records import KeptTrace
from spectui.tune.tracing import COST_PROMPTS, Tracer, Tracing, never

_TEXT_PASSES = 0.5
"""Cost of writing a text beside others in one batch, in decodes of that text alone."""
_RECORDING_PASSES = 0.3
"""Cost of recording a draft along a text, in decodes of that text by the target alone."""
_PROBING_PASSES = 1.3
"""Cost of measuring rounds, in decodes of that text by the target alone."""
_DRAFT_READING = 0.25
"""Cost for a draft to read a prompt, as a share of the target's; roughly."""


@dataclass(eq=False)
class Forecaster:
    """Records the first prompts of a workload with every draft, and replays the space on them.

    Without a draft the target's output is enough: n-gram drafters need no more.
    """

    workload: Workload
    """Prompts to record."""
    loader: Loader
    """Has loaded the target, and loads the drafts."""
    space: SearchSpace
    """Settings to replay."""
    _: KW_ONLY
    target: ModelLoaded
    """The target, which the loader has loaded."""
    kept: KeptTrace | None = None
    """The study's trace, for when it goes on; None keeps none."""

    def __post_init__(self) -> None:
        self.not_kept: str | None = None
        """Why the trace could not be kept; None where it was."""
        self.taken: tuple[Recording, ...] = ()
        """Recordings of another machine, in place of those that ``run`` would make."""
        self._recorded = Recorded(costs={}, space=self.space)
        self._further: list[Recording] = []
        """Recorded for one arm alone."""

    def n_steps(self, n_prompts: int) -> int:
        """Number of events that ``run`` emits, about."""
        n_prompts, n_drafts = len(self.taken) or n_prompts, len(self.loader.drafts)
        n_probes = max(n_drafts, 1) * (1 + min(n_prompts, COST_PROMPTS))
        return n_probes if self.taken else n_probes + n_prompts * (1 + n_drafts)

    def seconds(
        self, n_prompts: int, n_tokens: int, tokens_per_s: float, prompt_token_s: float
    ) -> float:
        """Estimate for ``run``, with costs measured on as few prompts as will do.

        Args:
            n_prompts: to record.
            n_tokens: of each answer, to record.
            tokens_per_s: throughput of the target alone.
            prompt_token_s: seconds per token of a prompt.
        """
        pass_s, n_drafts = n_tokens / tokens_per_s, len(self.loader.drafts)
        # Half as many prompts are enough for the costs of a later drafter.
        n_probed = min(n_prompts, COST_PROMPTS // 4) * (1 + max(n_drafts, 1)) / 2
        prompt_s = self._prompt_s(pass_s, prompt_token_s, n_drafts)
        return n_prompts * prompt_s + n_probed * _PROBING_PASSES * N_TOKENS / tokens_per_s

    def _prompt_s(self, pass_s: float, prompt_token_s: float, n_drafts: int) -> float:
        """Estimate for the recording of a prompt.

        Args:
            pass_s: seconds in which the target decodes an answer.
            prompt_token_s: seconds per token of a prompt.
            n_drafts: that are recorded.
        """
        items = self.workload.items
        n_items = max(len(items), 1)
        reading_s = prompt_token_s * sum(len(item.tokens) for item in items) / n_items
        written = sum(item.given is None for item in items) / n_items
        draft_s = _RECORDING_PASSES * pass_s + _DRAFT_READING * reading_s
        return written * _TEXT_PASSES * pass_s + reading_s + n_drafts * draft_s

    def run(
        self,
        n_prompts: int,
        n_tokens: int,
        on_event: Callable[[str], None],
        is_over: Callable[[float], bool] = never,
    ) -> Outlook:
        """Record and replay.

        Args:
            n_prompts: to record, of those that there are.
            n_tokens: of each answer, to record.
            on_event: called with a sentence on each step, on the caller's thread.
            is_over: returns whether a share of the time is gone; called again and again.

        Raises:
            EngineDiedError: its process ended twice at one prompt.
            KeyboardInterrupt: it was stopped.
        """
        workload, ids = self.workload.first(n_prompts), {one.id for one in self.taken}
        if ids:
            items = tuple(one for one in self.workload.items if one.id in ids)
            workload = replace(workload, items=items)
        tracing = self._traced(
            replace(workload, n_predict=n_tokens),
            recordings=self.taken,
            depth=self.space.depth,
            floor=self.space.floor,
            on_event=on_event,
            is_over=is_over,
            hopeless=lambda draft, first, costs: Recorded(
                recordings=first, costs=costs, space=self.space
            ).hopeless(draft),
        )
        if self.kept is not None and tracing.trace.recordings:
            try:
                self.kept.keep(tracing.trace, is_new=not self.taken)
            except BadInputError as error:
                # It would save time where the study goes on, no more.
                self.not_kept = str(error)
        outlook = self._outlook(tracing.trace)
        return replace(outlook, readings=tracing.readings, left_out=tracing.left_out)

    def recall(self, n_prompts: int, n_tokens: int) -> Outlook | None:
        """Replay what an earlier run of the study has recorded.

        None if it recorded less than ``n_tokens`` of ``n_prompts`` answers. Where another machine
        did, ``run`` takes those.
        """
        if self.kept is None:
            return None
        trace, enough = self.kept.read(), partial(self._is_enough, n_prompts, n_tokens)
        if trace is not None and enough(trace.recordings):
            return self._outlook(trace)
        shared = (one.recordings for one in self.kept.shared())
        self.taken = next((one for one in shared if enough(one) and self._may_take(one)), ())
        return None

    def _is_enough(self, n_prompts: int, n_tokens: int, recordings: Sequence[Recording]) -> bool:
        space = self.space
        every = [chains for one in recordings for chains in one.chains.values()]
        covers = all(one.depth >= space.depth and one.floor <= space.floor for one in every)
        return covers and sum(one.n_predict >= n_tokens for one in recordings) >= n_prompts

    def _may_take(self, recordings: Sequence[Recording]) -> bool:
        """Whether a recording of another machine would be the same here, but for near ties."""
        bounds = {(one.n_ctx, one.rollback) for one in recordings}
        names = {one.id for one in self.workload.items}
        is_whole = all(one.chains.keys() >= {*self.loader.drafts} for one in recordings)
        return (
            is_whole
            and bounds == {(self.target.n_ctx, self.target.rollback)}
            and names.issuperset(one.id for one in recordings)
        )

    def _outlook(self, trace: Trace) -> Outlook:
        self._recorded = Recorded.of(trace, self.space)
        return self._recorded.outlook()

    @property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Names and categories of the recorded prompts."""
        return tuple((one.id, one.category) for one in self._recorded.recordings)

    @property
    def texts(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Prompts and answers of the recording; none without text."""
        known = self._recorded
        if not known.has_text:
            return ()
        return tuple((tuple(one.prompt), tuple(one.output)) for one in known.recordings)

    def prompt_s(self, prompt_token_s: float) -> float:
        """Estimate of what answering a further prompt, and reading that by one draft, takes.

        Args:
            prompt_token_s: seconds per token of a prompt.
        """
        off = [one.off_s for one in self._recorded.costs.values()]
        return self._prompt_s(max(off, default=0.0) * self.workload.n_predict, prompt_token_s, 1)

    def further(
        self, arm: Arm, n: int, on_event: Callable[[str], None]
    ) -> tuple[Sequence[tuple[str, str]], Answers] | None:
        """Record up to ``n`` further prompts for one arm, and replay it on them.

        Args:
            arm: the setting.
            n: prompts.
            on_event: called with a sentence on each prompt that is answered, or read by the draft.

        Returns:
            Names and categories of the prompts, and the answers; None where there are none, or the
            recording does not hold the arm.

        Raises:
            EngineDiedError: its process ended twice at one prompt.
            KeyboardInterrupt: it was stopped.
        """
        known, speculation = self._recorded, arm.speculation
        names = {one.id for one in (*known.recordings, *self._further)}
        items = tuple(one for one in self.workload.items if one.id not in names)[:n]
        if speculation is None or not items:
            return None
        n_tokens = max((one.n_predict for one in known.recordings), default=0)
        model = speculation.model
        self.loader.load(arm.draft)
        # As far as a replay of this arm needs it.
        more = self._traced(
            replace(self.workload, items=items, n_predict=n_tokens),
            depth=speculation.longest,
            floor=(0.0 if model is None else model.draft_p_min) or self.space.floor,
            with_costs=False,
            drafts=() if arm.draft is None else (arm.draft,),
            on_event=on_event,
        ).trace.recordings
        found = replace(known, recordings=more).replay(arm)
        if found is None:
            return None
        self._further += more
        return [(one.id, one.category) for one in more], found.answers

    def _traced(self, workload: Workload, **how: Any) -> Tracing:  # noqa: ANN401 - as ``Tracer``
        """Record a workload whole."""
        tracing = Tracer(workload, self.loader, target=self.target, **how).run()
        if tracing.interrupted:
            raise tracing.error or KeyboardInterrupt
        return tracing

    def forecast(self, arm: Arm) -> Forecast | None:
        """Replay one arm; None where no recording covers it."""
        return self._recorded.replay(arm)
