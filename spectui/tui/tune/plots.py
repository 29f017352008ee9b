"""Plots of a search: speedups over trials, and the importance of each parameter."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static
from textual_plot import HiResMode, NumericAxisFormatter, PlotWidget

from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.tune.ledger import Ledger, Row

Points = tuple[tuple[int, float], ...]
"""(trial number, speedup) pairs."""
_MAX_POINTS = 400
"""Limit of points: more cannot be told apart, and each one costs time."""
_NOTHING_YET = "No speedup yet: it takes a trial of off and one of a setting."
_SPARK_LINES = 3
_SIDE = 0.5
"""Trials' distance of the first and the last one from the frame."""
_MARGIN = 0.05
"""Room above and below the plot's points, as a share of what they span."""
_UNKNOWN = "Not known yet: it takes eight measured trials that differ."


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Points of the plot."""

    trials: Points = ()
    best: Points = ()
    """The largest speedup so far, at the trials that raised it; at the end the table's best."""


def history(ledger: Ledger, *, max_points: int) -> History:
    """Return the speedups of the measured settings; the off arm is the line at 1 and no point.

    Args:
        ledger: the trials.
        max_points: where there are more, the slowest and fastest of neighbours stand for them.
    """
    rows = [row for row in ledger.rows if row.is_measured and not row.is_off]
    if not rows or not ledger.off_level:
        return History()
    records = _records(rows)
    best = _points(records, ledger.off_level)
    # It ends at the table's best, which the race may have chosen over a faster trial.
    end = rows[-1].number, _relative(ledger.best or records[-1]) / ledger.off_level
    if best[-1] != end:
        best += (end,)
    return History(trials=_points(_thin(rows, max_points), ledger.off_level), best=best)


