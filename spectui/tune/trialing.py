"""Running trials: every one between two anchor runs of the target alone."""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace

from spectui.engine.events import GenerationResult
from spectui.errors import (
    CancelledError,
    EngineDiedError,
    HopelessError,
    ServerError,
    SpectuiError,
)
from spectui.measure.arm import Arm
from spectui.measure.statistics import MAX_DRIFT, drift
from spectui.measure.workload import WorkItem
from spectui.tune.events import Notice, TrialFinished, TrialStarted
from spectui.tune.pace import OutOfTimeError
from spectui.tune.setup import SearchSetup
from spectui.tune.trials import PromptScore, TrialRecord, TrialState, n_measured, score

_HOPELESS = 3
"""Settings that a server may fail with in the beginning before that ends the search."""


@dataclass(eq=False)
class TrialRunner:
    """Measures what a study proposes, and keeps the records."""

    setup: SearchSetup
    """Study, prompts, what decodes them, and limits."""
    on_decoded: Callable[[WorkItem, GenerationResult], None]
    """Told of every prompt."""
    _: KW_ONLY
    check_time: Callable[[], None]
    """Raises ``OutOfTimeError`` where there is none for one prompt more."""

    def __post_init__(self) -> None:
        self._items = self.setup.division.trial_items
        # Where time is short, another setting's trial says more than a noisy one that is repeated.
        self._attempts = 2 if self.setup.limits.time_budget_s is None else 1
        self.outputs: dict[str, GenerationResult] = {}
        """Outputs of the target alone, by prompt."""
        self._by_number = {record.number: record for record in self.setup.study.records()}
        """Kept here too: a storage that fails must not take the result with it."""
        self._earlier = frozenset(self._by_number)
        """Trials of earlier runs: what failed then, a repaired setup may have mended."""
        self._anchor: tuple[float, tuple[int, object]] = (0.0, (-1, None))
        """Tokens/s of the last anchor, and its ``_place``."""
        self._server_error: ServerError | None = None
        self._n_off_deaths = 0

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """All trials by number, earlier runs' included."""
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    @property
    def n_tried(self) -> int:
        """Trials that were measured or cannot be."""
        return sum(record.state.is_tried for record in self._by_number.values())

    def look_around(self) -> None:
        """Take up what other machines have measured."""
        for record in self.setup.study.records():
            known = self._by_number.get(record.number)
            if record.state is not TrialState.RUNNING and known != record:
                self._by_number[record.number] = record
                self.setup.on_event(TrialFinished(record=record))

    def run(self) -> None:
        """Measure the study's next proposal.

        Raises:
            KeyboardInterrupt: it was stopped; the study has noted that.
            OutOfTimeError: time was up before it was done; another run may try it again.
            SpectuiError: a defect, a server that never ran with speculation, or memory that stays
                short. Anything else that fails is a failed trial.
        """
        proposal = self.setup.study.ask()
        self.setup.on_event(
            TrialStarted(number=proposal.number, arm=proposal.arm, n_prompts=len(self._items))
        )
        try:
            self.setup.loader.load(proposal.arm.draft)
            record = self._measure(proposal)
        except (CancelledError, KeyboardInterrupt, OutOfTimeError) as error:
            # Nothing is wrong with the setting: it is tried again.
            self._by_number[proposal.number] = self.setup.study.interrupt(proposal)
            if isinstance(error, CancelledError):
                raise KeyboardInterrupt from None
            raise
        except SpectuiError as error:
            if isinstance(error, ServerError):
                self._server_error = error
            record = self.setup.study.fail(proposal, error)
            self._by_number[proposal.number] = record
            if proposal.arm.is_off and record.died:
                self._n_off_deaths += 1
                self.setup.study.enqueue((proposal.arm,))
            # The engine attaches a traceback to defects.
            is_defect = bool(getattr(error, "__notes__", None))
            if is_defect or self._is_hopeless(error, proposal.arm):
                raise
        else:
            self._by_number[proposal.number] = record
            if not self.setup.study.finish(record):
                del self._by_number[proposal.number]
                lost = (
                    "another process has taken the setting over; what was measured here is dropped"
                )
                self.setup.on_event(Notice(text=f"trial {proposal.number}: {lost}"))
                return
        self.setup.on_event(TrialFinished(record=record))

    def check_measured(self) -> None:
        """Refuse to conclude anything where a server has failed with every setting.

        Raises:
            ServerError: as it failed the last time.
        """
        if self._server_error is not None and not n_measured(self.records):
            raise self._server_error

    def _is_hopeless(self, error: SpectuiError, arm: Arm) -> bool:
        """Whether further trials would fail in the same way.

        A server does not run as it was started, or never has with speculation. Without off there
        is nothing to compare with, which is tried twice.
        """
        if isinstance(error, HopelessError):
            return True
        if arm.is_off and isinstance(error, EngineDiedError):
            return self._n_off_deaths > 1
        tried = [one for one in self._by_number.values() if not one.arm.is_off]
        failed = [
            one for one in tried if one.state is TrialState.FAIL and one.number not in self._earlier
        ]
        measured = any(one.state is TrialState.COMPLETE for one in tried)
        has_ended = isinstance(error, (ServerError, EngineDiedError))
        return has_ended and not measured and len(failed) >= _HOPELESS

    def _measure(self, proposal: TrialRecord) -> TrialRecord:
        for _attempt in range(self._attempts):
            before = self._last_anchor()
            # After the anchor, which may take another server.
            self.setup.measurer.warm_up(proposal.arm.speculation)
            scores = tuple(self._scores(proposal.arm))
            after = self._measure_anchor()
            noisy = drift((before, after)) > MAX_DRIFT
            if not noisy:
                break
        return replace(
            proposal,
            state=TrialState.COMPLETE,
            prompts=scores,
            anchor_tokens_per_s=(before + after) / 2,
            noisy=noisy,
        )

    def _scores(self, arm: Arm) -> Iterator[PromptScore]:
        for item in self._items:
            self.check_time()
            yield score(item, self._decode(item, arm))

    def _decode(self, item: WorkItem, arm: Arm) -> GenerationResult:
        result = self.setup.measurer.decode(item, arm.speculation)
        if arm.is_off:
            self.outputs[item.id] = result
        self.on_decoded(item, result)
        return result

    def _last_anchor(self) -> float:
        """Tokens/s of the last anchor, or of a new one if something has come between."""
        tokens_per_s, place = self._anchor
        return tokens_per_s if place == self._place else self._measure_anchor()

    def _measure_anchor(self) -> float:
        place = self._place
        self._anchor = self.setup.measurer.anchor(), place
        return self._anchor[0]

    @property
    def _place(self) -> tuple[int, object]:
        """Interruptions of the engine so far, and where the target lies: both change its speed."""
        return self.setup.engine.n_interruptions, self.setup.loader.place
