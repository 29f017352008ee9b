"""Running trials: every one between two anchor runs of the target alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.tune.candidates import Candidate
from spectui.tune.events import TrialFinished, TrialStarted, TuneEvent
from spectui.tune.measurement import Measurer
from spectui.tune.statistics import drift
from spectui.tune.study import Proposal, TuningStudy
from spectui.tune.trials import Arm, TrialRecord, TrialState, score
from spectui.tune.workload import WorkItem

MAX_DRIFT = 0.15
"""Anchors further apart than this make a trial noisy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anchor:
    tokens_per_s: float
    n_interruptions: int
    """Of the engine, before it was measured: it is stale as soon as there are more."""


class TrialRunner:
    """Measures what a study proposes, and keeps the records."""

    def __init__(
        self,
        engine: Engine,
        study: TuningStudy,
        measurer: Measurer,
        *,
        items: Sequence[WorkItem],
        candidates: Sequence[Candidate],
        loaded: str | None,
        on_event: Callable[[TuneEvent], None],
        on_decoded: Callable[[WorkItem, GenerationResult], None],
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            engine: has loaded the target.
            study: proposes and stores.
            measurer: decodes.
            items: prompts of every trial.
            candidates: drafts that the study's arms name.
            loaded: the candidate that the engine has loaded already.
            on_event: told of every trial.
            on_decoded: told of every prompt.
        """
        self._engine = engine
        self._study = study
        self._measurer = measurer
        self._items = items
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self.loaded = loaded
        """Name of the draft that the engine holds."""
        self._on_event = on_event
        self._on_decoded = on_decoded
        self._by_number = {record.number: record for record in study.records()}
        """Kept here too: a storage that fails must not take the result with it."""
        self._anchor: _Anchor | None = None

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """All trials by number, earlier runs' included."""
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    @property
    def n_tried(self) -> int:
        """Trials that were measured or cannot be."""
        states = (TrialState.COMPLETE, TrialState.FAIL)
        return sum(record.state in states for record in self._by_number.values())

    def run(self) -> None:
        """Measure the study's next proposal.

        Raises:
            KeyboardInterrupt: it was stopped; the study has noted that.
            SpectuiError: a defect. Anything else that fails is a failed trial.
        """
        proposal = self._study.ask()
        self._on_event(TrialStarted(number=proposal.number, arm=proposal.arm))
        try:
            self.load(proposal.arm)
            record = self._measure(proposal)
        except (CancelledError, KeyboardInterrupt):
            self._by_number[proposal.number] = self._study.interrupt(proposal)
            raise KeyboardInterrupt from None
        except SpectuiError as error:
            record = self._by_number[proposal.number] = self._study.fail(proposal, str(error))
            if _is_defect(error):
                raise
        else:
            self._by_number[proposal.number] = record
            self._study.finish(record)
        self._on_event(TrialFinished(record=record))

    def load(self, arm: Arm) -> None:
        """Load an arm's draft, in place of another: several may not fit, and do not run at once."""
        candidate = self._candidates.get(arm.draft or "")
        if candidate is None or candidate.is_mtp or candidate.name == self.loaded:
            return
        self.loaded = None
        self._engine.load_draft(candidate.options)
        self.loaded = candidate.name

    def _measure(self, proposal: Proposal) -> TrialRecord:
        self._measurer.warm_up(proposal.arm.speculation)
        for _attempt in range(2):
            before = self._last_anchor()
            scores = tuple(score(item, self._decode(item, proposal.arm)) for item in self._items)
            after = self._measure_anchor()
            noisy = drift((before, after)) > MAX_DRIFT
            if not noisy:
                break
        return TrialRecord(
            number=proposal.number,
            state=TrialState.COMPLETE,
            arm=proposal.arm,
            prompts=scores,
            anchor_tokens_per_s=(before + after) / 2,
            noisy=noisy,
        )

    def _decode(self, item: WorkItem, arm: Arm) -> GenerationResult:
        result = self._measurer.decode(item, arm.speculation)
        self._on_decoded(item, result)
        return result

    def _last_anchor(self) -> float:
        """Tokens/s of the last anchor, or of a new one if something has come between."""
        anchor = self._anchor
        if anchor is None or anchor.n_interruptions != self._engine.n_interruptions:
            return self._measure_anchor()
        return anchor.tokens_per_s

    def _measure_anchor(self) -> float:
        n_interruptions = self._engine.n_interruptions
        tokens_per_s = self._measurer.anchor()
        self._anchor = _Anchor(tokens_per_s=tokens_per_s, n_interruptions=n_interruptions)
        return tokens_per_s


def _is_defect(error: SpectuiError) -> bool:
    """Whether the error is a bug: the engine attaches a traceback to those."""
    return bool(getattr(error, "__notes__", None))
