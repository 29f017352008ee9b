"""Measuring of cells that all backends share, once their models are loaded."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spectui.engine.events import GenerationResult
from spectui.measure.backend import Backend
from spectui.measure.lossless import LosslessCheck, check_lossless
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.workload import Workload
from spectui.options.setup import Schedule
from spectui.sweep.cells import Cell
from spectui.sweep.record import Decoded, PromptRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A cell that is ready to be measured."""

    cell: Cell
    decoding: Backend
    workload: Workload
    schedule: Schedule


class Measuring(ABC):
    """Measures cells that subclasses prepare."""

    def __init__(self, on_pair: Callable[[Pair], None]) -> None:
        """Report every prompt to ``on_pair``."""
        self._on_pair = on_pair
        self._taken: tuple[Prepared, Measurer] | None = None
        self._pairs: list[Pair] = []

    @abstractmethod
    def prepare(self, cell: Cell) -> Prepared:
        """Load what ``cell`` needs.

        Raises:
            SpectuiError: the cell cannot run.
        """

    def take(self, cell: Cell) -> None:
        """Load what ``cell`` needs, and warm up."""
        self._taken, self._pairs = None, []
        prepared = self.prepare(cell)
        measurer = Measurer(prepared.decoding, prepared.workload, prepared.schedule)
        if measurer.n_beside_off != 0:
            measurer.warm_up(None)
            if cell.speculation is not None:
                measurer.warm_up(cell.speculation)
        self._taken = prepared, measurer

    def runs(self, repeat: int) -> Iterator[PromptRun]:
        """Decode every prompt of the taken cell."""
        prepared, measurer = self._current()
        items, speculation = prepared.workload.items, prepared.cell.speculation
        for pair in measurer.pairs(items, speculation, turn=repeat):
            self._pairs.append(pair)
            self._on_pair(pair)
            yield PromptRun(
                prompt_id=pair.item.id,
                category=pair.item.category,
                n_prompt_tokens=len(pair.item.tokens),
                off=_decoded(pair.baseline),
                on=_decoded(pair.speculative),
            )

    def anchor(self) -> float | None:
        """Tokens/s of the target alone."""
        measurer = self._current()[1]
        return None if measurer.n_beside_off == 0 else measurer.anchor()

    def check_lossless(self) -> LosslessCheck | None:
        """Compare greedy outputs; where they differ, probe the target if it can be."""
        prepared = self._current()[0]
        if prepared.cell.task.temp > 0:
            return None
        return check_lossless(prepared.decoding, self._pairs)

    def _current(self) -> tuple[Prepared, Measurer]:
        if self._taken is None:
            raise RuntimeError("no cell was taken")
        return self._taken


def _decoded(result: GenerationResult) -> Decoded:
    counters = result.counters
    output = "\n".join(map(str, result.tokens))
    return Decoded(
        n_tokens=result.n_decoded,
        decode_s=result.decode_s,
        n_drafted=counters.n_drafted,
        n_accepted=counters.n_accepted,
        n_rounds=counters.known_rounds,
        output_sha256=hashlib.sha256(output.encode()).hexdigest(),
    )
