"""Running trials: each measures a setting beside the target alone, prompt by prompt."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from spectui.engine.events import GenerationResult
from spectui.errors import (
    CancelledError,
    EngineDiedError,
    HopelessError,
    MemoryShortError,
    ServerError,
    SpectuiError,
)
from spectui.measure.measurer import measurements, steady
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem
from spectui.tune.events import TrialFinished, TrialStarted
from spectui.tune.pace import OutOfTimeError
from spectui.tune.setup import SearchSetup
from spectui.tune.trials import TrialRecord, TrialState, n_measured, score

_HOPELESS = 3
"""Settings that may end their server or process in the beginning before that ends the search."""


@dataclass(eq=False)
class TrialRunner:
    """Measures what a study proposes, and keeps the records."""

    setup: SearchSetup
    """Study, prompts, what decodes them, and limits."""
    on_decoded: Callable[[WorkItem, GenerationResult], None]
    """Told of every prompt."""
    _: KW_ONLY
    check_time: Callable[[int], None]
    """Given the number of prompts that were decoded, raises ``OutOfTimeError`` where there is no
    time for one more."""

    def __post_init__(self) -> None:
        self._by_number = {record.number: record for record in self.setup.study.records()}
        """Kept here too: a storage that fails must not take the result with it."""
        self._earlier = frozenset(self._by_number)
        """Trials of earlier runs: what failed then, a repaired setup may have mended."""
        self._ended: list[SpectuiError] = []
        """Errors of servers and processes that ended in trials of this run."""

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """All trials by number, earlier runs' included."""
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    @property
    def n_tried(self) -> int:
        """Trials that were measured or cannot be; off was one in earlier versions."""
        return sum(one.state.is_tried and not one.arm.is_off for one in self._by_number.values())

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
        study, items = self.setup.study, self.setup.division.trial_items
        proposal = study.ask()
        number = proposal.number
        self.setup.on_event(TrialStarted(number=number, arm=proposal.arm, n_prompts=len(items)))
        try:
            record = self._measured(proposal)
        except (CancelledError, KeyboardInterrupt, MemoryShortError, OutOfTimeError) as error:
            # Nothing is wrong with the setting: it is tried again.
            self._by_number[number] = study.interrupt(proposal)
            if isinstance(error, CancelledError):
                raise KeyboardInterrupt from None
            raise
        except SpectuiError as error:
            record = self._by_number[number] = study.fail(proposal, error)
            self._check_hope(error)
        else:
            self._by_number[number] = record
            if not study.finish(record):
                # Another process has taken the setting over.
                del self._by_number[number]
                return
        self.setup.on_event(TrialFinished(record=record))

    def _measured(self, proposal: TrialRecord) -> TrialRecord:
        runs = self.setup.runs(proposal.arm, self.on_decoded, self.check_time)
        runs.measure(self.setup.division.trial_items)
        pairs = steady(runs.pairs)
        timed = measurements(pairs)
        return replace(
            proposal,
            state=TrialState.COMPLETE,
            prompts=tuple(map(score, pairs)),
            speedup=paired_speedup(timed, n_resamples=1).estimate if timed else None,
        )

    def _check_hope(self, error: SpectuiError) -> None:
        """Raise the error of a trial where further trials would fail in the same way."""
        # The engine attaches a traceback to defects.
        if isinstance(error, HopelessError) or getattr(error, "__notes__", None):
            raise error
        if isinstance(error, (ServerError, EngineDiedError)):
            self._ended.append(error)
            new = [one for one in self._by_number.values() if one.number not in self._earlier]
            if len(self._ended) >= _HOPELESS and not n_measured(new):
                raise error

    def check_measured(self) -> None:
        """Refuse to conclude anything where a server has failed with every setting.

        Raises:
            ServerError: as it failed the last time.
        """
        failed = [one for one in self._ended if isinstance(one, ServerError)]
        if failed and not n_measured(self.records):
            raise failed[-1]
