"""The right list: drafts for one target, the promising ones first; all that is known of a row."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from textual.widgets.option_list import Option

from spectui.display import visible
from spectui.format import bytes_text, count_text, counted
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, ModelInspected, assess, rank
from spectui.options.drafters import MTP_KIND
from spectui.tui import draw
from spectui.tui.picker.list import Entry, PickerList, columns, heading

ALONE = "alone"
"""Value of the row that takes no draft, and its key."""

_NAME, _STATE, _SIZE = 28, 8, -8


class DraftList(PickerList):
    """Every other model as a draft of the target, after the choice to take none."""

    def __init__(self, n_ctx: int) -> None:
        """Show nothing until there is a target; a cache holds ``n_ctx`` tokens."""
        super().__init__(id="drafts", markup=False)
        self._n_ctx = n_ctx
        self.target: FoundModel | None = None
        self.ranked: tuple[DraftOption, ...] = ()
        self._inspected: dict[Path, dict[Path, ModelInspected]] = {}
        """Known facts, by the target's path and by the model's."""
        self._asked: set[Path] = set()

    def learn(self, inspected: ModelInspected) -> bool:
        """Keep what became known of a model; return whether it concerns the present target."""
        self._inspected.setdefault(inspected.target, {})[inspected.path] = inspected
        return self.target is not None and inspected.target == self.target.path

    @property
    def target_inspection(self) -> ModelInspected | None:
        """Result of inspecting the target itself."""
        if self.target is None:
            return None
        return self._inspected.get(self.target.path, {}).get(self.target.path)

    @property
    def target_problem(self) -> str | None:
        """Why the target cannot be one; None if nothing is known against it."""
        return None if self.target is None else problem(self.target, self.target_inspection)

    def take_unknown(self) -> tuple[FoundModel, ...]:
        """Return the drafts that have to be looked at, the likely ones first, each only once."""
        if self.target_problem is not None:
            return ()
        unknown = (one.model for one in self.ranked if one.reason is None and not one.is_checked)
        found = tuple(model for model in unknown if model.path not in self._asked)
        self._asked.update(model.path for model in found)
        return found

    def show_nothing(self) -> None:
        """Show that there is nothing to choose."""
        self.target, self.ranked = None, ()
        self._asked.clear()
        self.show_rows((), None)

    def show_target(self, target: FoundModel, models: Sequence[FoundModel]) -> None:
        """Rank ``models`` for ``target`` with what their inspections told.

        The best one that fits is highlighted, until someone works in the list: from then on the
        highlight stays where it was put.
        """
        key = self.key if target == self.target and self.has_focus else None
        if target != self.target:
            self._asked.clear()
        self.target = target
        inspected = self._inspected.get(target.path, {})
        others = [model for model in models if model.path != target.path]
        about = inspected.get(target.path)
        self.ranked = rank(
            target if about is None or about.facts is None else about.facts,
            [
                assess(target.size_bytes, model, inspected.get(model.path), self._n_ctx)
                for model in others
            ],
        )
        self.show_rows(_rows(self.ranked), key or self._best())

    def _best(self) -> str:
        fitting = (o for o in self.ranked if o.is_checked and not (o.reason or o.slowness))
        return next((str(option.model.path) for option in fitting), ALONE)


def _rows(options: Sequence[DraftOption]) -> Iterator[Option]:
    yield heading(_line("draft", "", "memory", "file", "why not"))
    about = "Runs the target without a draft."
    yield Entry(ALONE, "No draft: the target alone", ALONE, about=about)
    for option in options:
        memory = draw.NONE if option.memory_bytes is None else bytes_text(option.memory_bytes)
        size, why = bytes_text(option.model.size_bytes), option.reason or option.slowness or ""
        line = _line(option.model.name, _state(option), memory, size, why)
        yield Entry(option, line, str(option.model.path), is_dim=bool(option.reason))


def _line(name: str, state: str, memory: str, size: str, why: str) -> str:
    return columns((name, _NAME), (state, _STATE), (memory, _SIZE), (size, _SIZE), (why, 0))


def _state(option: DraftOption) -> str:
    if option.reason is not None:
        return "unfit"
    if option.slowness is not None:
        return "slow"
    return "fits" if option.is_checked else "checking"


def detail(entry: Entry | None, inspected: ModelInspected | None) -> str:
    """Describe a row.

    Args:
        entry: The row, None without one.
        inspected: What the inspection told of the target itself, if it did.
    """
    match entry:
        case None:
            return ""
        case Entry(value=FoundModel() as model):
            return _target_line(model, inspected)
        case Entry(value=DraftOption() as option):
            return _draft_line(option)
        case _:
            return visible(entry.about)


def problem(model: FoundModel, inspected: ModelInspected | None) -> str | None:
    """Say why a model cannot be a target, None if nothing speaks against it so far."""
    return model.damage or (None if inspected is None else inspected.reason)


def _target_line(model: FoundModel, inspected: ModelInspected | None) -> str:
    if (reason := problem(model, inspected)) is not None:
        return f"Cannot be the target: {visible(reason)}."
    files = "" if model.n_shards == 1 else f" in {counted(model.n_shards, 'file')}"
    known = inspected.facts if inspected is not None else None
    facts = "" if known is None else f", {_facts(known)}"
    return f"{bytes_text(model.size_bytes)}{files}{facts}. Enter goes on to its draft."


def _draft_line(option: DraftOption) -> str:
    if option.reason is not None:
        return f"Cannot be the draft: {visible(option.reason)}."
    if option.facts is None:
        return "Is being checked. It can be chosen already: loading it checks it, too."
    if option.memory_bytes is None:
        memory = f"{bytes_text(option.model.size_bytes)} of memory and its cache"
    else:
        memory = f"{bytes_text(option.memory_bytes)} of memory with its cache"
    if option.slowness is not None:
        return f"Slow: {memory}, {visible(option.slowness)}."
    return f"Fits: {memory}, {_facts(option.facts)}"


def _facts(facts: ModelFacts) -> str:
    parts = [visible(facts.arch)]
    if facts.draft_kind == MTP_KIND:
        parts.append("MTP layers alone")
    if facts.n_params is not None:
        parts.append(f"{count_text(facts.n_params)} parameters")
    parts.append(counted(facts.n_layers, "layer"))
    if facts.n_experts:
        parts.append(counted(facts.n_experts, "expert"))
    parts.append(f"trained for {counted(facts.n_ctx_train, 'token')}")
    return ", ".join(parts)
