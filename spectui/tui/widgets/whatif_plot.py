"""The what-if plot."""

from collections.abc import Sequence
from math import ceil, floor
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.widgets import Static
from textual_plot import AxisFormatter, HiResMode, NumericAxisFormatter, PlotWidget

from spectui.tui.glyphs import ASCII, glyphs_of
from spectui.tui.widgets.whatif_axis import Axis
from spectui.tui.widgets.whatif_curve import Curve, Mark, ascii_chart, legend, mark

_FRAME = 2
"""Rows above and below what is plotted."""
_SIDE = 0.5
"""Between the first and the last length and the frame, in lengths."""


class WhatIfPlot(Vertical):
    """A curve over ``draft_max`` with the setting that is looked at, and what was measured."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "whatif--curve",
        "whatif--off",
        "whatif--shown",
        "whatif--measured",
    }
    DEFAULT_CSS = """
    WhatIfPlot {
        height: 1fr;
        & > .whatif--curve { color: $text-primary; }
        & > .whatif--off { color: $text-muted; }
        & > .whatif--shown { color: $text-accent; }
        & > .whatif--measured { color: $text-success; }
        PlotWidget { height: 1fr; }
        PlotWidget > .plot--axis { color: $text-muted; }
        PlotWidget > .plot--tick { color: $text-muted; text-style: none; }
        #chart { height: 1fr; }
        #legend { height: auto; color: $text-muted; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        """Nothing is drawn yet."""
        super().__init__()
        self._curve: Curve | None = None

    def compose(self) -> ComposeResult:
        """The plot, or what stands for it in ASCII, and what the marks mean."""
        plot = PlotWidget(allow_pan_and_zoom=False)
        plot.can_focus = False
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
        sign = mark(Mark.SHOWN, glyphs)
        plot.scatter((drawn.shown,), (at_shown,), sign, self._color("shown"))
        for kind, x, y in drawn.points:
            plot.scatter((x,), (y,), mark(kind, glyphs), self._color("measured"))

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
    """Those of a scale."""

    def __init__(self, scale: Axis) -> None:
        self._labels = dict(scale.ticks)

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Return all of them: there are only as many as have room."""
        del min_, max_, max_ticks
        return list(self._labels)

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Return theirs."""
        return [self._labels[tick] for tick in ticks]
