"""Selects the plots that a sweep has data for, and their contents. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spectui.measure.statistics import Speedup
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.sweep.cells import Value, coordinates
from spectui.sweep.summary import CellSummary, best_per_drafter, flattenings, full_names, ranked

MOST_PANELS = 6
MOST_LINES = 8
"""Maximum number of lines in a panel: the number of colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value, with its interval if one is known."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


Panel = tuple[str, Mapping[str, tuple[Point, ...]]]
"""A title, and labelled lines of points that share a pair of axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plot of lines in panels beside one another, or of bars: labelled points without an x."""

    slug: str
    title: str
    panels: tuple[Panel, ...]
    x_label: str | None = None
    """None for bars."""
    is_share: bool = False
    """Whether y is a share of tokens instead of a speedup."""
    n_left_out: int = 0
    """Number of lines that did not fit."""


_TITLES = {
    **{one.axis: one.name + " (γ)" * one.bounds_drafts for one in numbers_of(DraftSimple)},
    "prompt-length": "prompt length in tokens",
    "temp": "temperature",
    "threads": "threads",
    "n-predict": "generated tokens",
}
_NOT_AXES = ("drafter", "cache-type", "rerun")


def charts(summaries: Sequence[CellSummary]) -> tuple[Chart, ...]:
    """All plots that there is data for."""
    cells = [one for one in ranked(summaries) if not one.cell.rerun]
    keys = dict.fromkeys(key for one in cells for key in coordinates(one.cell))
    found: list[Chart | None] = []
    for key in sorted(set(keys) - set(_NOT_AXES)):
        found.append(_lines(cells, key, "speedup", _speedup_point))
        if key == "draft-max":
            found.append(_lines(cells, key, "acceptance", _acceptance_point))
    found += [_by_drafter(cells), _by_category(cells)]
    return tuple(chart for chart in found if chart is not None)


_Measure = Callable[[CellSummary, float], Point | None]


def _speedup_point(one: CellSummary, x: float) -> Point | None:
    return None if one.speedup is None else _point(x, one.speedup)


def _acceptance_point(one: CellSummary, x: float) -> Point | None:
    rate = one.counters.acceptance_rate
    return None if rate is None else Point(x=x, y=rate)


def _point(x: float, speedup: Speedup) -> Point:
    return Point(x=x, y=speedup.estimate, low=speedup.low, high=speedup.high)


_Around = tuple[tuple[str, Value], ...]
"""Coordinates that select a panel, or a line of a drafter."""


def _lines(cells: Sequence[CellSummary], key: str, what: str, measure: _Measure) -> Chart | None:
    """Lines of each drafter over one axis, with all other axes fixed."""
    lined = {around: kept for around, kept in _panels(cells, key, measure) if kept}
    if not lined:
        return None
    shown = sorted(lined, key=lambda around: (-_n_points(lined[around]), str(around)))
    differing = _differing(list(lined))
    panels = tuple(
        (_panel_title(around, differing), dict(list(lined[around].items())[:MOST_LINES]))
        for around in sorted(shown[:MOST_PANELS])
    )
    title = _TITLES.get(key, key)
    return Chart(
        slug=f"{what}-by-{key}",
        title=f"{what.capitalize()} by {title}",
        x_label=title,
        is_share=what == "acceptance",
        panels=panels,
        n_left_out=sum(map(len, lined.values())) - sum(len(lines) for _title, lines in panels),
    )


def _panels(
    cells: Sequence[CellSummary], key: str, measure: _Measure
) -> Iterator[tuple[_Around, dict[str, tuple[Point, ...]]]]:
    """Lines of each panel, with at least two points each."""
    spots = list(_spots(cells, key, measure))
    variants: dict[str, dict[_Around, None]] = {}
    for drafter, _, own, _ in spots:
        variants.setdefault(drafter, {})[own] = None
    differing = {drafter: _differing(list(found)) for drafter, found in variants.items()}
    groups: dict[_Around, dict[str, list[Point]]] = {}
    for drafter, panel, own, point in spots:
        variant = _panel_title(own, differing[drafter])
        label = f"{drafter}: {variant}" if variant else drafter
        groups.setdefault(panel, {}).setdefault(label, []).append(point)
    for panel, lines in groups.items():
        yield (
            panel,
            {
                label: tuple(sorted(points, key=lambda point: point.x))
                for label, points in sorted(lines.items())
                if len({point.x for point in points}) > 1
            },
        )


