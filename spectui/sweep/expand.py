"""The cells of a grid, and the random order in which they are measured. Pure."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeVar

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NGRAMS,
    DrafterOptions,
    DraftSimple,
    kind_of,
    numbers_of,
    with_kind,
)
from spectui.options.speculation import Speculation
from spectui.sweep.cells import Cell, Place, Task, Visit, coordinates
from spectui.sweep.grid import MODEL_KINDS, OFF_KIND, Axes


def expand(
    entries: Sequence[Axes], drafts: Mapping[str, str], default: Cell
) -> tuple[dict[Cell, str], tuple[str, ...]]:
    """List every cell of ``entries``.

    Where no entry has the target alone, it is added in every place and for every task. A cell that
    several entries come to has the name that the first gives it.

    Args:
        entries: axes of the grid.
        drafts: kinds of the given drafts by name, in their order.
        default: what cells have where their axes are silent. Its numbers are those of drafts and
            MTP layers; n-gram drafters have llama-server's.

    Returns:
        Names of the cells in the grid's order, and a sentence for every impossible combination.
    """
    expansion = _Expansion(drafts, default)
    found = [pair for axes in entries for pair in expansion.cells(axes)]
    if not any(OFF_KIND in axes.kinds for axes in entries):
        around = dict.fromkeys((cell.place, cell.task) for cell, _name in found)
        off = [Cell(arm=OFF, place=place, task=task) for place, task in around]
        found = [*((cell, cell.arm.label) for cell in off), *found]
    names: dict[Cell, str] = {}
    for cell, name in found:
        first = names.setdefault(cell, name)
        if name != first:
            expansion.leave_out(f"{name} is the same as {first} (a rerun would measure it again)")
    return _distinct(names), tuple(expansion.left_out)


_T = TypeVar("_T", bound=DrafterOptions)


class _Expansion:
    """Lists cells, and notes what is left out."""

    def __init__(self, drafts: Mapping[str, str], default: Cell) -> None:
        self._drafts = drafts
        self._default = default
        self.left_out: dict[str, None] = {}

    def leave_out(self, sentence: str) -> None:
        """Note an impossible combination, once."""
        self.left_out[sentence] = None

    def cells(self, axes: Axes) -> Iterator[tuple[Cell, str]]:
        """Every cell of one entry, with its name."""
        arms = [arm for alternative in axes.alternatives for arm in self._arms(axes, alternative)]
        cells = (
            Cell(arm=arm, place=place, task=task, rerun=axes.rerun)
            for place, task, arm in product(list(self._places(axes)), list(self._tasks(axes)), arms)
        )
        for cell in dict.fromkeys(cells):
            yield cell, _name(axes.name, cell)

    def _arms(self, axes: Axes, alternative: Sequence[str]) -> Iterator[Arm]:
        if OFF_KIND in alternative:
            yield OFF
            return
        ngrams = [
            list(self._settings(axes, one, one().numbers))
            for one in NGRAMS
            if kind_of(one) in alternative
        ]
        kind = next((kind for kind in (*MODEL_KINDS, MTP_KIND) if kind in alternative), None)
        if kind is None:
            for chain in product(*ngrams):
                yield Arm(draft=None, speculation=Speculation(chain[-1], chain[:-1]))
            return
        is_own = kind == MTP_KIND and MTP_KIND not in self._drafts.values()
        drafts = [MTP_KIND] if is_own else self._drafting(axes, kind)
        default = self._default.speculation or Speculation()
        models = list(self._settings(axes, DraftSimple, default.own.numbers))
        for draft, ahead, model in product(drafts, product(*ngrams), models):
            own = with_kind(model, MTP_KIND if is_own else self._drafts[draft])
            yield Arm(draft=draft, speculation=Speculation(own, ahead))

    def _drafting(self, axes: Axes, kind: str) -> list[str]:
        """Drafts for a kind; if no kind was named, each drafts as the kind of its file."""
        names = list(self._drafts)
        if not names:
            self.leave_out(f"{MODEL_KIND} needs a draft; give one with -md")
            return []
        if axes.draft:
            names = [names[number - 1] for number in axes.draft if number <= len(names)]
        if not names:
            wanted, n_given = " and ".join(map(str, axes.draft)), len(self._drafts)
            self.leave_out(f"{axes.name or MODEL_KIND} is for draft {wanted}, and {n_given} given")
            return []
        fitting = []
        for name in names:
            if axes.spec_type and self._drafts[name] != kind:
                self.leave_out(f"{name} drafts as {self._drafts[name]}, and not as {kind}")
            else:
                fitting.append(name)
        return fitting

    def _settings(
        self, axes: Axes, drafter: type[_T], defaults: Mapping[str, float]
    ) -> Iterator[_T]:
        """Every combination of a drafter's numbers that can draft."""
        numbers = numbers_of(drafter)
        lists = [getattr(axes, one.parameter) or (defaults[one.name],) for one in numbers]
        for values in product(*lists):
            setting = drafter(**{one.name: v for one, v in zip(numbers, values, strict=True)})
            problem = setting.check(lambda number: number.axis)
            if problem is None:
                yield setting
            else:
                self.leave_out(problem)

    def _places(self, axes: Axes) -> Iterator[Place]:
        """Places of the axes; cache types of K and V pair up if both lists are equally long."""
        default, keys, values = self._default.place, axes.cache_type_k, axes.cache_type_v
        lists = (keys or (default.cache_type_k,), values or (default.cache_type_v,))
        kinds = zip(keys, values, strict=True) if len(keys) == len(values) > 0 else product(*lists)
        around = product(
            axes.threads or (default.threads,), tuple(kinds), axes.parallel or (default.n_slots,)
        )
        for threads, (key, value), n_slots in around:
            yield Place(threads=threads, cache_type_k=key, cache_type_v=value, n_slots=n_slots)

    def _tasks(self, axes: Axes) -> Iterator[Task]:
        default = self._default.task
        n_predict = max(2, round(default.n_predict * axes.n_predict_factor))
        lengths: Sequence[int | None] = axes.prompt_length or (default.prompt_length,)
        for length, temp in product(lengths, axes.temp or (default.temp,)):
            yield Task(prompt_length=length, temp=temp, n_predict=n_predict)


