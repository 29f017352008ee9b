"""A measurer whose speeds follow a formula, so that what a search must find is known."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, ModelLoaded
from spectui.errors import EngineDiedError
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.forecast import Answers, Forecast
from spectui.tune.pace import Pace
from spectui.tune.progress import TuneEvent
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.space import SearchSpace
from spectui.tune.studies.study import StudyOptions, TuningStudy
from spectui.tune.tracing import COSTS_SHARE, MOST_SHARE, TEXT_SHARE

T = TypeVar("T")
OFF_TOKENS_PER_S = 10.0
SPEC: dict[str, Any] = {"machine": "m", "target": {"file": "t.gguf"}}
SPACE = SearchSpace(drafts=("good",))


def open_study(
    folder: Path,
    *,
    name: str = "s",
    spec: dict[str, Any] = SPEC,
    space: SearchSpace = SPACE,
    seed: int = 0,
) -> TuningStudy:
    options = StudyOptions(storage=f"sqlite:///{folder / 'studies.sqlite3'}", seed=seed)
    return TuningStudy(name, options, spec=spec, space=space)


def known(value: T | None) -> T:
    assert value is not None
    return value


def items(n: int) -> tuple[WorkItem, ...]:
    return tuple(WorkItem(id=f"p{i}", category=f"c{i % 4}", tokens=(1, 2, i)) for i in range(n))


def result(tokens_per_s: float, *, n_tokens: int = 33, drafted: int = 0) -> GenerationResult:
    decode_s = (n_tokens - 1) / tokens_per_s
    return GenerationResult(
        tokens=tuple(range(n_tokens)),
        text="",
        n_prompt_tokens=3,
        prompt_s=0.1,
        decode_s=decode_s,
        counters=Counters(
            n_rounds=n_tokens - 1,
            n_drafted=drafted,
            n_accepted=drafted // 2,
            times=RoundTimes(verify_s=decode_s),
        ),
        stop=Stop.LENGTH,
    )


class ScriptedMeasurer:
    """Has the methods of ``Measurer`` that a search uses.

    ``gain`` gives the speedup of a configuration; prompts differ by a few per cent around it, and
    the whole machine slows down by ``drift_per_run`` with every run.
    """

    def __init__(self, *, peak: int = 6, gain: float = 1.4, drift_per_run: float = 0.0) -> None:
        self.peak = peak
        self.gain = gain
        self.drift_per_run = drift_per_run
        self.ngram_gain = 1.02
        self.n_beside_off: int | None = None
        self.prompt_token_s = 0.0
        self.n_runs = 0
        self.interrupt_at: int | None = None
        self.measured: list[Speculation | None] = []

    def warm_up(self, speculation: Speculation | None) -> None:
        """Costs nothing."""

    def anchor(self) -> float:
        return OFF_TOKENS_PER_S * self._machine()

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        self.n_runs += 1
        if self.n_runs == self.interrupt_at:
            raise KeyboardInterrupt
        self.measured.append(speculation)
        speed = OFF_TOKENS_PER_S * self._machine()
        if speculation is None:
            return result(speed)
        return result(speed * self.speedup(speculation) * spread(item), drafted=48)

    def pair(self, item: WorkItem, speculation: Speculation | None, _turn: int) -> Pair:
        baseline = self.decode(item, None)
        return Pair(item=item, baseline=baseline, speculative=self.decode(item, speculation))

    n_streams, together = 1, None
    block = Measurer.block
    decode_together = Measurer.decode_together

    def speedup(self, speculation: Speculation) -> float:
        gain = self.gain if speculation.model else min(self.gain, self.ngram_gain)
        return gain / (1 + 0.05 * abs(speculation.own.longest - self.peak))

    def _machine(self) -> float:
        return (1 - self.drift_per_run) ** self.n_runs


class Mortal(ScriptedMeasurer):
    """Its process ends at some runs."""

    def __init__(self, *deaths: int) -> None:
        super().__init__(gain=1.4)
        self._deaths = list(deaths)

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        done = super().decode(item, speculation)
        if self.n_runs in self._deaths:
            raise EngineDiedError("its process was killed")
        return done


def spread(item: WorkItem) -> float:
    """How much more than others a prompt gains."""
    return 1 + 0.01 * (item.tokens[-1] % 5 - 2)


class NoModels:
    waited_s = 0.0

    def load_draft(self, _options: ModelOptions, *, mtp: bool) -> None:
        assert not mtp


def search(
    study: TuningStudy,
    measurer: ScriptedMeasurer,
    on_event: Callable[[TuneEvent], None] = lambda _event: None,
    *,
    n_trials: int,
    time_budget_s: float | None = None,
) -> Search:
    """A search on sixteen prompts that chooses the draft ``good``."""
    workload = Workload(items=items(16), n_predict=33, sampling=SamplingConfig(temp=0.0))
    driver = cast("Engine", NoModels())
    drafts = [Candidate(name="good", options=ModelOptions(path=Path("good.gguf")), loaded=None)]
    setup = SearchSetup(
        engine=driver,
        study=study,
        workload=workload,
        measurer=cast("Measurer", measurer),
        loader=Loader(driver, drafts),
        limits=Limits(n_trials=n_trials, time_budget_s=time_budget_s),
        on_event=on_event,
    )
    return Search(Pace(setup))


def time_told(
    *,
    has_time: Callable[[], bool] = lambda: True,
    is_late: Callable[[], bool] = lambda: False,
    may_write: Callable[[], bool] = lambda: True,
) -> Callable[[float], bool]:
    """Whether shares of a recording's time are gone: of prices, of all, and of the text."""
    gone: dict[float, Callable[[], bool]] = {
        COSTS_SHARE: lambda: not has_time(),
        MOST_SHARE: is_late,
        TEXT_SHARE: lambda: not may_write(),
    }
    return lambda share: gone[share]()


def target_of(n_ctx: int = 512, rollback: Rollback = Rollback.TRUNCATE) -> ModelLoaded:
    """A loaded target, as far as its recording asks for it."""
    info = SimpleNamespace(
        path=Path("target.gguf"), arch="llama", n_params=1, size_bytes=1, n_vocab=9
    )
    return cast("ModelLoaded", SimpleNamespace(n_ctx=n_ctx, rollback=rollback, info=info))


def forecast_of(arm: Arm, speedup: float, *, n_drafted: int = 9, n_accepted: int = 6) -> Forecast:
    """A forecast from one answer that is all of a kind."""
    part = np.ones((1, 1))
    answers = Answers(
        tokens=part,
        drafted=n_drafted * part,
        accepted=n_accepted * part,
        on_s=part,
        off_s=speedup * part,
    )
    return Forecast(
        arm=arm, speedup=speedup, n_drafted=n_drafted, n_accepted=n_accepted, answers=answers
    )