def _spots(
    cells: Sequence[CellSummary], key: str, measure: _Measure
) -> Iterator[tuple[str, _Around, _Around, Point]]:
    """Drafter and point of each cell; coordinates of all drafters, and of this one only.

    The latter are such as the sizes of its n-grams.
    """
    places = [(one, coordinates(one.cell)) for one in cells]
    places = [(one, place) for one, place in places if isinstance(place.get(key), int | float)]
    shared = set.intersection(*(set(place) for _one, place in places)) if places else set()
    for one, place in places:
        x, drafter = place.pop(key), str(place.pop("drafter"))
        point = measure(one, float(x))
        if point is not None:
            rest = sorted(place.items())
            panel = tuple(item for item in rest if item[0] in shared)
            yield drafter, panel, tuple(item for item in rest if item[0] not in shared), point


def _n_points(lines: Mapping[str, Sequence[Point]]) -> int:
    return sum(map(len, lines.values()))


def _differing(rests: Sequence[_Around]) -> set[str]:
    """Axes along which panels, or the variants of a drafter, differ."""
    sets = [set(rest) for rest in rests]
    common = set.intersection(*sets)
    return {name for rest in sets for name, _value in rest - common}


def _panel_title(rest: _Around, shown: set[str]) -> str:
    parts = (
        f"{name} {value:g}" if isinstance(value, int | float) else str(value)
        for name, value in rest
        if name in shown
    )
    return ", ".join(parts)


def _bars(slug: str, title: str, cells: Mapping[str, CellSummary]) -> Chart:
    """Bars of the speedups, by label."""
    bars = {
        label: (_point(0.0, one.speedup),)
        for label, one in cells.items()
        if one.speedup is not None
    }
    return Chart(slug=slug, title=title, panels=(("", bars),))


def _by_drafter(cells: Sequence[CellSummary]) -> Chart | None:
    name_of, best = full_names(cells), best_per_drafter(cells)
    if len(best) < 2:  # noqa: PLR2004 - one bar compares with nothing
        return None
    named = {_with_drafter(drafter, name_of(one)): one for drafter, one in best.items()}
    return _bars("speedup-by-draft", "Best cell of each drafter", named)


def _with_drafter(drafter: str, name: str) -> str:
    return name if name.startswith(drafter) else f"{drafter}: {name}"


def _by_category(cells: Sequence[CellSummary]) -> Chart | None:
    """Curves over ``draft_max`` where there are any, else bars of the fastest cell."""
    slug = "speedup-by-category"
    panels: dict[str, dict[str, tuple[Point, ...]]] = {}
    found = flattenings(cells)
    tasks = {one.around.task for one in found}
    places = {one.around.place for one in found}
    for one in found:
        if one.category is not None:
            task = f", {one.around.task.text}" if len(tasks) > 1 else ""
            place = f", {one.around.place.text}" if len(places) > 1 else ""
            lines = panels.setdefault(f"{one.drafter}{task}{place}", {})
            lines[one.category] = tuple(Point(x=float(x), y=y) for x, y in one.by_length.items())
    if panels and all(len(lines) > 1 for lines in panels.values()):
        shown = [(title if len(panels) > 1 else "", lines) for title, lines in panels.items()]
        return Chart(
            slug=slug,
            title="Speedup by draft_max, for each category of prompts",
            x_label=_TITLES["draft-max"],
            panels=tuple(shown[:MOST_PANELS]),
            n_left_out=sum(len(lines) for _title, lines in shown[MOST_PANELS:]),
        )
    if not cells or len(cells[0].by_category) < 2:  # noqa: PLR2004 - as above
        return None
    by_category = dict(sorted(cells[0].by_category.items()))
    return _bars(slug, f"{cells[0].name}, by category of prompts", by_category)
