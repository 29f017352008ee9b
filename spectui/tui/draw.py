"""Parts of panels and tables, as plain strings: numbers with their unit, bars, histories.

All is drawn in Unicode; a filter of ``look.py`` replaces what a terminal lacks.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from spectui.format import bytes_text, rate_text

NONE: Final = "–"
"""In place of a number that is not there."""
SEGMENTS: Final = "█▓▒░▚▞"
"""Fillings that tell the parts of a stacked bar apart without colour."""
TRACK: Final = "·"
"""Background of a horizontal bar."""
_LEVELS = " ▁▂▃▄▅▆▇█"
"""Levels of a history, the first one for nothing."""
_FILLINGS = " ▏▎▍▌▋▊▉█"
"""Parts of a horizontal bar's last cell, the first one empty and the last one full."""
_SCALES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}


def one_line(text: str) -> str:
    """Return a text that may quote others on one line."""
    return " ".join(text.split())


def number(value: float | None, digits: int = 2) -> str:
    """Write a number without a unit, such as α."""
    return NONE if value is None else f"{value:.{digits}f}"


def per_s(value: float | None) -> str:
    """Write a throughput at a chart, such as ``18.4/s``."""
    return f"{rate_text(value)}/s"


def tokens_per_s(value: float | None) -> str:
    """Write a throughput, such as ``18.4 tokens/s``."""
    return f"{rate_text(value)} tokens/s"


def size(n_bytes: float | None) -> str:
    """Write a size, such as ``18.6 GB``."""
    return f"{NONE} GB" if n_bytes is None else bytes_text(round(n_bytes))


def rate(bytes_per_s: float | None) -> str:
    """Write bytes per second, such as ``41.2 GB/s``."""
    return f"{size(bytes_per_s)}/s"


def used_of(part_bytes: float | None, whole_bytes: float | None) -> str:
    """Write a part of a whole in the whole's unit, such as ``21.7 / 25.8 GB``."""
    whole = size(whole_bytes)
    if part_bytes is None or whole_bytes is None:
        return f"{NONE} / {whole}"
    return f"{part_bytes / _SCALES[whole.split()[1]]:.1f} / {whole}"


def bar(fraction: float, width: int) -> str:
    """Return a bar that fills ``fraction`` of ``width`` characters."""
    steps = len(_FILLINGS) - 1
    full, rest = divmod(round(_share(fraction, 1.0) * width * steps), steps)
    parts = _FILLINGS[-1] * full + (_FILLINGS[rest] if rest else "")
    return parts.ljust(width, TRACK)


def spark(
    values: Sequence[float | None], width: int, *, maximum: float | None = None, height: int = 1
) -> list[str]:
    """Return ``height`` lines of ``width`` characters, the last sample at the right.

    Args:
        values: samples, oldest first; None is a gap.
        width: characters, one per sample; older samples are left out.
        maximum: what reaches the top; the largest sample without it, or if it exceeds it.
        height: lines.
    """
    steps = len(_LEVELS) - 1
    shown = values[max(0, len(values) - width) :] if width > 0 else ()
    top = max((value for value in shown if value is not None), default=0.0)
    top = max(top, maximum or 0.0)
    # 0 is a level too, so that it can be told from a missing sample.
    heights = [
        0 if value is None else max(1, round(_share(value, top) * height * steps))
        for value in shown
    ]
    return [
        "".join(_LEVELS[min(max(filled - row * steps, 0), steps)] for filled in heights).rjust(
            width
        )
        for row in reversed(range(height))
    ]


def stacked(parts: Sequence[float], total: float, width: int) -> list[str]:
    """Return a string per part, which together are at most ``width`` characters long.

    Each part has a filling of its own, so that they can be told apart without colour. Rounding
    never adds up: the bar ends where the sum of the parts does.
    """
    ends = [round(_share(end, total) * width) for end in accumulate(parts)]
    return [
        SEGMENTS[index % len(SEGMENTS)] * (end - start)
        for index, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def on_scale(low: float, value: float, high: float, mark: float, width: int) -> str:
    """Draw an interval and its estimate in ``width`` cells, with ``mark`` to compare with."""
    first, last = min(low, mark), max(high, mark)

    def cell(x: float) -> int:
        return round(_share(x - first, last - first) * (width - 1))

    drawn = [" "] * width
    for index in range(cell(low), cell(high) + 1):
        drawn[index] = "─"
    drawn[cell(low)], drawn[cell(high)] = "├┤"
    drawn[cell(mark)] = "┼" if low < mark < high else "│"
    # Both in one cell.
    drawn[cell(value)] = "◆" if cell(value) == cell(mark) else "●"
    return "".join(drawn)


def _share(part: float, whole: float) -> float:
    """``part`` of ``whole`` within 0 to 1; 0 of nothing."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
