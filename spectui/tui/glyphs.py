"""The characters that the screen is made of: Unicode, or ASCII for terminals that lack it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.command import CommandPalette, SearchIcon
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender
from textual.widget import Widget

from spectui.format import bytes_text, percent_text, printable
from spectui.tui.text.display import shown

_SPELT = str.maketrans(
    {"α": "alpha", "γ": "gamma", "×": "x", "·": "*", "–": "-", "−": "-", "…": "...", "’": "'"}
    | {"±": "+-"}
)
_PLAIN = {"…": "~", "─": "-", "━": "-", "│": "|", "┃": "|", "•": "*", "█": "#"}
_WIDE = 99.95
"""Limit from which three digits stand before the point, and none is needed after it."""
_TENTH, _TEN = 0.0995, 9.995
_SCALES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
_OTHER = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """One set, and what is written with it: numbers with their unit, bars and sparklines.

    Strings of several characters go from empty to full. What is drawn are plain strings, without
    colour; a number that is missing has a sign of its own.
    """

    levels: str
    """Levels of a history, the first one for nothing."""
    track: str
    """Background of a horizontal bar."""
    fillings: str
    """Parts of a horizontal bar's last cell, the first one empty and the last one full."""
    segments: str
    """Fillings that tell the parts of a stacked bar apart without colour."""
    accepted: str
    rejected: str
    bonus: str
    """Marks of one token in the strip of rounds."""
    reject_open: str
    reject_close: str
    """Around a rejected draft inside the text."""
    up: str
    down: str
    warning: str
    none: str
    """In place of a number that is not there."""
    bullet: str
    measured: str
    """Mark of what was measured among what was forecast."""
    ellipsis: str
    times: str
    interval: str
    """An interval: its line, its ends, the estimate, a value to compare with, and that value where
    the line crosses it."""

    @property
    def is_ascii(self) -> bool:
        """Whether the terminal has ASCII only."""
        return self.times.isascii()

    def one_line(self, text: str) -> str:
        """Return foreign text on one line, with nothing in it that a terminal would obey."""
        flat = " ".join(text.split())
        if flat.isprintable():
            return flat
        return "".join(shown(character, ascii_only=self.is_ascii) for character in flat)

    def own_line(self, text: str) -> str:
        """Return a sentence of ours that may quote others, in characters that the terminal has."""
        return self.one_line(text.translate(_SPELT) if self.is_ascii else text)

    def spelt(self, text: str) -> str:
        """Return a text of ours, which may quote a driver, in characters that the terminal has."""
        if not self.is_ascii:
            return text
        return text.translate(_SPELT).encode("ascii", "replace").decode()

    def number(self, value: float | None, digits: int = 2) -> str:
        """Write a number without a unit, such as α."""
        return self.none if value is None else f"{value:.{digits}f}"

    def percent(self, value: float | None) -> str:
        """Write a share, such as ``78 %``."""
        decimals = int(value is not None and value < _TENTH)
        return self.spelt(percent_text(value, decimals))

    def per_s(self, value: float) -> str:
        """Write a throughput at a chart, such as ``18.4/s``."""
        return f"{self._short(value)}/s"

    def tokens_per_s(self, value: float | None) -> str:
        """Write a throughput, such as ``18.4 tokens/s``."""
        return f"{self._short(value)} tokens/s"

    def speedup(self, value: float | None) -> str:
        """Write a factor, such as ``1.62×``."""
        return f"{self.number(value)}{self.times}"

    def duration(self, seconds: float | None) -> str:
        """Write a duration, such as ``61.2 ms`` or ``1.84 s``."""
        if seconds is not None and seconds >= 1:
            return f"{seconds:.{1 if seconds >= _TEN else 2}f} s"
        return f"{self._short(None if seconds is None else seconds * 1e3)} ms"

    def size(self, n_bytes: float | None) -> str:
        """Write a size, such as ``18.6 GB``."""
        return f"{self.none} GB" if n_bytes is None else bytes_text(round(n_bytes))

    def rate(self, bytes_per_s: float | None) -> str:
        """Write bytes per second, such as ``41.2 GB/s``."""
        return f"{self.size(bytes_per_s)}/s"

    def clock(self, hz: float) -> str:
        """Write a clock, such as ``2.52 GHz``."""
        return f"{hz / 1e9:.2f} GHz"

    def used_of(self, part_bytes: float | None, whole_bytes: float | None) -> str:
        """Write a part of a whole in the whole's unit, such as ``21.7 / 25.8 GB``."""
        whole = self.size(whole_bytes)
        if part_bytes is None or whole_bytes is None:
            return f"{self.none} / {whole}"
        return f"{part_bytes / _SCALES[whole.split()[1]]:.1f} / {whole}"

    def _short(self, value: float | None) -> str:
        return self.number(value, digits=0 if value is not None and value >= _WIDE else 1)

    def bar(self, fraction: float, width: int) -> str:
        """Return a bar that fills ``fraction`` of ``width`` characters."""
        steps = len(self.fillings) - 1
        full, rest = divmod(round(_share(fraction, 1.0) * width * steps), steps)
        parts = self.fillings[-1] * full + (self.fillings[rest] if rest else "")
        return parts.ljust(width, self.track)

    def spark(
        self,
        values: Sequence[float | None],
        width: int,
        *,
        maximum: float | None = None,
        height: int = 1,
    ) -> list[str]:
        """Return ``height`` lines of ``width`` characters, the last sample at the right.

        Args:
            values: samples, oldest first; where one is None, a gap stays.
            width: characters, one per sample; older samples are left out.
            maximum: what reaches the top; the largest sample without it, or if it exceeds it.
            height: lines.
        """
        levels = self.levels
        steps = len(levels) - 1
        shown = values[max(0, len(values) - width) :] if width > 0 else ()
        top = max((value for value in shown if value is not None), default=0.0)
        top = max(top, maximum or 0.0)
        # 0 is a level too, so that it can be told from a missing sample.
        heights = [
            0 if value is None else max(1, round(_share(value, top) * height * steps))
            for value in shown
        ]
        return [
            "".join(levels[min(max(filled - row * steps, 0), steps)] for filled in heights).rjust(
                width
            )
            for row in reversed(range(height))
        ]

    def stacked(self, parts: Sequence[float], total: float, width: int) -> list[str]:
        """Return a string per part, which together are at most ``width`` characters long.

        Each part has a filling of its own, so that they can be told apart without colour. Rounding
        never adds up: the bar ends where the sum of the parts does.
        """
        ends = [round(_share(end, total) * width) for end in accumulate(parts)]
        fillings = self.segments
        return [
            fillings[index % len(fillings)] * (end - start)
            for index, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
        ]

    def on_scale(self, low: float, value: float, high: float, mark: float, width: int) -> str:
        """Draw an interval and its estimate in ``width`` cells, with ``mark`` to compare with."""
        line, begin, end, estimate, other, crossed = [*self.interval]
        first, last = min(low, mark), max(high, mark)

        def cell(x: float) -> int:
            return round(_share(x - first, last - first) * (width - 1))

        drawn = [" "] * width
        for index in range(cell(low), cell(high) + 1):
            drawn[index] = line
        drawn[cell(low)], drawn[cell(high)] = begin, end
        drawn[cell(mark)] = crossed if low < mark < high else other
        drawn[cell(value)] = estimate
        return "".join(drawn)


