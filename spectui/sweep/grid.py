"""The cells of a grid, every combination of lists, and the order of measuring them. Pure."""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from spectui.errors import UsageError
from spectui.measure.arm import Arm
from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    drafter_class,
    numbers_of,
)
from spectui.options.speculation import speculation_of
from spectui.sweep.cells import Cell, Place, Task, Visit, coordinates

FILE_KINDS = (MODEL_KIND, *HIDDEN_STATE_KINDS)
"""Kinds that draft with a file of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Lists of values; an empty one leaves what the cells have in common."""

    drafters: tuple[tuple[str, ...], ...] = ()
    """Alternatives, each the kinds that are asked in turn; empty for each draft as its file is."""
    numbers: Mapping[str, tuple[float, ...]]
    """Values of every drafter's numbers, by ``Number.parameter``."""
    threads: tuple[int, ...] = ()
    n_slots: tuple[int, ...] = ()
    prompt_length: tuple[int, ...] = ()
    temp: tuple[float, ...] = ()

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """The drafters of each alternative."""
        return self.drafters or ((MODEL_KIND,),)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of all drafters."""
        return frozenset(kind for kinds in self.alternatives for kind in kinds)


def expand(
    axes: Axes, drafts: Mapping[str, str], place: Place, task: Task
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """List every combination.

    Args:
        axes: lists of values.
        drafts: kinds of the given drafts by name, in their order.
        place: what the cells have where the axes are silent.
        task: as ``place``.

    Returns:
        The cells, and a sentence for every impossible combination.
    """
    left_out: dict[str, None] = {}
    arms = [arm for kinds in axes.alternatives for arm in _arms(axes, kinds, drafts, left_out)]
    places = product(axes.threads or (place.threads,), axes.n_slots or (place.n_slots,))
    lengths = axes.prompt_length or (task.prompt_length,)
    tasks = product(lengths, axes.temp or (task.temp,))
    cells = (
        Cell(
            arm=arm,
            place=replace(place, threads=threads, n_slots=n_slots),
            task=replace(task, prompt_length=length, temp=temp),
        )
        for (threads, n_slots), (length, temp), arm in product(list(places), list(tasks), arms)
    )
    return tuple(dict.fromkeys(cells)), tuple(left_out)


def _arms(
    axes: Axes, kinds: Collection[str], drafts: Mapping[str, str], left_out: dict[str, None]
) -> Iterator[Arm]:
    """The settings of one alternative; adds what cannot draft to ``left_out``."""
    model = next((kind for kind in kinds if kind in {*FILE_KINDS, MTP_KIND}), None)
    for draft, kind in _drafting(axes, model, drafts, left_out):
        own = [one if one != model or kind is None else kind for one in kinds]
        names = [number.parameter for one in own for number in numbers_of(drafter_class(one))]
        for values in product(*(axes.numbers[name] for name in names)):
            try:
                speculation = speculation_of(own, dict(zip(names, values, strict=True)))
            except UsageError as error:
                left_out[str(error).partition(";")[0]] = None
            else:
                yield Arm(draft=draft, speculation=speculation)


def _drafting(
    axes: Axes, model: str | None, drafts: Mapping[str, str], left_out: dict[str, None]
) -> Iterator[tuple[str | None, str | None]]:
    """Names and kinds of the models that draft as the kind ``model``; None where none does."""
    if model is None:
        yield None, None
    elif model == MTP_KIND and MTP_KIND not in drafts.values():
        yield MTP_KIND, MTP_KIND
    else:
        for name, kind in drafts.items():
            if axes.drafters and kind != model:
                left_out[f"{name} drafts as {kind}, and not as {model}"] = None
            else:
                yield name, kind


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
