"""Sweeps without models: cells, records, and a backend whose speeds follow a formula."""

from collections.abc import Iterator

from spectui.errors import SpectuiError
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple, Ngram, NgramSimple
from spectui.options.speculation import Speculation
from spectui.sweep.cells import Cell, NamedCell, Place, Task
from spectui.sweep.expand import Defaults
from spectui.sweep.order import Visit
from spectui.sweep.record import Decoded, PromptRun, VisitRecord, VisitState
from tests.support.search import items

PLACE = Place(threads=0, cache_type_k="f16", cache_type_v="f16")
TASK = Task(prompt_length=None, temp=0.0, n_predict=32)
DEFAULTS = Defaults(place=PLACE, task=TASK)


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


def off_cell(place: Place = PLACE, task: Task = TASK) -> Cell:
    return Cell(arm=OFF, place=place, task=task)


def ngram_cell(kind: type[Ngram] = NgramSimple) -> Cell:
    arm = Arm(draft=None, speculation=Speculation(kind()))
    return Cell(arm=arm, place=PLACE, task=TASK)


def named(*cells: Cell) -> tuple[NamedCell, ...]:
    return tuple(NamedCell(cell=one, name=one.arm.label) for one in cells)


def decoded(tokens_per_s: float, *, n_drafted: int = 0, n_accepted: int = 0) -> Decoded:
    return Decoded(
        n_tokens=32,
        decode_s=32 / tokens_per_s,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        n_rounds=32 - n_accepted,
        output_sha256="0",
    )


def run(item: WorkItem, speedup: float, *, off_tokens_per_s: float = 10.0) -> PromptRun:
    # Prompts differ a little, so that intervals have a width.
    speed = off_tokens_per_s * speedup * (1 + 0.01 * (item.tokens[-1] % 3 - 1))
    return PromptRun(
        prompt_id=item.id,
        category=item.category,
        n_prompt_tokens=len(item.tokens),
        off=decoded(off_tokens_per_s),
        on=decoded(speed, n_drafted=20, n_accepted=8),
    )


def record(one: Cell, speedup: float = 1.2, *, repeat: int = 0, n_prompts: int = 8) -> VisitRecord:
    return VisitRecord(
        visit=Visit(cell=one, repeat=repeat),
        state=VisitState.COMPLETE,
        runs=tuple(run(item, speedup) for item in items(n_prompts)),
        anchors_tokens_per_s=(10.0, 10.1),
        wall_s=3.0,
    )


def failed(one: Cell, error: str = "it does not fit") -> VisitRecord:
    return VisitRecord(
        visit=Visit(cell=one, repeat=0), state=VisitState.FAILED, error=error, wall_s=1.0
    )


class ScriptedBackend:
    """Runs every cell at a speed of its own; fails and is interrupted where it is told to."""

    def __init__(self, *, n_prompts: int = 6) -> None:
        self.items = items(n_prompts)
        self.taken: list[Cell] = []
        self.fails: dict[Cell, SpectuiError] = {}
        self.interrupt_at: Cell | None = None
        self.anchors: Iterator[float] = iter(())

    def take(self, cell: Cell) -> None:
        self.taken.append(cell)
        if cell in self.fails:
            raise self.fails[cell]

    def runs(self, repeat: int) -> Iterator[PromptRun]:
        assert repeat >= 0
        for item in self.items:
            if self.taken[-1] == self.interrupt_at:
                raise KeyboardInterrupt
            yield run(item, 1.1)

    def anchor(self) -> float | None:
        return next(self.anchors, 10.0)

    def check_lossless(self) -> LosslessCheck | None:
        return None
