"""Draws plots. The only importer of matplotlib, whose global state is left alone.

Text stays text. The colours are Okabe and Ito's, told apart by people who see few of them, and
every line has a mark of its own as well. The background is opaque, for viewers that are dark.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from textwrap import fill
from typing import Any, Literal

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from spectui.format import printable
from spectui.sweep.charts import Chart, Panel, Point

Kind = Literal["svg", "png"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_INK, _PALE, _PAPER = "#222222", "#D9D9D9", "#FFFFFF"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    # Names may hold dollars.
    "text.parse_math": False,
    "svg.hashsalt": "spectui",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_PANEL_INCHES = (3.6, 3.3)
_WIDE_INCHES = (7.2, 4.2)
_LABEL_INCHES = 3.0
"""Maximum width for the names of bars, to leave the bars enough room."""
_PER_INCH, _TITLE_PER_INCH = 12.0, 8.5
"""Letters per inch of plain text, and of a title, which is larger and bold."""
_COLUMNS = 3
_FOUR, _FOUR_IN_A_ROW = 4, 2
"""Four panels look better in two rows of two."""
_WIDE_RANGE = 10
"""Ratio of largest to smallest value from which the axis is logarithmic."""
_PNG_DPI = 160


def draw(chart: Chart, kind: Kind) -> bytes:
    """Draw ``chart`` as a file."""
    # A matplotlibrc of the user's own is for the user's own plots.
    with rc_context():
        rcdefaults()
        rcParams.update(_STYLE)
        chart = _printable(chart)
        figure = _bars(chart) if chart.x_label is None else _lines(chart)
        page = BytesIO()
        # Without a date, equal plots are equal files.
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(page, format=kind, dpi=_PNG_DPI, metadata=metadata)
    return page.getvalue()


def _printable(chart: Chart) -> Chart:
    """The chart, whose names may be those of files, in what fonts and XML have."""
    panels = tuple(
        (printable(title), {printable(label): points for label, points in lines.items()})
        for title, lines in chart.panels
    )
    return replace(chart, title=printable(chart.title), panels=panels)


def _wrapped(text: str, inches: float, per_inch: float) -> str:
    """Text wrapped into lines that fit, without any cut."""
    return fill(text, max(1, int(inches * per_inch)), break_on_hyphens=False)


def _figure(width: float, height: float, title: str) -> Figure:
    figure = Figure(figsize=(width, height), facecolor=_PAPER, layout="constrained")
    title = _wrapped(title, width, _TITLE_PER_INCH)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    return figure


def _lines(chart: Chart) -> Figure:
    n_panels = len(chart.panels)
    columns = _FOUR_IN_A_ROW if n_panels == _FOUR else min(n_panels, _COLUMNS)
    rows = math.ceil(n_panels / columns)
    width, height = _PANEL_INCHES if n_panels > 1 else _WIDE_INCHES
    figure = _figure(width * columns, height * rows + 0.5 * (n_panels > 1), chart.title)
    found = figure.subplots(rows, columns, sharey=True, squeeze=False)
    styles = _styles(chart.panels)
    places: list[Axes] = list(found.flat)
    for axes, panel in zip(places, chart.panels, strict=False):
        _panel(axes, panel, chart, styles)
    for axes in places[n_panels:]:
        axes.set_visible(False)
    for row in found:
        row[0].set_ylabel("accepted of drafted" if chart.is_share else "speedup (off = 1)")
    left_out = f"{chart.n_left_out} more in results.csv" if chart.n_left_out else ""
    if n_panels > 1:
        _legend(figure, places[:n_panels], left_out)
    else:
        _labels(places[0], chart.panels[0][1], styles)
        figure.supxlabel(left_out, fontsize=9)
    return figure


def _styles(panels: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """Colour and mark of every line, the same in all panels."""
    labels = dict.fromkeys(label for _title, lines in panels for label in lines)
    return {
        label: (_COLOURS[index % len(_COLOURS)], _MARKS[index % len(_MARKS)])
        for index, label in enumerate(labels)
    }


def _panel(axes: Axes, panel: Panel, chart: Chart, styles: dict[str, tuple[str, str]]) -> None:
    title, lines = panel
    _prepare(axes, _wrapped(title, _PANEL_INCHES[0] - 0.7, _PER_INCH))
    values = sorted({point.x for points in lines.values() for point in points})
    is_wide = values[0] > 0 and values[-1] / values[0] >= _WIDE_RANGE
    if is_wide:
        axes.set_xscale("log", base=2)
    for index, (label, points) in enumerate(lines.items()):
        # Intervals that stand on one another cannot be read.
        errors = _errors(points)
        shift = 0.0 if errors is None else (index - (len(lines) - 1) / 2) * 0.012
        colour, mark = styles[label]
        xs = [_shifted(point.x, shift, values, is_wide=is_wide) for point in points]
        axes.errorbar(
            xs,
            [point.y for point in points],
            yerr=errors,
            color=colour,
            marker=mark,
            markersize=5,
            linewidth=1.6,
            elinewidth=1.1,
            capsize=3,
            label=label,
        )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(chart.x_label or "")
    if chart.is_share:
        axes.set_ylim(0, 1.02)
    else:
        axes.axhline(1, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)


def _shifted(x: float, shift: float, values: Sequence[float], *, is_wide: bool) -> float:
    if is_wide:
        return float(x * (values[-1] / values[0]) ** shift)
    return x + shift * (values[-1] - values[0])


def _errors(points: Sequence[Point]) -> list[list[float]] | None:
    """Lengths of error bars down and up; None if no interval is known."""
    down = [math.nan if one.low is None else max(0.0, one.y - one.low) for one in points]
    up = [math.nan if one.high is None else max(0.0, one.high - one.y) for one in points]
    return None if all(map(math.isnan, down)) else [down, up]


def _prepare(axes: Axes, title: str) -> None:
    axes.set_facecolor(_PAPER)
    axes.grid(axis="both", color=_PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(figure: Figure, places: Sequence[Axes], note: str) -> None:
    handles: dict[str, Artist] = {}
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=_columns(figure, handles),
        frameon=False,
        title=note or None,
        title_fontsize=9,
    )


def _columns(figure: Figure, labels: Iterable[str]) -> int:
    """Number of legend columns that fit, marks included."""
    letters = figure.get_figwidth() * _PER_INCH
    names = list(labels)
    return max(1, min(4, len(names), int(letters / (max(map(len, names)) + 8))))


_LABEL_GAP = 0.058
"""Height of a line of text, as a share of a plot's height."""