def _records(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that were faster than all before them."""
    found = [rows[0]]
    for row in rows:
        if _relative(row) > _relative(found[-1]):
            found.append(row)
    return found


def _thin(rows: Sequence[Row], max_points: int) -> Sequence[Row]:
    if len(rows) <= max_points:
        return rows
    size = -(-2 * len(rows) // max(2, max_points))
    groups = (rows[i : i + size] for i in range(0, len(rows), size))
    ends = {
        end for group in groups for end in (min(group, key=_relative), max(group, key=_relative))
    }
    return sorted(ends, key=lambda row: row.number)


def _points(rows: Sequence[Row], off_level: float) -> Points:
    return tuple((row.number, _relative(row) / off_level) for row in rows)


def _relative(row: Row) -> float:
    return row.relative or 0.0


class HistoryPlot(Vertical):
    """Each trial's speedup, the fastest so far, and the off arm's level at 1."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"history--trial", "history--best", "history--off"}
    DEFAULT_CSS = """
    HistoryPlot {
        & > .history--trial { color: $foreground; }
        & > .history--best { color: $gain; }
        & > .history--off { color: $text-muted; }
        PlotWidget { height: 1fr; }
        PlotWidget > .plot--axis { color: $text-muted; }
        PlotWidget > .plot--tick { color: $text-muted; text-style: none; }
        Static { height: auto; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._history = History()

    def compose(self) -> ComposeResult:
        """The plot, and the lines under it that explain it, or stand for it."""
        plot = PlotWidget(allow_pan_and_zoom=False)
        plot.can_focus = False
        yield plot
        yield Static(markup=False)

    def on_mount(self) -> None:
        """Draw, and again when the theme changes: the plot keeps colours, not their names."""
        plot = self.query_one(PlotWidget)
        plot.margin_top, plot.margin_bottom, plot.margin_left = 0, 1, 8
        plot.set_x_formatter(_Trials())
        plot.set_y_formatter(_Speedups(glyphs_of(self).times))
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._draw())
        self._draw()

    def on_unmount(self) -> None:
        """Let go of the app, which would keep the plot for the next theme."""
        self.app.theme_changed_signal.unsubscribe(self)

    def on_resize(self, _event: Resize) -> None:
        """Fit the sparks."""
        self._draw()

    def show(self, ledger: Ledger) -> None:
        """Show the trials of ``ledger``."""
        found = history(ledger, max_points=_MAX_POINTS)
        if found != self._history:
            self._history = found
            self._draw()

    def _draw(self) -> None:
        glyphs, plot = glyphs_of(self), self.query_one(PlotWidget)
        # The plot is made of box drawing and braille characters.
        plot.display = bool(self._history.trials) and not glyphs.times.isascii()
        if plot.display:
            self._plot(plot, glyphs)
            words = self._legend(glyphs)
        else:
            words = self._sparks(glyphs)
        self.query_one(Static).update(words)

    def _plot(self, plot: PlotWidget, glyphs: Glyphs) -> None:
        trials = self._history.trials
        values = [1.0, *(speedup for _, speedup in trials)]
        room = _MARGIN * (max(values) - min(values)) or _MARGIN
        first, last = trials[0][0], max(trials[-1][0], trials[0][0] + 1)
        plot.clear()
        # What lies on the last column is not drawn.
        plot.set_xlimits(first - _SIDE, last + _SIDE)
        plot.set_ylimits(min(values) - room, max(values) + room)
        plot.plot((first, last), (1, 1), self._color("off"), HiResMode.BRAILLE)
        steps, so_far = _steps(self._history.best)
        # Up to the frame, so that what the last trial raised is seen.
        plot.plot(
            [*steps, last + _SIDE], [*so_far, so_far[-1]], self._color("best"), HiResMode.BRAILLE
        )
        numbers, speedups = zip(*trials, strict=True)
        plot.scatter(numbers, speedups, glyphs.bullet, self._color("trial"))

    def _color(self, part: str) -> str:
        return str(self.get_component_rich_style(f"history--{part}"))

    def _legend(self, glyphs: Glyphs) -> Text:
        best = self._history.best[-1][1]
        return Text.assemble(
            (f"{glyphs.bullet} speedup of a trial", self._color("trial")),
            (f"   steps: fastest so far, {best:.2f}{glyphs.times}", self._color("best")),
            (f"   level: off, 1.00{glyphs.times}", self._color("off")),
        )

    def _sparks(self, glyphs: Glyphs) -> Text:
        trials, best = self._history.trials, self._history.best
        if not trials:
            return Text(_NOTHING_YET)
        values = [speedup for _, speedup in trials]
        low, high = min([1.0, *values]), max([1.0, *values])
        so_far, times = [*accumulate(values, max)], glyphs.times
        return Text("\n", no_wrap=True).join(
            [
                Text("speedup of a trial", self._color("trial")),
                Text(self._spark(values, low, high, glyphs), self._color("trial")),
                Text(f"fastest so far, {best[-1][1]:.2f}{times}", self._color("best")),
                Text(self._spark(so_far, low, high, glyphs), self._color("best")),
                Text(f"from {low:.2f}{times} to {high:.2f}{times}; off is 1.00{times}"),
            ]
        )

    def _spark(self, values: Sequence[float], low: float, high: float, glyphs: Glyphs) -> str:
        peaks = [value - low for value in _peaks(values, self.size.width)]
        return "\n".join(glyphs.spark(peaks, len(peaks), maximum=high - low, height=_SPARK_LINES))


class _Trials(NumericAxisFormatter):
    """There is no trial 1.5."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Return the ticks at whole numbers."""
        return [tick for tick in super().get_ticks(min_, max_, max_ticks) if tick.is_integer()]


class _Speedups(NumericAxisFormatter):
    """Labels with their unit."""

    def __init__(self, times: str) -> None:
        self._times = times

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Return labels such as ``1.2×``."""
        return [label + self._times for label in super().get_labels_for_ticks(ticks)]


def _peaks(values: Sequence[float], width: int) -> list[float]:
    """Return ``width`` values at most: the largest of neighbours stands for them."""
    size = -(-len(values) // max(1, width))
    return [max(values[i : i + size]) for i in range(0, len(values), size)]


def _steps(best: Points) -> tuple[list[int], list[float]]:
    """Return x and y of a staircase: a best holds until the next one."""
    numbers, speedups = [best[0][0]], [best[0][1]]
    for number, speedup in best[1:]:
        numbers += [number, number]
        speedups += [speedups[-1], speedup]
    return numbers, speedups


class ImportanceBars(Widget):
    """Share of the speedup's variance that each parameter explains."""

    DEFAULT_CSS = "ImportanceBars { height: auto; }"

    importance: reactive[tuple[tuple[str, float], ...]] = reactive((), layout=True)
    """(parameter, share) pairs, largest first."""

    def render(self) -> Text:
        """One bar per parameter."""
        if not self.importance:
            return Text(_UNKNOWN)
        glyphs = glyphs_of(self)
        names = max(len(name) for name, _ in self.importance)
        room = max(1, self.size.width - names - len("  100%"))
        return Text("\n", no_wrap=True).join(
            Text(f"{glyphs.one_line(name):<{names}} {glyphs.bar(share, room)} {share:>4.0%}")
            for name, share in self.importance
        )
