"""The right list: drafts for one target, the promising ones first."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from textual.widgets.option_list import Option

from spectui.models.files import FoundModel
from spectui.models.ranking import Budget, DraftOption, ModelInspected, assess, rank
from spectui.models.sizes import bytes_text
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.widgets.picker_list import Entry, PickerList, note
from spectui.tui.widgets.picker_rows import Cell, Row
from spectui.tui.widgets.picker_text import visible

ALONE = "alone"
"""Value of the row that takes no draft, and its key."""

_STATE_CELLS, _SIZE_CELLS, _WHY_CELLS = 8, 8, 24


class DraftList(PickerList):
    """Every other model as a draft of the target, after the choice to take none."""

    def __init__(self, budget: Budget) -> None:
        """Show nothing until there is a target."""
        super().__init__(id="drafts", markup=False)
        self._budget = budget
        self.target: FoundModel | None = None
        self.ranked: tuple[DraftOption, ...] = ()

    def show_nothing(self, hint: str) -> None:
        """Say why there is nothing to choose."""
        self.target, self.ranked = None, ()
        self.show_rows([note(hint)] if hint else (), None)

    def show_target(
        self,
        target: FoundModel,
        models: Sequence[FoundModel],
        inspected: Mapping[Path, ModelInspected],
    ) -> None:
        """Rank ``models`` for ``target`` with what their inspections told.

        The best one that fits is highlighted, until someone works in the list: from then on the
        highlight stays where it was put.
        """
        key = self.key if target == self.target and self.has_focus else None
        self.target = target
        others = [model for model in models if model.path != target.path]
        about = inspected.get(target.path)
        self.ranked = rank(
            target if about is None or about.facts is None else about.facts,
            [assess(target, model, inspected.get(model.path), self._budget) for model in others],
        )
        self.show_rows(_rows(self.ranked, glyphs_of(self)), key or self._best())

    def _best(self) -> str:
        fitting = (o for o in self.ranked if o.is_checked and o.reason is None)
        return next((str(option.model.path) for option in fitting), ALONE)


def _rows(options: Sequence[DraftOption], glyphs: Glyphs) -> Iterator[Option]:
    alone = Row("No draft: the target alone", ellipsis=glyphs.ellipsis)
    yield Entry(ALONE, alone, ALONE, "Runs the target without a draft.")
    for option in options:
        yield Entry(option, _row(option, glyphs), str(option.model.path))


def _row(option: DraftOption, glyphs: Glyphs) -> Row:
    memory = glyphs.none if option.memory_bytes is None else bytes_text(option.memory_bytes)
    cells = (
        Cell(text=_state(option), cells=_STATE_CELLS),
        Cell(text=memory, cells=_SIZE_CELLS, to_right=True),
        Cell(text=bytes_text(option.model.size_bytes), cells=_SIZE_CELLS, to_right=True),
        Cell(text=visible(option.reason or "", glyphs), cells=_WHY_CELLS, share=1, is_prose=True),
    )
    name = visible(option.model.name, glyphs)
    return Row(name, cells, ellipsis=glyphs.ellipsis, style="dim" if option.reason else "")


def _state(option: DraftOption) -> str:
    if option.reason is not None:
        return "unfit"
    return "fits" if option.is_checked else "checking"


def column_titles(glyphs: Glyphs) -> Row:
    """Names of the columns of a draft's row."""
    cells = (
        Cell(text="", cells=_STATE_CELLS),
        Cell(text="memory", cells=_SIZE_CELLS, to_right=True),
        Cell(text="file", cells=_SIZE_CELLS, to_right=True),
        Cell(text="why not", cells=_WHY_CELLS, share=1, is_prose=True),
    )
    return Row("draft", cells, ellipsis=glyphs.ellipsis)
