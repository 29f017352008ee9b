"""Distinct names of cells. Pure."""

from collections.abc import Callable, Mapping, Sequence

from spectui.sweep.cells import Cell
from spectui.sweep.summary import CellSummary

Column = Callable[[Cell], str]


def varying(cells: Sequence[Cell]) -> dict[str, Column]:
    """Columns for the values that differ between cells and are not in their names."""
    columns: dict[str, Column] = {
        "threads": lambda cell: str(cell.place.threads or "auto"),
        "KV": lambda cell: "/".join(
            dict.fromkeys((cell.place.cache_type_k, cell.place.cache_type_v))
        ),
        "prompt": lambda cell: str(cell.task.prompt_length or "own"),
        "temp": lambda cell: f"{cell.task.temp:g}",
        "n": lambda cell: str(cell.task.n_predict),
    }
    return {
        heading: column
        for heading, column in columns.items()
        if len({column(cell) for cell in cells}) > 1
    }


def telling(summaries: Sequence[CellSummary]) -> Callable[[CellSummary], str]:
    """Function that names a cell unambiguously outside of the table of all cells."""
    columns = varying([one.cell for one in summaries])

    return lambda one: with_values(one.named.name, one.cell, columns)


def with_values(name: str, cell: Cell, columns: Mapping[str, Column]) -> str:
    """A name with the cell's values in ``columns``."""
    values = ", ".join(f"{heading} {column(cell)}" for heading, column in columns.items())
    return f"{name} [{values}]" if values else name