def _distinct(names: Mapping[Cell, str]) -> dict[Cell, str]:
    """The cells with the settings added to names that several ways to draft share."""
    arms: dict[str, set[Arm]] = {}
    for cell, name in names.items():
        arms.setdefault(name, set()).add(cell.arm)
    return {
        cell: f"{name} ({cell.arm.label})" if len(arms[name]) > 1 else name
        for cell, name in names.items()
    }


def _name(pattern: str, cell: Cell) -> str:
    name = pattern or cell.arm.label
    for key, value in coordinates(cell).items():
        name = name.replace(f"{{{key}}}", f"{value:g}" if isinstance(value, float) else str(value))
    return name


def ordered(cells: Iterable[Cell], repeats: int, seed: int) -> tuple[Visit, ...]:
    """Visit every cell once per repeat; the same cells and seed give the same order.

    Each repeat is a pass of its own over all cells. Within it, cells of one place stand together,
    since another place costs a load of the target, and within those the cells of one draft. The
    order of the places, of the drafts and of the cells is random. Cells that need no draft model
    are spread over the drafts at random, so that no drafter is measured earlier than another on
    the average.
    """
    visits: list[Visit] = []
    unique = sorted(dict.fromkeys(cells), key=lambda cell: repr(coordinates(cell)))
    models = sorted({cell.arm.draft for cell in unique if cell.arm.draft is not None}) or [""]
    for repeat in range(repeats):
        chance = random.Random(f"{seed}/{repeat}")  # noqa: S311 - an order is no secret
        ranks: dict[object, float] = defaultdict(chance.random)
        keys = {
            cell: (
                ranks[cell.place],
                ranks[cell.place, cell.arm.draft or chance.choice(models)],
                chance.random(),
            )
            for cell in unique
        }
        visits += [Visit(cell=cell, repeat=repeat) for cell in sorted(unique, key=keys.__getitem__)]
    return tuple(visits)


def n_loads(visits: Sequence[Visit]) -> int:
    """Number of loads of the target over all visits."""
    places = [visit.cell.place for visit in visits]
    return sum(place != before for place, before in zip(places, [None, *places], strict=False))
