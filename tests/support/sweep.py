"""Sweeps without models: cells, records, and a measurer whose speeds follow a formula."""

from itertools import count
from pathlib import Path
from typing import cast

from spectui.engine.commands import Generate, GeneratePair, ProbeMargin, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, PairGenerated
from spectui.errors import SpectuiError
from spectui.measure.arm import Arm
from spectui.measure.backend import Backend
from spectui.measure.promise import digest_of
from spectui.measure.server_backend import ServerBackend
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.workload import WorkItem
from spectui.monitor.machine import Machine
from spectui.options.drafters import (
    DRAFTERS,
    DraftSimple,
    Ngram,
    NgramSimple,
    numbers_of,
)
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.sweep.cells import Cell, Place, PromptRun, Task, Visit, VisitRecord, VisitState
from spectui.sweep.grid import Axes, SweepSetup
from spectui.sweep.measuring import CellMeasurer
from spectui.sweep.sweep import Sweep
from tests.support.search import items, result

MACHINE = Machine(cpu="A processor", n_cores=4, memory_bytes=1 << 30, gpus=())
PLACE = Place()
TASK = Task(n_predict=32)


def cell(
    draft_max: int = 4,
    *,
    draft: str = "draft",
    p_min: float = 0.0,
    place: Place = PLACE,
    task: Task = TASK,
) -> Cell:
    speculation = Speculation(DraftSimple(draft_max=draft_max, draft_p_min=p_min))
    return Cell(arm=Arm(draft=draft, speculation=speculation), place=place, task=task)


def ngram_cell(kind: type[Ngram] = NgramSimple) -> Cell:
    arm = Arm(draft=None, speculation=Speculation(kind()))
    return Cell(arm=arm, place=PLACE, task=TASK)


def run(item: WorkItem, speedup: float) -> PromptRun:
    # Prompts differ a little, so that intervals have a width.
    speed = 10.0 * speedup * (1 + 0.01 * (item.tokens[-1] % 3 - 1))
    return PromptRun(
        measurement=PairedMeasurement(
            prompt_id=item.id,
            category=item.category,
            baseline_s=3.2,
            baseline_tokens=32,
            speculative_s=32 / speed,
            speculative_tokens=32,
            n_accepted=8,
        ),
        n_drafted=20,
        n_accepted=8,
        digest=digest_of(item.tokens),
        n_prompt_tokens=len(item.tokens),
        n_rounds=24,
        outputs=("0", "0"),
    )


def record(one: Cell, speedup: float = 1.2, *, repeat: int = 0, n_prompts: int = 8) -> VisitRecord:
    return VisitRecord(
        visit=Visit(cell=one, repeat=repeat),
        state=VisitState.COMPLETE,
        runs=tuple(run(item, speedup) for item in items(n_prompts)),
        wall_s=3.0,
    )


def failed(one: Cell, error: str = "it does not fit") -> VisitRecord:
    return VisitRecord(
        visit=Visit(cell=one, repeat=0), state=VisitState.FAILED, error=error, wall_s=1.0
    )


def axes(**given: tuple[float, ...] | tuple[tuple[str, ...], ...]) -> Axes:
    """Lists of values by the fields of ``Axes``, and by the parameters of drafters' numbers."""
    numbers = {one.parameter: (one.default,) for kind in DRAFTERS for one in numbers_of(kind)}
    own = {name: given.pop(name) for name in [*given] if name not in numbers}
    return Axes(numbers={**numbers, **given}, **own)  # type: ignore[arg-type, dict-item] # by name


def run_all(one: Sweep, measurer: CellMeasurer | None = None) -> list[VisitRecord]:
    """Run a sweep that is open, and return how its visits have ended."""
    ended: list[VisitRecord] = []
    one.run(
        measurer or ScriptedMeasurer(one.setup),
        on_begun=lambda _visit: None,
        on_ended=ended.append,
    )
    return ended


def sweep(
    *draft_max: int,
    repeats: int = 1,
    name: str | None = "s",
    machine: Machine = MACHINE,
) -> Sweep:
    """A sweep of a draft over its lengths, in which each look at the clock takes 6 seconds."""
    setup = SweepSetup(
        axes=axes(draft_max=draft_max),
        place=PLACE,
        task=TASK,
        base=Setup(
            target=ModelOptions(path=Path("target.gguf")),
            draft=None,
            context=ContextOptions(),
            speculation=None,
        ),
        drafts={"draft": ModelOptions(path=Path("draft.gguf"))},
        sampling=SamplingConfig(temp=0.0),
        prompts=tuple(Prompt(id=f"p{n}", category="x", text=str(n)) for n in range(6)),
        machine=machine,
        repeats=repeats,
        name=name,
    )
    clock = count(0.0, 6.0)
    return Sweep(setup, clock=lambda: next(clock))


class ScriptedMeasurer(CellMeasurer):
    """Decodes by itself; fails and is interrupted where it is told to."""

    waited_s = 0.0
    n_beside_off: int | None = None

    def __init__(self, setup: SweepSetup) -> None:
        super().__init__(setup)
        self.taken: list[Cell] = []
        self.fails: dict[Cell, SpectuiError] = {}
        self.interrupt_at: Cell | None = None

    def load(self, cell: Cell, off: Setup) -> tuple[Backend, int]:
        assert off.is_off
        self.taken.append(cell)
        if cell in self.fails:
            raise self.fails[cell]
        return self, 4096

    def tokenizer(self, off: Setup) -> Engine:
        assert off.is_off
        return cast("Engine", self)

    def tokenize(self, command: Tokenize) -> tuple[int, ...]:
        return items(len(self._setup.prompts))[int(command.text or 0)].tokens

    def generate(self, command: Generate) -> GenerationResult:
        if self.taken[-1] == self.interrupt_at:
            raise KeyboardInterrupt
        return result(10.0 if command.speculation is None else 11.0)

    def generate_pair(self, command: GeneratePair) -> PairGenerated:
        return ServerBackend.generate_pair(cast("ServerBackend", self), command)

    def probe_margin(self, _command: ProbeMargin) -> None:
        """Asked where outputs differ, which they never do."""
