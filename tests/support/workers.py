"""A scripted worker as a program: joins a study, and measures what it proposes.

``python -m tests.support.workers NAME SECONDS tune|worker N`` with the storage in the environment;
each trial takes so many seconds.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import SpectuiError
from spectui.measure.measurer import Measurer
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate
from spectui.tune.division import divide
from spectui.tune.events import Notice, TuneEvent
from spectui.tune.loading import Loader
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.space import SearchSpace
from spectui.tune.studies.lease import Watch
from spectui.tune.studies.sampling import Sampler
from spectui.tune.studies.storage import usual_storage
from spectui.tune.studies.study import StudyOptions, TuningStudy
from spectui.tune.trials import TrialRecord, TrialState
from spectui.tune.working import Worker
from tests.support.search import ScriptedMeasurer, items

SPACE = SearchSpace(drafts=("good",))


class Unhurried(ScriptedMeasurer):
    """Takes its time with every prompt."""

    def __init__(self, prompt_s: float) -> None:
        super().__init__()
        self._prompt_s = prompt_s

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        time.sleep(self._prompt_s)
        return super().decode(item, speculation)


def say(line: str) -> None:
    """Tell whoever has started this program."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class TellingStudy(TuningStudy):
    """Says which of this process's trials it has kept."""

    def finish(self, record: TrialRecord) -> bool:
        kept = super().finish(record)
        if record.state is TrialState.COMPLETE:
            say(f"{'own' if kept else 'dropped'} {record.number}")
        return kept


class NoModels:
    """Stands where models would be loaded."""

    n_interruptions = 0
    waited_s = 0.0

    def load_draft(self, _options: ModelOptions, *, mtp: bool) -> None:
        assert not mtp


def open_study(
    url: str,
    name: str = "s",
    *,
    worker: bool = False,
    sampler: Sampler = Sampler.RANDOM,
    say: Callable[[str], None] = lambda _text: None,
    watch: Watch | None = None,
) -> TuningStudy:
    return TellingStudy(
        name,
        StudyOptions(storage=url, sampler=sampler, joins=worker),
        spec={"machine": "m"},
        space=SPACE,
        isolated=True,
        say=say,
        watch=watch,
    )


def setup_of(
    study: TuningStudy,
    measurer: ScriptedMeasurer,
    on_event: Callable[[TuneEvent], None] = lambda _event: None,
    *,
    n_trials: int,
    n_prompts: int = 16,
    time_budget_s: float | None = None,
) -> SearchSetup:
    workload = Workload(items=items(n_prompts), n_predict=33, sampling=SamplingConfig(temp=0.0))
    driver = cast("Engine", NoModels())
    drafts = [Candidate(name="good", options=ModelOptions(path=Path("good.gguf")), loaded=None)]
    return SearchSetup(
        engine=driver,
        study=study,
        workload=workload,
        division=divide(workload, 8),
        n_ctx=4096,
        measurer=cast("Measurer", measurer),
        loader=Loader(driver, drafts),
        limits=Limits(n_trials=n_trials, time_budget_s=time_budget_s),
        min_gain=0.02,
        on_event=on_event,
    )


def _tell(event: TuneEvent) -> None:
    if isinstance(event, Notice):
        say(f"notice: {event.text}")


def main() -> int:
    name, seconds, kind, n_trials = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    url = usual_storage()

    try:
        with open_study(
            url, name, worker=kind == "worker", say=lambda text: say(f"notice: {text}")
        ) as study:
            measurer = Unhurried(seconds / 8)
            setup = setup_of(study, measurer, _tell, n_trials=n_trials)
            if kind == "worker":
                Worker(setup).run()
            else:
                result = Search(setup).run()
                say(f"verdict: {result.verdict.answer} {result.error or ''}")
    except SpectuiError as error:
        say(f"error: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
