"""Interface through which sweeps have cells decoded."""

from collections.abc import Iterator
from typing import Protocol

from spectui.measure.lossless import LosslessCheck
from spectui.sweep.cells import Cell
from spectui.sweep.record import PromptRun


class Backend(Protocol):
    """Decodes prompts; loads the models for that."""

    def take(self, cell: Cell) -> None:
        """Prepare for ``cell``, and warm up.

        Raises:
            HopelessError: no other cell can run either.
            SpectuiError: this cell cannot run, which becomes its result.
        """
        ...

    def runs(self, repeat: int) -> Iterator[PromptRun]:
        """Decode every prompt without speculation and with the taken cell's setting.

        One right after the other, as far as that loads no models, in an order that turns round
        from prompt to prompt and with ``repeat``.

        Raises:
            SpectuiError: decoding failed.
        """
        ...

    def anchor(self) -> float | None:
        """Tokens/s of a short run of the target alone; None if that would load models."""
        ...

    def check_lossless(self) -> LosslessCheck | None:
        """Compare the outputs since the cell was taken; None if they cannot be judged."""
        ...