def _labels(
    axes: Axes, lines: Mapping[str, Sequence[Point]], styles: dict[str, tuple[str, str]]
) -> None:
    """Write each line's name at its end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ends = {label: (points[-1].y - low) / (high - low) for label, points in lines.items()}
    for label, y in _apart(ends).items():
        axes.annotate(
            label,
            xy=(1.0, y),
            xytext=(6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=styles[label][0],
            va="center",
            annotation_clip=False,
        )


def _apart(wanted: dict[str, float]) -> dict[str, float]:
    """Heights as close to the wanted ones as labels allow without overlap, in their order."""
    order = sorted(wanted, key=lambda label: wanted[label])
    placed: dict[str, float] = {}
    floor = 0.0
    for label in order:
        placed[label] = floor = max(wanted[label], floor)
        floor += _LABEL_GAP
    ceiling = 1.0
    for label in reversed(order):
        placed[label] = min(placed[label], ceiling)
        ceiling = placed[label] - _LABEL_GAP
    return placed


def _bars(chart: Chart) -> Figure:
    bars = chart.panels[0][1]
    n_bars = len(bars)
    labels = [_wrapped(label, _LABEL_INCHES, _PER_INCH) for label in bars]
    n_lines = max(label.count("\n") + 1 for label in labels)
    per_bar = max(0.42, 0.2 * n_lines)
    figure = _figure(_WIDE_INCHES[0], 1.3 + per_bar * n_bars, chart.title)
    axes = figure.subplots()
    _prepare(axes, "")
    axes.grid(visible=False, axis="y")
    heights = list(range(n_bars))[::-1]
    values = [value for (value,) in bars.values()]
    axes.barh(heights, [value.y - 1 for value in values], left=1, height=0.6, color=_COLOURS[0])
    axes.errorbar(
        [value.y for value in values],
        heights,
        xerr=_errors(values),
        fmt="none",
        ecolor=_INK,
        elinewidth=1.1,
        capsize=3,
    )
    axes.set_yticks(heights, labels)
    axes.tick_params(axis="y", length=0)
    axes.axvline(1, color=_INK, linewidth=0.9)
    # The numbers beside the bars take room as well.
    axes.margins(x=0.2)
    for height, value in zip(heights, values, strict=True):
        _write_value(axes, height, value)
    axes.set_xlabel("speedup (off = 1)")
    return figure


def _write_value(axes: Axes, height: int, value: Point) -> None:
    is_gain = value.y >= 1
    ends = [end for end in (value.y, value.low, value.high) if end is not None]
    axes.annotate(
        f"{value.y:.2f}",
        xy=(max(*ends, 1.0) if is_gain else min(*ends, 1.0), height),
        xytext=(5 if is_gain else -5, 0),
        textcoords="offset points",
        ha="left" if is_gain else "right",
        va="center",
    )
