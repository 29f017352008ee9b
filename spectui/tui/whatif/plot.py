"""The what-if plot: a curve over ``draft_max`` with marks on it, in braille or in ASCII."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, log10
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.widgets import Static
from textual_plot import AxisFormatter, HiResMode, NumericAxisFormatter, PlotWidget

from spectui.live.whatif import Line, Measured, Source
from spectui.options.drafters import Model
from spectui.trace.replay import Total
from spectui.tui.glyphs import ASCII, Glyphs, glyphs_of

_NICE = (1, 2, 5)
"""Ticks are these apart, times a power of ten."""
_MOST_TICKS = 8
_FAR = 4
"""Rows between ticks that are no reason for coarser rows; it takes more where there are many."""
_LEAST_SPAN = 0.01
"""Share of the largest value: smaller differences are drawn as flat as they are."""
_ASCII_CURVE = "*"
_LABELS = len("000.0 |")
_MEASURED_ON = ": answers that ran so"
_CURVE_ON = ", all answers"
"""A point of the chat and the curve are of different answers: said where there is room."""
_FRAME = 2
"""Rows above and below what is plotted."""
_SIDE = 0.5
"""Between the first and the last length and the frame, in lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values over rows of characters, counted from below."""

    low: float
    """At the lower edge of the lowest row."""
    high: float
    """At the upper edge of the highest row."""
    n_rows: int
    ticks: tuple[tuple[float, str], ...]
    """(value, label), from below."""

    def row(self, value: float) -> int:
        """Return the row that ``value`` stands in."""
        share = (value - self.low) / (self.high - self.low)
        return min(max(floor(share * self.n_rows), 0), self.n_rows - 1)


@dataclass(frozen=True, slots=True, order=True)
class _Step:
    """Value of a row; the least that fits is the best, with as many ticks as there can be."""

    value: float
    rows_per_tick: int
    nice: int
    power: int

    def first(self, low: float) -> int:
        """Return the row of ``low`` if 0 is in the middle of row 0."""
        return floor(low / self.value + 0.5)

    def fits(self, low: float, high: float, n_rows: int) -> bool:
        """Whether ``n_rows`` hold both values."""
        return self.first(high) < self.first(low) + n_rows

    def tick(self, row: int) -> tuple[float, str] | None:
        """Return the tick of a row, if it has one."""
        n, between = divmod(row, self.rows_per_tick)
        if between:
            return None
        # A division by a power of ten is exact to the last digit; a product with 0.1 is not.
        value = (
            n * self.nice / 10**-self.power if self.power < 0 else n * self.nice * 10**self.power
        )
        return float(value), f"{value:.{max(0, -self.power)}f}"


def axis(low: float, high: float, n_rows: int) -> Axis:
    """Return a scale of ``n_rows`` rows on which ``low`` to ``high`` have room."""
    n_rows = max(1, n_rows)
    room = max(0.0, (_LEAST_SPAN * abs(high) or 1.0) - (high - low)) / 2
    low, high = low - room, high + room
    step = min(one for one in _steps(high - low, n_rows) if one.fits(low, high, n_rows))
    first = step.first(low)
    # What is left over goes below and above alike, but not below zero.
    spare = first + n_rows - 1 - step.first(high)
    first = max(first - spare // 2, min(first, 0))
    bottom = (first - 0.5) * step.value
    ticks = (step.tick(row) for row in range(first, first + n_rows))
    return Axis(
        low=bottom,
        high=bottom + n_rows * step.value,
        n_rows=n_rows,
        ticks=tuple(tick for tick in ticks if tick is not None),
    )


def _steps(span: float, n_rows: int) -> list[_Step]:
    fewest = ceil(n_rows / _MOST_TICKS)
    # Two ticks have room in any case.
    most = max(fewest, min(n_rows // 2, max(_FAR, n_rows // 3)))
    powers = range(floor(log10(span / n_rows)), floor(log10(span)) + 3)
    return [
        _Step(nice * 10.0**power / per_tick, per_tick, nice, power)
        for power in powers
        for nice in _NICE
        for per_tick in range(fewest, most + 1)
    ]


class Mark(Enum):
    """Kinds of marks, those drawn later above those drawn earlier."""

    OTHER = "other line"
    """Measured with other numbers beside ``draft_max``."""
    TRIAL = "trial"
    """Trial of a search, on its own prompts."""
    CHAT = "measured"
    """In this chat."""
    BEST = "best"
    """Predicted best of all settings, whatever its other numbers are."""
    SHOWN = "shown"
    """The setting that is looked at."""


_PARTS = {Mark.BEST: "best", Mark.SHOWN: "shown"}
_UNICODE_MARKS = {Mark.OTHER: "·", Mark.TRIAL: "×", Mark.CHAT: "■", Mark.BEST: "●", Mark.SHOWN: "◆"}
_ASCII_MARKS = {Mark.OTHER: ".", Mark.TRIAL: "x", Mark.CHAT: "o", Mark.BEST: "@", Mark.SHOWN: "#"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of settings."""

    name: str
    """Name of its values, with their unit."""
    values: tuple[float, ...]
    """Values by ``draft_max``, from 1 on."""
    shown: int
    """The ``draft_max`` that is looked at."""
    off: float | None
    """The target alone."""
    points: tuple[tuple[Mark, int, float], ...]
    """(kind, ``draft_max``, value) of what was measured and the best, in the order of drawing."""

    def axis(self, n_rows: int) -> Axis:
        """Return a scale of ``n_rows`` rows for everything that is drawn."""
        values = [*self.values, *(value for _, _, value in self.points)]
        values += [] if self.off is None else [self.off]
        return axis(min(values), max(values), n_rows)


