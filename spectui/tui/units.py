"""Numbers as the screen writes them: with their unit, decimal, a sign for what is missing."""

from spectui.format import bytes_text
from spectui.tui.glyphs import Glyphs

_WIDE = 99.95
"""Limit from which three digits stand before the point, and none is needed after it."""
_TENTH, _TEN = 0.0995, 9.995


def number(value: float | None, glyphs: Glyphs, digits: int = 2) -> str:
    """Write a number without a unit, such as α."""
    return glyphs.none if value is None else f"{value:.{digits}f}"


def percent(value: float | None, glyphs: Glyphs) -> str:
    """Write a share, such as ``78 %``."""
    if value is None:
        return glyphs.none
    return f"{value * 100:.{0 if value >= _TENTH else 1}f} %"


def tokens_per_s(value: float | None, glyphs: Glyphs) -> str:
    """Write a throughput, such as ``18.4 tokens/s``."""
    return f"{_short(value, glyphs)} tokens/s"


def speedup(value: float | None, glyphs: Glyphs) -> str:
    """Write a factor, such as ``1.62×``."""
    return f"{number(value, glyphs)}{glyphs.times}"


def duration(seconds: float | None, glyphs: Glyphs) -> str:
    """Write a duration, such as ``61.2 ms`` or ``1.84 s``."""
    if seconds is not None and seconds >= 1:
        return f"{seconds:.{1 if seconds >= _TEN else 2}f} s"
    return f"{_short(None if seconds is None else seconds * 1e3, glyphs)} ms"


def size(n_bytes: float | None, glyphs: Glyphs) -> str:
    """Write a size, such as ``18.6 GB``."""
    return f"{glyphs.none} GB" if n_bytes is None else bytes_text(round(n_bytes))


def rate(bytes_per_s: float | None, glyphs: Glyphs) -> str:
    """Write bytes per second, such as ``41.2 GB/s``."""
    return f"{size(bytes_per_s, glyphs)}/s"


def used_of(part_bytes: float | None, whole_bytes: float | None, glyphs: Glyphs) -> str:
    """Write a part of a whole in the whole's unit, such as ``21.7 / 25.8 GB``."""
    whole = size(whole_bytes, glyphs)
    if part_bytes is None or whole_bytes is None:
        return f"{glyphs.none} / {whole}"
    return f"{size_in(part_bytes, whole.split()[1])} / {whole}"


def size_in(n_bytes: float, unit: str) -> str:
    """Write a size in a given unit, without it."""
    scale = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}[unit]
    return f"{n_bytes / scale:.1f}"


def _short(value: float | None, glyphs: Glyphs) -> str:
    return number(value, glyphs, digits=0 if value is not None and value >= _WIDE else 1)
