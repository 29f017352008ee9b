"""The pair of a live session: what is loaded and drafts, which drafts fit, and its search."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.engine.commands import ComparePair
from spectui.engine.driver import Engine
from spectui.engine.events import Event, ModelLoaded, Role
from spectui.engine.thread import EngineThread, Priority
from spectui.live.setup import LiveSetup
from spectui.llama.planned import PlanRequest
from spectui.measure.chats import tokenize_with_chats
from spectui.models.ranking import ModelInspected
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, builtin_suite
from spectui.prompts.chats import Chats
from spectui.tune.candidates import Candidate, drafter_name
from spectui.tune.setup import CommandOptions, Limits, TuningSetup
from spectui.tune.space import SearchSpace, longest_draft

_TUNED_TOKENS = 64
"""Tokens that a search continues each prompt with."""


@dataclass(slots=True)
class LoadedPair:
    """The loaded models; None where there is none, or not yet."""

    target: ModelLoaded | None = None
    draft: ModelLoaded | None = None

    def add(self, loaded: ModelLoaded) -> None:
        """Take the place of what was loaded in the same role."""
        if loaded.role is Role.TARGET:
            self.target = loaded
        else:
            self.draft = loaded

    @property
    def drafter(self) -> ModelLoaded | None:
        """The model that drafts: the draft, else the target if it was loaded with MTP layers."""
        if self.draft is not None:
            return self.draft
        return self.target if self.target is not None and self.target.mtp_layers else None

    def usable(self, speculation: Speculation | None) -> Speculation | None:
        """The given speculation if the drafter it needs is loaded, else None."""
        if speculation is None or (speculation.needs_draft and self.draft is None):
            return None
        loaded = (self.target, self.draft)
        has_mtp = any(one is not None and one.mtp_layers > 0 for one in loaded)
        return None if speculation.is_mtp and not has_mtp else speculation

    def candidate(self, setup: LiveSetup) -> Candidate | None:
        """The drafter as a search takes it."""
        drafter = self.drafter
        if drafter is None:
            return None
        options = setup.target if drafter is self.target else setup.draft
        if options is None:
            return None
        return Candidate(
            name=drafter_name(drafter),
            options=options,
            loaded=drafter,
            is_mtp_file=drafter is self.draft and drafter.mtp_layers > 0,
        )


def max_draft(setup: LiveSetup) -> int:
    """Longest draft to load for: what tuning may try, and what the user asks for, if it fits."""
    longest, context = longest_draft(setup.context), setup.context
    wanted = 0 if setup.speculation is None else setup.speculation.longest
    return max(longest, min(wanted, context.batch_size - 1, context.ctx_size - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search that the user asks for."""

    prompts: tuple[Prompt, ...]
    chats: Chats | None = None
    """Exported chats, whose answers are measured as they are; None without."""
    time_budget_s: float | None = None
    """Seconds of the search's own work, at most; None for no limit."""
    path: Path | None = None
    """Path of the prompts; None for the built-in ones and for turns of the chat."""


def tuning_setup(
    request: SearchRequest,
    setup: LiveSetup,
    target: ModelLoaded,
    candidate: Candidate | None,
    engine: Engine,
    *,
    say: Callable[[str], None],
) -> TuningSetup:
    """The search for the best drafting of a loaded pair, for a server of the same setup.

    Without a model that drafts, ``candidate`` is None, and only n-grams are tried. ``say`` takes
    clauses on prompts that are left out.
    """
    candidates = () if candidate is None else (candidate,)
    engine.rendering = setup.rendering
    workload = tokenize_with_chats(
        engine,
        request.prompts,
        request.chats,
        n_predict=_TUNED_TOKENS,
        sampling=replace(setup.sampling, ignore_eos=False),
        target=target,
        say=say,
    )
    return TuningSetup(
        off=setup.off,
        candidates=candidates,
        workload=workload,
        space=SearchSpace(
            drafts=tuple(one.name for one in candidates),
            max_draft=longest_draft(setup.context),
            mtp_layers={
                **{one.name: one.mtp_layers for one in candidates},
                MTP_KIND: target.mtp_layers,
            },
        ),
        limits=Limits(time_budget_s=request.time_budget_s),
        command=CommandOptions.of(setup.taken, setup.extra),
        prompts=request.path,
        # Texts of chats are not kept.
        is_chat=request.chats is not None
        or (request.path is None and request.prompts != builtin_suite()),
    )


class PairInspector:
    """Checks which drafts fit a target, in the engine's idle time."""

    def __init__(self, engine: EngineThread, sink: Callable[[ModelInspected], None]) -> None:
        """Ask nothing yet; ``sink`` is told of every pair on the engine's thread."""
        self._sink = sink
        self.client = engine.connect(self._on_event, Priority.BACKGROUND)

    def compare(self, setup: Setup) -> None:
        """Find out whether a setup's draft fits its target. Answered by ``ModelInspected``."""
        if setup.draft is not None:
            self.client.submit(ComparePair(request=PlanRequest.of(setup).beside(setup.draft)))

    def forget(self) -> None:
        """Cancel comparisons that are still waiting: another target is looked at."""
        self.client.stop()

    def _on_event(self, event: Event) -> None:
        # A failure is a cancelled comparison, or a target that cannot be read: loading it says so.
        if isinstance(event, ModelInspected):
            self._sink(event)
