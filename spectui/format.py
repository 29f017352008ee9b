"""Writes numbers for people: sizes, counts, shares, durations, speedups, gains.

Units are decimal, as on the hub and on the labels of drives. A missing value is a dash.
"""

import unicodedata
from collections.abc import Sequence

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNT_UNITS = ("", "K", "M", "B", "T")
_STEP = 1000
_WIDE = 99.95
"""From here on three digits stand before the point, and none is needed after it."""
_MINUS = "\N{MINUS SIGN}"
_LARGE_PERCENT = 1000.0
"""Gain in per cent from which on it is written as a speedup."""
_MINUTE_S = 60
_HOUR_MIN = 60
_MS, _US = 1e-3, 1e-6
_SLOW = 0.1
"""Tokens per second below which one digit would say next to nothing."""
_ROUNDED = 0.9995
"""From here on three digits are those of the next larger unit."""
_TEN, _HUNDRED, _HUGE = 10.0, 100.0, 1e5
NONE = "–"
"""In place of a number that is not there."""
_HARMLESS = frozenset("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\u200c\u200d")
"""Unprintable characters that are kept: blanks, and joiners of scripts and emoji."""


def printable(text: str, *, keep: str = "", mark: str = "?") -> str:
    """Sanitise foreign text for terminals, logs and files: control characters are replaced.

    Args:
        text: of a file, a server, a model or a command.
        keep: control characters that stay, such as line breaks.
        mark: stands for each of the others.
    """
    if text.isprintable():
        return text
    kept = _HARMLESS.union(keep)
    return "".join(one if one.isprintable() or one in kept else mark for one in text)


def sign_name(character: str) -> str:
    """Name of a character that is invisible or ambiguous, such as ``an em dash (U+2014)``."""
    name = unicodedata.name(character, "character").lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} (U+{ord(character):04X})"


def bytes_text(n_bytes: int) -> str:
    """Write a size such as ``105 MB`` or ``18.6 GB``."""
    value, unit = _scaled(n_bytes, _BYTE_UNITS)
    return f"{value} {unit}"


def count_text(n: int) -> str:
    """Write a number of parameters such as ``135M`` or ``30.5B``."""
    value, unit = _scaled(n, _COUNT_UNITS)
    return f"{value}{unit}"


def counted(n: int, noun: str) -> str:
    """Write a number of things such as ``1 prompt`` or ``24 prompts``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """Write at most so many names, such as ``a, b and 3 more``."""
    n_more = len(names) - most
    return ", ".join(names[:most]) + (f" and {n_more} more" if n_more > 0 else "")


def _scaled(n: int, units: tuple[str, ...]) -> tuple[str, str]:
    value = float(n)
    for unit in units:
        # 999.6 would be written as 1000 of a unit that has a next one.
        if round(value) < _STEP or unit == units[-1]:
            break
        value /= _STEP
    return f"{value:.{0 if value >= _WIDE else 1}f}".removesuffix(".0"), unit


def factor(speedup: float) -> str:
    """A speedup, such as ``1.18``; the larger it is, the fewer digits are worth their place."""
    if speedup < _TEN:
        return f"{speedup:.2f}"
    if speedup < _HUGE:
        return f"{speedup:.{int(speedup < _HUNDRED)}f}"
    return f"{speedup:.0e}"


def gain_percent(gain: float, decimals: int) -> str:
    """A gain in per cent with its sign, such as ``+27 %``; a large one as a speedup: ``446×``."""
    rounded = round(gain, decimals)
    if is_large(rounded):
        return f"{factor(1 + gain / 100)}×"
    sign = "+" if rounded > 0 else _MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{decimals}f} %"


def speedup_percent(speedup: float) -> str:
    """A speedup as a gain, such as ``+27 %``."""
    return gain_percent(100 * (speedup - 1), 0)


def is_large(gain: float) -> bool:
    """Whether a gain in per cent is written as a speedup."""
    return gain >= _LARGE_PERCENT


def rate_text(tokens_per_s: float | None) -> str:
    """Write tokens per second, without the unit, such as ``18.3``; slow ones such as ``0.04``."""
    if tokens_per_s is None:
        return NONE
    return f"{tokens_per_s:.2f}" if 0 < tokens_per_s < _SLOW else f"{tokens_per_s:.1f}"


def times_text(speedup: float | None) -> str:
    """Write a speedup such as ``1.18×``."""
    return NONE if speedup is None else f"{factor(speedup)}×"


def percent_text(share: float | None) -> str:
    """Write a share such as ``78 %``; one that is less than 1 % as ``0.4 %``."""
    if share is None:
        return NONE
    percent = 100 * share
    return f"{percent:.{int(0.05 <= abs(percent) < 0.95)}f} %"  # noqa: PLR2004 - rounded to 0, to 1


def time_text(seconds: float) -> str:
    """Write a time in three digits, such as ``15.2 ms``; from a minute on as a duration."""
    if seconds >= _MINUTE_S:
        return duration_text(seconds)
    if seconds >= _ROUNDED or seconds == 0:
        return f"{seconds:.3g} s"
    if seconds >= _ROUNDED * _MS:
        return f"{seconds / _MS:.3g} ms"
    return f"{seconds / _US:.3g} µs"


def duration_text(seconds: float) -> str:
    """Write the two units that matter: hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= _HOUR_MIN:
        return f"{minutes // _HOUR_MIN} h {minutes % _HOUR_MIN:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def left_text(seconds: float) -> str:
    """How long a search may still take, in words.

    Args:
        seconds: estimate; trials may end earlier, and a step that has begun is finished.
    """
    if seconds < 1:
        return "time is up: last step"
    return f"up to {duration_text(round(seconds))} left"
