"""Draws the speedup of each cell. The only importer of matplotlib, whose state is left alone.

Text stays text. The background is opaque, for viewers that are dark.
"""

import math
from collections.abc import Sequence
from io import BytesIO
from textwrap import fill
from typing import Any

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectui.format import printable
from spectui.measure.speedup import Speedup
from spectui.sweep.summary import CellSummary, full_names, ranked

MOST_BARS = 40
_BAR, _INK, _PAPER = "#0072B2", "#222222", "#FFFFFF"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    # Names may hold dollars.
    "text.parse_math": False,
    "svg.hashsalt": "spectui",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10.0,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_WIDTH_INCHES = 7.2
_LETTERS = 36
"""Letters of a line of a cell's name, to leave the bars enough room."""


def draw(summaries: Sequence[CellSummary]) -> bytes | None:
    """Draw the speedups with their intervals as an SVG, the fastest first.

    Returns:
        The file; None where no cell has a speedup.
    """
    name_of = full_names(summaries)
    bars = [(name_of(one), one.speedup) for one in ranked(summaries) if one.speedup is not None]
    if not bars:
        return None
    # A matplotlibrc of the user's own is for the user's own plots.
    with rc_context():
        rcdefaults()
        rcParams.update(_STYLE)
        figure = _figure(
            [_wrapped(name) for name, _speedup in bars[:MOST_BARS]],
            [speedup.capped for _name, speedup in bars[:MOST_BARS]],
            n_left_out=max(0, len(bars) - MOST_BARS),
        )
        page = BytesIO()
        # Without a date, equal plots are equal files.
        figure.savefig(page, format="svg", metadata={"Date": None})
    return page.getvalue()


def _wrapped(name: str) -> str:
    """A name, which may be a file's, in what fonts and XML have; wrapped without any cut."""
    return fill(printable(name), _LETTERS, break_on_hyphens=False)


def _figure(names: Sequence[str], speedups: Sequence[Speedup], *, n_left_out: int) -> Figure:
    n_lines = max(name.count("\n") + 1 for name in names)
    size = (_WIDTH_INCHES, 1.3 + max(0.42, 0.2 * n_lines) * len(names))
    figure = Figure(figsize=size, facecolor=_PAPER, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(_PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    heights = list(range(len(names)))[::-1]
    axes.barh(heights, [one.estimate - 1 for one in speedups], left=1, height=0.6, color=_BAR)
    axes.errorbar(
        [one.estimate for one in speedups],
        heights,
        xerr=[
            [_length(one.estimate, one.low) for one in speedups],
            [_length(one.high, one.estimate) for one in speedups],
        ],
        fmt="none",
        ecolor=_INK,
        elinewidth=1.1,
        capsize=3,
    )
    axes.set_yticks(heights, names)
    axes.tick_params(axis="y", length=0)
    axes.axvline(1, color=_INK, linewidth=0.9)
    # The numbers beside the bars take room as well.
    axes.margins(x=0.2)
    for height, speedup in zip(heights, speedups, strict=True):
        _write_value(axes, height, speedup)
    left_out = f"; {n_left_out} more in summary.csv" if n_left_out else ""
    axes.set_xlabel(f"speedup (off = 1){left_out}")
    return figure


def _length(upper: float | None, lower: float | None) -> float:
    """Length of one side of an interval; nan where there is none."""
    return math.nan if upper is None or lower is None else max(0.0, upper - lower)


def _write_value(axes: Axes, height: int, speedup: Speedup) -> None:
    is_gain = speedup.estimate >= 1
    ends = [end for end in (speedup.estimate, speedup.low, speedup.high) if end is not None]
    axes.annotate(
        f"{speedup.estimate:.2f}",
        xy=(max(*ends, 1.0) if is_gain else min(*ends, 1.0), height),
        xytext=(5 if is_gain else -5, 0),
        textcoords="offset points",
        ha="left" if is_gain else "right",
        va="center",
    )
