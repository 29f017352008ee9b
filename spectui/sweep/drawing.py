"""Draws the speedup of each cell as an SVG: a bar from 1 to the estimate, and its interval. Pure.

Text stays text. The background is opaque, for viewers that are dark.
"""

from collections.abc import Sequence
from textwrap import wrap
from xml.sax.saxutils import escape

from spectui.format import factor, printable
from spectui.measure.speedup import Speedup
from spectui.sweep.summary import CellSummary, full_names, ranked

MOST_BARS = 40
_WIDTH, _MARGIN = 720, 40
_LINE, _BAR, _GAP = 16, 12, 8
"""Heights in pixels: of a line of a name, of a bar, and between cells."""
_LETTERS = 95
"""Letters of a line of a cell's name."""


def draw(summaries: Sequence[CellSummary]) -> bytes | None:
    """Draw the speedups with their intervals, the fastest first.

    Returns:
        The file; None where no cell has a speedup.
    """
    name_of = full_names(summaries)
    bars = [(name_of(one), speedup.capped) for one, speedup in ranked(summaries)]
    if not bars:
        return None
    speedups = [speedup for _name, speedup in bars[:MOST_BARS]]
    ends = [1.0, *(end for one in speedups for end in (one.estimate, *(one.interval or ())))]
    per_unit = (_WIDTH - 2 * _MARGIN) / ((max(ends) - min(ends)) or 1.0)

    def across(speedup: float) -> float:
        return float(round(_MARGIN + (speedup - min(ends)) * per_unit, 1))

    parts, y = list[str](), _GAP
    for name, speedup in bars[:MOST_BARS]:
        # A name may be a file's.
        for line in wrap(printable(name), _LETTERS, break_on_hyphens=False):
            y += _LINE
            parts.append(_text(_MARGIN, y - 4, line))
        left, *edges = map(across, (1.0, speedup.estimate, *(speedup.interval or ())))
        parts += _bar(left, edges, y, speedup)
        y += _BAR + _GAP
    n_more = len(bars) - len(speedups)
    more = f"; {n_more} more in summary.csv" if n_more else ""
    parts.append(_text(_MARGIN, y + _LINE, f"speedup (off = 1){more}"))
    size = f'width="{_WIDTH}" height="{y + 2 * _LINE}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    )
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join((head, paper, *parts, "</svg>\n")).encode()


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'


def _bar(one: float, edges: Sequence[float], y: int, speedup: Speedup) -> list[str]:
    """The bar, its interval, and its number beyond both; ``edges`` are estimate, low and high."""
    estimate, middle = edges[0], y + _BAR / 2
    is_gain = estimate >= one
    beyond = max(one, *edges) + 5 if is_gain else min(one, *edges) - 5
    left, width = min(one, estimate), round(abs(estimate - one), 1)
    parts = [
        f'<rect x="{left}" y="{y}" width="{width}" height="{_BAR}" fill="#0072b2"/>',
        f'<path d="M{one} {y - 2}v{_BAR + 4}" stroke="#222"/>',
        _text(beyond, y + 10, factor(speedup.estimate), "start" if is_gain else "end"),
    ]
    if len(edges) > 1:
        low, high = edges[1:]
        whiskers = f"M{low} {y + 2}v8M{high} {y + 2}v8M{low} {middle}H{high}"
        parts.append(f'<path d="{whiskers}" stroke="#222" fill="none"/>')
    return parts