def curve(
    line: Line, shown: Model, measured: Sequence[Measured], best: Total | None = None
) -> Curve:
    """Return throughput over ``draft_max``; without costs, the mean accepted length.

    Args:
        line: settings that differ in ``draft_max``.
        shown: the one that is looked at.
        measured: what was measured.
        best: the best predicted of all settings, on this line or not.
    """
    speeds = [total.tokens_per_s for total in line]
    if any(speed is None for speed in speeds):
        return Curve(
            name="tokens/round",
            values=tuple(total.tokens_per_round or 1.0 for total in line),
            shown=shown.draft_max,
            off=None,
            points=(),
        )
    points = [
        (_kind(one, shown), one.setting.draft_max, one.tokens_per_s)
        for one in measured
        if one.setting.draft_max <= len(line)
    ]
    if best is not None and best.tokens_per_s is not None:
        points.append((Mark.BEST, best.model.draft_max, best.tokens_per_s))
    order, off = list(Mark), line[0]
    return Curve(
        name="tokens/s",
        values=tuple(speed or 0.0 for speed in speeds),
        shown=shown.draft_max,
        off=off.n_decoded / off.off_s if off.off_s else None,
        points=tuple(sorted(points, key=lambda point: order.index(point[0]))),
    )


def _kind(measured: Measured, shown: Model) -> Mark:
    if measured.setting.beside_length != shown.beside_length:
        return Mark.OTHER
    return Mark.CHAT if measured.source is Source.CHAT else Mark.TRIAL


def mark(kind: Mark, glyphs: Glyphs) -> str:
    """Return the character of a kind of marks."""
    return (_ASCII_MARKS if glyphs is ASCII else _UNICODE_MARKS)[kind]


def legend(drawn: Curve, glyphs: Glyphs, width: int) -> str:
    """Return the legend of the present marks, in as many words as ``width`` has room for."""
    by = " by draft_max"
    forms = [_legend(drawn, glyphs, by=by), _legend(drawn, glyphs)]
    if Mark.CHAT in (kind for kind, _, _ in drawn.points):
        forms = [
            _legend(drawn, glyphs, by=by + _CURVE_ON, measured_on=_MEASURED_ON),
            _legend(drawn, glyphs, by=by, measured_on=_MEASURED_ON),
            *forms,
        ]
    return next((words for words in forms if len(words) <= width), forms[-1])


def _legend(drawn: Curve, glyphs: Glyphs, *, by: str = "", measured_on: str = "") -> str:
    present = {Mark.SHOWN, *(kind for kind, _, _ in drawn.points)}
    kinds = [kind for kind in reversed(Mark) if kind in present]
    notes = {Mark.CHAT: measured_on}
    parts = [f"{mark(kind, glyphs)} {kind.value}{notes.get(kind, '')}" for kind in kinds]
    line = "-" if glyphs is ASCII else "─"
    parts += [] if drawn.off is None else [f"{line} off {drawn.off:.1f}"]
    return "  ".join([f"{drawn.name}{by}:", *parts])


