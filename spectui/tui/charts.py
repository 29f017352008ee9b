"""Bars and sparklines made of characters, in the app's glyphs. Plain strings, without colour."""

from collections.abc import Sequence
from itertools import accumulate

from spectui.tui.glyphs import Glyphs


def bar(fraction: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar that fills ``fraction`` of ``width`` characters."""
    parts = glyphs.bar
    steps = len(parts) - 1
    full, rest = divmod(round(_share(fraction, 1.0) * width * steps), steps)
    return (parts[-1] * full + (parts[rest] if full < width else "")).ljust(width, parts[0])


def spark(
    values: Sequence[float | None],
    width: int,
    glyphs: Glyphs,
    *,
    maximum: float | None = None,
    height: int = 1,
) -> list[str]:
    """Return ``height`` lines of ``width`` characters, the last sample at the right.

    Args:
        values: samples, oldest first; where one is None, a gap stays.
        width: characters, one per sample; older samples are left out.
        glyphs: the characters.
        maximum: what reaches the top; without it, or where a sample exceeds it, the largest sample.
        height: lines.
    """
    levels = glyphs.spark
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
        "".join(levels[min(max(filled - row * steps, 0), steps)] for filled in heights).rjust(width)
        for row in reversed(range(height))
    ]


def stacked(parts: Sequence[float], total: float, width: int, glyphs: Glyphs) -> list[str]:
    """Return a string per part, which together are at most ``width`` characters long.

    Each part has a filling of its own, so that they can be told apart without colour. Rounding
    never adds up: the bar ends where the sum of the parts does.
    """
    ends = [round(_share(end, total) * width) for end in accumulate(parts)]
    fillings = glyphs.segments
    return [
        fillings[index % len(fillings)] * (end - start)
        for index, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def _share(part: float, whole: float) -> float:
    """``part`` of ``whole`` within 0 to 1; 0 of nothing."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
