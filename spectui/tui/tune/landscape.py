"""Speedups over ``draft_max`` and ``draft_p_min``, in as many cells as there is room for."""

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.tui.tune.ledger import Ledger
from spectui.tune.space import MAX_DRAFT, MAX_P_MIN, P_MIN_STEP

_N_P_MIN = round(MAX_P_MIN / P_MIN_STEP) + 1
_GROUPS = (1, 2, 4, 5, 10, 20)
"""Steps of a parameter that may share a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """A grid of mean speedups; a cell that was not tried is missing."""

    columns: tuple[str, ...]
    """Smallest ``draft_max`` of each column, ascending."""
    rows: tuple[str, ...]
    """Smallest ``draft_p_min`` of each row, ascending."""
    per_column: int
    """Values of ``draft_max`` that share a column."""
    per_row: int
    """Values of ``draft_p_min`` that share a row."""
    cells: Mapping[tuple[int, int], float]
    """Mean speedup by (column, row)."""
    best: tuple[int, int] | None

    @property
    def low(self) -> float:
        """Smallest mean; 1 if there is none."""
        return min(self.cells.values(), default=1.0)

    @property
    def high(self) -> float:
        """Largest mean; 1 if there is none."""
        return max(self.cells.values(), default=1.0)


def landscape(ledger: Ledger, *, max_columns: int, max_rows: int) -> Landscape:
    """Average the measured trials of all drafts over a grid that has room for them."""
    speedups = _speedups(ledger)
    n_longest = max([MAX_DRAFT, *(longest for longest, _ in speedups)])
    per_column, per_row = _group(n_longest, max_columns), _group(_N_P_MIN, max_rows)
    found: dict[tuple[int, int], list[float]] = {}
    for (longest, step), values in speedups.items():
        found.setdefault(((longest - 1) // per_column, step // per_row), []).extend(values)
    cells = {place: sum(values) / len(values) for place, values in found.items()}
    return Landscape(
        columns=tuple(str(first) for first in range(1, n_longest + 1, per_column)),
        rows=tuple(f"{first * P_MIN_STEP:.2f}" for first in range(0, _N_P_MIN, per_row)),
        per_column=per_column,
        per_row=per_row,
        cells=cells,
        best=max(cells, key=lambda place: cells[place], default=None),
    )


def _speedups(ledger: Ledger) -> dict[tuple[int, int], list[float]]:
    """Measured speedups by ``draft_max`` and steps of ``draft_p_min``."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in ledger.rows:
        speculation, speedup = row.record.arm.speculation, ledger.speedup(row)
        model = None if speculation is None or speculation.ahead else speculation.model
        if model is not None and speedup is not None and row.is_measured:
            step = min(round(model.draft_p_min / P_MIN_STEP), _N_P_MIN - 1)
            found.setdefault((max(1, model.draft_max), step), []).append(speedup)
    return found


def _group(n_values: int, n_cells: int) -> int:
    """Fewest values per cell with which all fit."""
    room = max(1, n_cells)
    return next((size for size in _GROUPS if -(-n_values // size) <= room), n_values)