def ascii_chart(drawn: Curve, width: int, height: int) -> list[str]:
    """Return ``height`` lines: the values as stars, the off level as dashes, and the axis."""
    room, n_values = max(1, width - _LABELS), len(drawn.values)
    per_value = max(1, room // n_values)
    scale = drawn.axis(max(2, height - 1))
    rows = [[" "] * (per_value * n_values) for _ in range(scale.n_rows)]
    if drawn.off is not None:
        rows[scale.row(drawn.off)] = ["-"] * (per_value * n_values)
    at_shown = drawn.values[drawn.shown - 1]
    for x, y, sign in (
        *((x, y, _ASCII_CURVE) for x, y in enumerate(drawn.values, start=1)),
        *((x, y, mark(kind, ASCII)) for kind, x, y in drawn.points if kind is Mark.BEST),
        (drawn.shown, at_shown, mark(Mark.SHOWN, ASCII)),
        *((x, y, mark(kind, ASCII)) for kind, x, y in drawn.points if kind is not Mark.BEST),
    ):
        rows[scale.row(y)][(x - 1) * per_value + per_value // 2] = sign
    labels = {scale.row(value): label for value, label in scale.ticks}
    lines = [
        f"{labels.get(index, ''):>{_LABELS - 2}} |" + "".join(row) for index, row in enumerate(rows)
    ]
    return [*reversed(lines), " " * _LABELS + _lengths(n_values, per_value)]


def _lengths(n_values: int, per_value: int) -> str:
    """Return the numbers under the columns: every one, or every other, or fourth, with room."""
    step = 1
    while step * per_value <= len(str(n_values)):
        step *= 2
    line = ""
    for x in range(1, n_values + 1, step):
        start = (x - 1) * per_value + per_value // 2 - (len(str(x)) - 1) // 2
        line = line.ljust(start) + str(x)
    return line


class WhatIfPlot(Vertical):
    """A curve over ``draft_max`` with the setting that is looked at, and what was measured."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "whatif--curve",
        "whatif--off",
        "whatif--shown",
        "whatif--measured",
        "whatif--best",
    }
    DEFAULT_CSS = """
    WhatIfPlot {
        height: 1fr;
        & > .whatif--curve { color: $primary; }
        & > .whatif--off { color: $text-muted; }
        & > .whatif--shown { color: $foreground; }
        & > .whatif--measured { color: $foreground; }
        & > .whatif--best { color: $gain; text-style: bold; }
        #unit { height: 1; color: $text-muted; }
        PlotWidget { height: 1fr; }
        PlotWidget > .plot--axis { color: $text-muted; }
        PlotWidget > .plot--tick { color: $text-muted; text-style: none; }
        #chart { height: 1fr; }
        #legend { height: auto; color: $text-muted; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        """Start with an empty plot."""
        super().__init__()
        self._curve: Curve | None = None

    def compose(self) -> ComposeResult:
        """The plot, or what stands for it in ASCII, and what the marks mean."""
        plot = PlotWidget(allow_pan_and_zoom=False)
        plot.can_focus = False
        yield Static(id="unit", markup=False)
        yield plot
        yield Static(id="chart", markup=False)
        yield Static(id="legend", markup=False)

    def on_mount(self) -> None:
        """Draw, and again when the theme changes: the plot keeps colours, not their names."""
        plot, is_ascii = self.query_one(PlotWidget), glyphs_of(self) is ASCII
        plot.margin_top, plot.margin_bottom, plot.margin_left = 0, 1, 8
        plot.set_x_formatter(_Lengths())
        # The plot is made of box drawing and braille characters.
        plot.display = not is_ascii
        self.query_one("#chart").display = is_ascii
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._draw())

    def on_unmount(self) -> None:
        """Let go of the app, which would keep the plot for the next theme."""
        self.app.theme_changed_signal.unsubscribe(self)

    def on_resize(self, _event: Resize) -> None:
        """Fit the chart."""
        self.call_after_refresh(self._draw)

    def show(self, drawn: Curve) -> None:
        """Show a curve."""
        if drawn != self._curve:
            self._curve = drawn
            self._draw()

    def _draw(self) -> None:
        drawn, glyphs = self._curve, glyphs_of(self)
        if drawn is None:
            return
        if glyphs is ASCII:
            chart = self.query_one("#chart", Static)
            lines = ascii_chart(drawn, chart.size.width, chart.size.height)
            chart.update(Text("\n".join(lines), no_wrap=True))
        else:
            self._plot(self.query_one(PlotWidget), drawn)
        # Where the numbers of the axis end.
        self.query_one("#unit", Static).update(drawn.name.rjust(_LABELS))
        words = self.query_one("#legend", Static)
        words.update(legend(drawn, glyphs, words.content_size.width))

    def _plot(self, plot: PlotWidget, drawn: Curve) -> None:
        glyphs, last = glyphs_of(self), len(drawn.values)
        scale = drawn.axis(plot.size.height - plot.margin_bottom - _FRAME)
        plot.clear()
        # What lies on the last column is not drawn.
        plot.set_xlimits(1 - _SIDE, last + _SIDE)
        plot.set_ylimits(scale.low, scale.high)
        plot.set_y_formatter(_Ticks(scale))
        if drawn.off is not None:
            plot.plot((1, last), (drawn.off, drawn.off), self._color("off"), HiResMode.BRAILLE)
        lengths = range(1, last + 1)
        plot.plot([*lengths], [*drawn.values], self._color("curve"), HiResMode.BRAILLE)
        at_shown = drawn.values[drawn.shown - 1]
        best = [point for point in drawn.points if point[0] is Mark.BEST]
        measured = [point for point in drawn.points if point[0] is not Mark.BEST]
        for kind, x, y in (*best, (Mark.SHOWN, drawn.shown, at_shown), *measured):
            plot.scatter((x,), (y,), mark(kind, glyphs), self._color(_PARTS.get(kind, "measured")))

    def _color(self, part: str) -> str:
        return str(self.get_component_rich_style(f"whatif--{part}"))


class _Lengths(NumericAxisFormatter):
    """There is no draft of 1.5 tokens."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Return every length, or every other one, or fourth, where there are many."""
        step = 1
        while (max_ - min_) / step > max_ticks:
            step *= 2
        return [float(x) for x in range(ceil(min_), floor(max_) + 1, step)]


class _Ticks(AxisFormatter):
    """Formatter for the ticks of a scale."""

    def __init__(self, scale: Axis) -> None:
        self._labels = dict(scale.ticks)

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Return all of them: there are only as many as have room."""
        del min_, max_, max_ticks
        return list(self._labels)

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Return theirs."""
        return [self._labels[tick] for tick in ticks]