def _share(part: float, whole: float) -> float:
    """``part`` of ``whole`` within 0 to 1; 0 of nothing."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


UNICODE = Glyphs(
    levels=" ▁▂▃▄▅▆▇█",
    track="·",
    fillings=" ▏▎▍▌▋▊▉█",
    segments="█▓▒░▚▞",
    accepted="■",
    rejected="□",
    bonus="▪",
    reject_open="⟨",
    reject_close="⟩",
    up="↑",
    down="↓",
    warning="▲",
    none="–",
    bullet="•",
    measured="◆",
    ellipsis="…",
    times="×",
    interval="─├┤●│┼",
)
ASCII = Glyphs(
    levels=" .:-=+*#@",
    track=".",
    fillings=" -=#",
    segments="#=+:%o",
    accepted="#",
    rejected="x",
    bonus="+",
    reject_open="[-",
    reject_close="-]",
    up="^",
    down="v",
    warning="!",
    none="-",
    bullet="*",
    measured="=",
    ellipsis="...",
    times="x",
    interval="-[]o|+",
)


def glyphs_of(widget: Widget) -> Glyphs:
    """Glyphs that the widget's app is set to; Unicode in an app without the setting."""
    found = getattr(widget.app, "glyphs", UNICODE)
    return found if isinstance(found, Glyphs) else UNICODE


class AsciiFilter(LineFilter):
    """Replaces what widgets draw without asking for glyphs, such as Textual's own ellipsis."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before, in ASCII."""
        del background
        return [segment._replace(text=plain(segment.text)) for segment in segments]


class SanitisingFilter(LineFilter):
    """Takes out what a terminal would obey: models, servers and logs may hold it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before."""
        del background
        return [
            one
            if one.control or one.text.isprintable()
            else one._replace(text="".join(map(_obeyed_by_none, one.text)))
            for one in segments
        ]


def _obeyed_by_none(character: str) -> str:
    # Most of them take no cell.
    return printable(character, mark="?" * cell_len(character))


def plain(text: str) -> str:
    """Return ``text`` in ASCII, as many cells wide."""
    return text if text.isascii() else _OTHER.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    return _PLAIN.get(character) or "?" * cell_len(character)


class AsciiScrollBars(ScrollBarRender):
    """Scroll bars of whole cells, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


class AsciiPalette(CommandPalette):
    """The command palette without a picture and an ellipsis."""

    def __init__(self) -> None:
        """Take the id by which the app knows that it is open."""
        super().__init__(placeholder="Search for commands", id="--command-palette")

    def on_mount(self) -> None:
        """Put a sign in place of the picture."""
        self.query_one(SearchIcon).icon = "/"
