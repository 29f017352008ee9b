"""Selects the plots that a sweep has data for, and their contents. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spectui.measure.statistics import Speedup
from spectui.sweep.cells import Value, coordinates
from spectui.sweep.flattening import flattenings
from spectui.sweep.naming import telling
from spectui.sweep.summary import (
    CellSummary,
    best_per_drafter,
    ranked,
    speedup_of,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A labelled line of points."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines that share a pair of axes."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A plot of lines, in one panel or several beside one another."""

    slug: str
    title: str
    x_label: str
    is_share: bool
    """Whether y is a share of tokens instead of a speedup."""
    panels: tuple[Panel, ...]
    n_left_out: int = 0
    """Number of lines that did not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A named value."""

    label: str
    value: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A plot of speedups by name."""

    slug: str
    title: str
    bars: tuple[Bar, ...]


Chart = Lines | Bars

_TITLES = {
    "draft-max": "draft_max (γ)",
    "draft-min": "draft_min",
    "draft-p-min": "draft_p_min",
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
    speedup = one.speedup
    return None if speedup is None else _point(x, speedup)


def _acceptance_point(one: CellSummary, x: float) -> Point | None:
    rate = one.totals.acceptance_rate
    return None if rate is None else Point(x=x, y=rate)


def _point(x: float, speedup: Speedup) -> Point:
    return Point(x=x, y=speedup.estimate, low=speedup.low, high=speedup.high)


_Around = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """A point with the coordinates that select its panel and line."""

    drafter: str
    panel: _Around
    """Coordinates that every drafter of the plot has."""
    own: _Around
    """Coordinates of this drafter only, such as the sizes of its n-grams."""
    point: Point


def _lines(cells: Sequence[CellSummary], key: str, what: str, measure: _Measure) -> Lines | None:
    """Lines of each drafter over one axis, with all other axes fixed."""
    lined = {around: kept for around, kept in _panels(_spots(cells, key, measure)) if kept}
    if not lined:
        return None
    shown = sorted(lined, key=lambda around: (-_n_points(lined[around]), str(around)))
    told = _differing(list(lined))
    panels = tuple(
        Panel(title=_panel_title(around, told), series=lined[around][:MOST_LINES])
        for around in sorted(shown[:MOST_PANELS])
    )
    title = _TITLES.get(key, key)
    return Lines(
        slug=f"{what}-by-{key}",
        title=f"{what.capitalize()} by {title}",
        x_label=title,
        is_share=what == "acceptance",
        panels=panels,
        n_left_out=sum(map(len, lined.values())) - sum(len(panel.series) for panel in panels),
    )


def _spots(cells: Sequence[CellSummary], key: str, measure: _Measure) -> list[_Spot]:
    places = [(one, coordinates(one.cell)) for one in cells]
    places = [(one, place) for one, place in places if isinstance(place.get(key), int | float)]
    shared = set.intersection(*(set(place) for _one, place in places)) if places else set()
    found = []
    for one, place in places:
        x, drafter = place.pop(key), str(place.pop("drafter"))
        point = measure(one, float(x))
        rest = sorted(place.items())
        if point is not None:
            found.append(
                _Spot(
                    drafter=drafter,
                    panel=tuple(item for item in rest if item[0] in shared),
                    own=tuple(item for item in rest if item[0] not in shared),
                    point=point,
                )
            )
    return found


def _panels(spots: Sequence[_Spot]) -> Iterator[tuple[_Around, tuple[Series, ...]]]:
    """Lines of each panel, with at least two points each."""
    variants: dict[str, dict[_Around, None]] = {}
    groups: dict[_Around, dict[str, list[Point]]] = {}
    for spot in spots:
        variants.setdefault(spot.drafter, {})[spot.own] = None
    told = {drafter: _differing(list(found)) for drafter, found in variants.items()}
    for spot in spots:
        own = _panel_title(spot.own, told[spot.drafter])
        label = f"{spot.drafter}: {own}" if own else spot.drafter
        groups.setdefault(spot.panel, {}).setdefault(label, []).append(spot.point)
    for panel, series in groups.items():
        yield panel, _curves(series)


def _n_points(series: Sequence[Series]) -> int:
    return sum(len(one.points) for one in series)


def _curves(series: dict[str, list[Point]]) -> tuple[Series, ...]:
    """Lines with at least two points."""
    return tuple(
        Series(label=label, points=tuple(sorted(points, key=lambda point: point.x)))
        for label, points in sorted(series.items())
        if len({point.x for point in points}) > 1
    )


def _differing(rests: Sequence[_Around]) -> set[str]:
    """Axes along which panels, or the variants of a drafter, differ."""
    sets = [set(rest) for rest in rests]
    common = set.intersection(*sets)
    return {name for rest in sets for name, _value in rest - common}


def _panel_title(rest: _Around, told: set[str]) -> str:
    parts = (
        f"{name} {value:g}" if isinstance(value, int | float) else str(value)
        for name, value in rest
        if name in told
    )
    return ", ".join(parts)


def _by_drafter(cells: Sequence[CellSummary]) -> Bars | None:
    told = telling(cells)
    bars = [
        Bar(label=_with_drafter(drafter, told(one)), value=_point(0.0, one.speedup))
        for drafter, one in best_per_drafter(cells).items()
        if one.speedup is not None
    ]
    if len(bars) < 2:  # noqa: PLR2004 - one bar compares with nothing
        return None
    return Bars(slug="speedup-by-draft", title="Best cell of each drafter", bars=tuple(bars))


def _with_drafter(drafter: str, name: str) -> str:
    return name if name.startswith(drafter) else f"{drafter}: {name}"


def _by_category(cells: Sequence[CellSummary]) -> Chart | None:
    """Curves over ``draft_max`` where there are any, else bars of the fastest cell."""
    panels: dict[str, list[Series]] = {}
    found = flattenings(cells)
    tasks = {one.task for one in found}
    for one in found:
        if one.category is not None:
            points = tuple(Point(x=float(x), y=y) for x, y in one.by_length.items())
            around = f"{one.drafter}, {one.task.text}" if len(tasks) > 1 else one.drafter
            panels.setdefault(around, []).append(Series(label=one.category, points=points))
    if panels and all(len(series) > 1 for series in panels.values()):
        shown = [
            Panel(title=drafter if len(panels) > 1 else "", series=tuple(series))
            for drafter, series in panels.items()
        ]
        return Lines(
            slug="speedup-by-category",
            title="Speedup by draft_max, for each category of prompts",
            x_label=_TITLES["draft-max"],
            is_share=False,
            panels=tuple(shown[:MOST_PANELS]),
            n_left_out=sum(len(panel.series) for panel in shown[MOST_PANELS:]),
        )
    return _best_by_category(cells)


def _best_by_category(cells: Sequence[CellSummary]) -> Bars | None:
    if not cells or len(cells[0].categories) < 2:  # noqa: PLR2004 - as above
        return None
    return Bars(
        slug="speedup-by-category",
        title=f"{cells[0].named.name}, by category of prompts",
        bars=tuple(_category_bars(cells[0])),
    )


def _category_bars(one: CellSummary) -> Iterator[Bar]:
    for category, runs in sorted(one.categories.items()):
        speedup = speedup_of(runs)
        if speedup is not None:
            yield Bar(label=category, value=_point(0.0, speedup))
