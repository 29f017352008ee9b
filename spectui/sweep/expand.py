"""Expands the axes of a grid into cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from spectui.sweep.axes import MODEL_KINDS, OFF_KIND, PLACEHOLDER, Axes
from spectui.sweep.cells import OFF_NAME, Cell, NamedCell, Place, Task, coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Values for cells where their axes are silent."""

    place: Place
    task: Task
    model: DraftSimple = field(default_factory=DraftSimple)
    """Numbers of drafts and MTP layers; those of n-gram drafters are llama-server's."""
    readers: Mapping[str, str | None] = field(default_factory=dict)
    """Kinds of the drafts that read the target's hidden states, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The cells of a grid, in its order."""

    cells: tuple[NamedCell, ...]
    left_out: tuple[str, ...]
    """A sentence for every impossible combination."""


class _Unusable(Exception):  # noqa: N818 - told, not raised to anybody
    """A combination that never drafts, or for which no drafter is available."""


def expand(entries: Sequence[Axes], drafts: Sequence[str], defaults: Defaults) -> Expansion:
    """List every cell of ``entries``.

    Where no entry has the target alone, it is added in every place and for every task. A cell that
    several entries come to has the name that the first gives it.

    Args:
        entries: axes of the grid.
        drafts: names of the given drafts, in their order.
        defaults: defaults of the command.
    """
    left_out: dict[str, None] = {}
    found = [cell for axes in entries for cell in _cells(axes, drafts, defaults, left_out)]
    if not any(OFF_KIND in alternative for axes in entries for alternative in axes.alternatives):
        around = dict.fromkeys((one.cell.place, one.cell.task) for one in found)
        off = [
            NamedCell(cell=Cell(arm=OFF, place=place, task=task), name=OFF_NAME)
            for place, task in around
        ]
        found = [*off, *found]
    named = {one.cell: one for one in reversed(found)}
    for one in found:
        first = named[one.cell].name
        if one.name != first:
            left_out[f"{one.name} is the same as {first} (a rerun would measure it again)"] = None
    cells = dict.fromkeys(one.cell for one in found)
    distinct = _distinct([named[cell] for cell in cells])
    return Expansion(cells=tuple(distinct), left_out=tuple(left_out))


def _cells(
    axes: Axes, drafts: Sequence[str], defaults: Defaults, left_out: dict[str, None]
) -> Iterator[NamedCell]:
    arms: list[Arm] = []
    for alternative in axes.alternatives:
        try:
            arms += _arms(axes, alternative, drafts, defaults, left_out)
        except _Unusable as reason:
            left_out[str(reason)] = None
    tasks, places = list(_tasks(axes, defaults.task)), list(_places(axes, defaults.place))
    cells = (
        Cell(arm=arm, place=place, task=task, rerun=axes.rerun)
        for place, task, arm in product(places, tasks, arms)
    )
    for cell in dict.fromkeys(cells):
        yield NamedCell(cell=cell, name=_name(axes.name, cell))


def _arms(
    axes: Axes,
    alternative: Sequence[str],
    drafts: Sequence[str],
    defaults: Defaults,
    left_out: dict[str, None],
) -> Iterator[Arm]:
    if OFF_KIND in alternative:
        yield OFF
        return
    ngrams = [
        list(_settings(axes, one, one().numbers, left_out))
        for one in NGRAMS
        if kind_of(one) in alternative
    ]
    has_mtp = MTP_KIND in alternative
    kind = next((kind for kind in MODEL_KINDS if kind in alternative), None)
    if not (kind or has_mtp):
        for chain in product(*ngrams):
            yield Arm(draft=None, speculation=Speculation(chain[-1], chain[:-1]))
        return
    drafts_of: Sequence[str] = (MTP_KIND,)
    if kind is not None:
        drafts_of = tuple(_drafting(axes, kind, drafts, defaults, left_out))
    models = list(_settings(axes, DraftSimple, defaults.model.numbers, left_out))
    for draft, ahead, model in product(drafts_of, product(*ngrams), models):
        own_kind = MTP_KIND if has_mtp else defaults.readers.get(draft) or MODEL_KIND
        yield Arm(draft=draft, speculation=Speculation(with_kind(model, own_kind), ahead))


def _drafting(
    axes: Axes,
    kind: str,
    drafts: Sequence[str],
    defaults: Defaults,
    left_out: dict[str, None],
) -> Iterator[str]:
    """Drafts for a kind; if no kind was named, each drafts as the kind of its file."""
    for name in _chosen(axes, drafts):
        own = defaults.readers.get(name) or MODEL_KIND
        if axes.spec_type and own != kind:
            left_out[f"{name} drafts as {own}, and not as {kind}"] = None
        else:
            yield name


def _chosen(axes: Axes, drafts: Sequence[str]) -> Iterator[str]:
    if not drafts:
        raise _Unusable(f"{MODEL_KIND} needs a draft; give one with -md")
    usable = [number for number in axes.draft if number <= len(drafts)]
    if axes.draft and not usable:
        wanted = " and ".join(map(str, axes.draft))
        raise _Unusable(f"{axes.name or MODEL_KIND} is for draft {wanted}, and {len(drafts)} given")
    yield from (drafts[number - 1] for number in usable) if axes.draft else drafts


_T = TypeVar("_T", bound=DrafterOptions)


def _settings(
    axes: Axes, drafter: type[_T], defaults: Mapping[str, float], left_out: dict[str, None]
) -> Iterator[_T]:
    """Every combination of a drafter's numbers that can draft."""
    numbers = numbers_of(drafter)
    lists = [getattr(axes, one.parameter) or (defaults[one.name],) for one in numbers]
    for values in product(*lists):
        setting = drafter(**{one.name: value for one, value in zip(numbers, values, strict=True)})
        problem = setting.check(lambda number: number.axis)
        if problem is None:
            yield setting
        else:
            left_out[problem] = None


def _places(axes: Axes, default: Place) -> Iterator[Place]:
    """Places of the axes; cache types of K and V pair up if both lists are equally long."""
    keys, values = axes.cache_type_k, axes.cache_type_v
    lists = (keys or (default.cache_type_k,), values or (default.cache_type_v,))
    kinds = zip(keys, values, strict=True) if len(keys) == len(values) > 0 else product(*lists)
    for threads, (key, value) in product(axes.threads or (default.threads,), tuple(kinds)):
        yield Place(threads=threads, cache_type_k=key, cache_type_v=value)


def _tasks(axes: Axes, default: Task) -> Iterator[Task]:
    n_predict = max(2, round(default.n_predict * axes.n_predict_factor))
    lengths: Sequence[int | None] = axes.prompt_length or (default.prompt_length,)
    for length, temp in product(lengths, axes.temp or (default.temp,)):
        yield Task(prompt_length=length, temp=temp, n_predict=n_predict)


def _distinct(cells: Sequence[NamedCell]) -> Iterator[NamedCell]:
    """The cells with the settings added to names that several ways to draft share."""
    arms: dict[str, set[Arm]] = {}
    for one in cells:
        arms.setdefault(one.name, set()).add(one.cell.arm)
    for one in cells:
        is_shared = len(arms[one.name]) > 1
        yield replace(one, name=f"{one.name} ({one.cell.arm.label})") if is_shared else one


def _name(pattern: str, cell: Cell) -> str:
    name = pattern or cell.arm.label
    for key, value in coordinates(cell).items():
        name = name.replace(f"{{{key}}}", f"{value:g}" if isinstance(value, float) else str(value))
    # Of what this cell does not have, such as draft_max of the target alone.
    return PLACEHOLDER.sub("\N{EN DASH}", name)
