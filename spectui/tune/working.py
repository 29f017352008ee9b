"""Measuring trials of a study that another process conducts."""

import time
from collections.abc import Callable

from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError
from spectui.measure.workload import WorkItem
from spectui.tune.events import PromptMeasured
from spectui.tune.setup import SearchSetup
from spectui.tune.studies.study import Phase
from spectui.tune.trialing import TrialRunner


def a_second() -> None:
    """Let others get on."""
    time.sleep(1.0)


class Worker:
    """Measures what a study proposes until it has ended. Use it once."""

    def __init__(
        self,
        setup: SearchSetup,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[], object] = a_second,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            setup: study, prompts and what decodes them; its limits are those of this worker.
            clock: seconds.
            wait: lets others get on.
        """
        self._setup = setup
        self._wait = wait
        self._clock = clock
        self._ends_s = None
        if setup.limits.time_budget_s is not None:
            self._ends_s = clock() + setup.limits.time_budget_s
        self._trials = TrialRunner(setup, self._decoded)
        self.n_run = 0
        """Trials that were begun here."""

    def run(self) -> bool:
        """Work until the study has ended, or a limit is reached; tell whether it was interrupted.

        The target alone comes first: it is what this machine's trials compare with.

        Raises:
            SpectuiError: the storage is gone, or the engine cannot go on.
        """
        study = self._setup.study
        try:
            self._setup.measurer.warm_up(None)
            while self.n_run < self._setup.limits.n_trials and self._has_time():
                offer = study.offered()
                if offer.phase is Phase.ENDED:
                    break
                left = offer.n_trials - self._trials.look_around() - self._trials.n_tried
                if offer.phase is Phase.PREPARING or left <= 0:
                    self._wait()
                    continue
                study.restrict(chains=offer.chains)
                self._trials.run(None if self.n_run else study.space.off)
                self.n_run += 1
        except (KeyboardInterrupt, CancelledError):
            return True
        return False

    def _has_time(self) -> bool:
        return self._ends_s is None or self._clock() < self._ends_s

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        event = PromptMeasured(prompt_id=item.id, result=result, seconds_left=None)
        self._setup.on_event(event)
