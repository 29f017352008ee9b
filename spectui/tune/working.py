"""Measuring trials of a study that another process conducts."""

import time
from collections.abc import Callable

from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.measure.verdict import judge
from spectui.measure.workload import WorkItem
from spectui.tune.events import PromptMeasured
from spectui.tune.pace import OutOfTimeError, Spent
from spectui.tune.result import TuneResult
from spectui.tune.setup import SearchSetup
from spectui.tune.studies.conducting import Phase
from spectui.tune.trialing import TrialRunner

_NO_VERDICT = "a worker measures trials alone; spectui tune gives the verdict"


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
        self._trials = TrialRunner(setup, self._decoded, check_time=self._check_time)
        self._n_run = 0

    def run(self) -> TuneResult:
        """Work until the study has ended, or a limit is reached. Ends early as a search does.

        The target alone comes first: it is what this machine's trials compare with.
        """
        interrupted, failure, began_s = False, None, self._clock()
        try:
            self._setup.measurer.warm_up(None)
            while self._n_run < self._setup.limits.n_trials and self._has_time():
                if not self._step():
                    break
        except OutOfTimeError:
            # Its trial is given back; the result says that time was up.
            pass
        except (KeyboardInterrupt, CancelledError):
            interrupted = True
        except SpectuiError as error:
            failure = error
        return self._result(self._clock() - began_s, interrupted=interrupted, error=failure)

    def _step(self) -> bool:
        """Measure a trial, or wait for one; False where the study has ended."""
        study = self._setup.study
        offer = study.conducting.offered()
        if offer.phase is Phase.ENDED:
            return False
        left = offer.n_trials - self._trials.look_around() - self._trials.n_tried
        if offer.phase is Phase.PREPARING:
            self._wait()
        elif left > 0:
            study.restrict(chains=offer.chains)
            self._trials.run(None if self._n_run else study.space.off)
            self._n_run += 1
        elif study.is_group:
            return False
        else:
            self._wait()
        return True

    def _result(
        self, took_s: float, *, interrupted: bool, error: SpectuiError | None
    ) -> TuneResult:
        setup, records = self._setup, self._trials.records
        return TuneResult(
            trials=records,
            best=None,
            pairs=(),
            off=setup.study.space.off,
            speedup=None,
            verdict=judge(None, min_gain=setup.min_gain, failure=_NO_VERDICT),
            lossless=None,
            interrupted=interrupted,
            error=error,
            spent=Spent(
                budget_s=setup.limits.time_budget_s,
                took_s=took_s,
                n_trials=setup.limits.n_trials,
                n_tried=self._n_run,
                ended_trials=not self._has_time(),
            ),
        )

    def _has_time(self) -> bool:
        return self._ends_s is None or self._clock() < self._ends_s

    def _check_time(self) -> None:
        if not self._has_time():
            raise OutOfTimeError

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        event = PromptMeasured(prompt_id=item.id, result=result, seconds_left=None)
        self._setup.on_event(event)
