"""One point of a grid: its place, task and drafting."""

from dataclasses import dataclass

from spectui.format import counted
from spectui.measure.arm import Arm
from spectui.options.drafters import numbers_of
from spectui.options.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Placement of target and context; another place requires loading the target again."""

    threads: int
    """``-t``, 0 for one per physical core."""
    cache_type_k: str
    cache_type_v: str

    @property
    def text(self) -> str:
        """Text for tables."""
        kinds = dict.fromkeys((self.cache_type_k, self.cache_type_v))
        threads = f"{counted(self.threads, 'thread')}, " if self.threads else ""
        return f"{threads}KV {'/'.join(kinds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The prompts of the sweep with a length, a temperature and a number of tokens."""

    prompt_length: int | None
    """Tokens per prompt; None if every prompt keeps its own length."""
    temp: float
    n_predict: int

    @property
    def text(self) -> str:
        """Text for tables."""
        length = "" if self.prompt_length is None else f"prompts of {self.prompt_length}, "
        return f"{length}temp {self.temp:g}, {self.n_predict} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration. Equal cells are comparable runs of the same configuration."""

    arm: Arm
    """Drafter and setting; off for the target alone."""
    place: Place
    task: Task
    rerun: int = 0
    """Number of a repeated cell in its grid, to show how far results vary."""

    @property
    def speculation(self) -> Speculation | None:
        """The drafting setting; None for the target alone."""
        return self.arm.speculation

    @property
    def mtp(self) -> bool:
        """Whether the target's own MTP layers draft."""
        return self.speculation is not None and self.speculation.is_mtp


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCell:
    """A cell with its name in the grid."""

    cell: Cell
    name: str


Value = str | int | float
"""Coordinate of a cell along an axis."""

OFF_NAME = "off"


def coordinates(cell: Cell) -> dict[str, Value]:
    """Coordinates of ``cell`` on all of its axes, by the names of options."""
    found: dict[str, Value] = {"drafter": cell.arm.drafter}
    for one in () if cell.speculation is None else cell.speculation.chain:
        # Among several drafters, whose number it is.
        found |= {number.axis: getattr(one, number.name) for number in numbers_of(type(one))}
    found["threads"] = cell.place.threads
    found["cache-type"] = "/".join(
        dict.fromkeys((cell.place.cache_type_k, cell.place.cache_type_v))
    )
    if cell.task.prompt_length is not None:
        found["prompt-length"] = cell.task.prompt_length
    found["temp"] = cell.task.temp
    found["n-predict"] = cell.task.n_predict
    if cell.rerun:
        found["rerun"] = cell.rerun
    return found
