"""Text of speedups and gains, however large: noise of very short runs makes some huge."""

_MINUS = "\N{MINUS SIGN}"
_LARGE_PERCENT = 1000.0
"""Limit from which a gain is written as a speedup."""
_TEN, _HUNDRED, _HUGE = 10.0, 100.0, 1e5


def factor(speedup: float, decimals: int = 2) -> str:
    """Text of a speedup, such as ``1.18``; the larger it is, the fewer digits are shown."""
    if speedup < _TEN:
        return f"{speedup:.{decimals}f}"
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


def is_large(gain: float) -> bool:
    """Whether a gain in per cent is written as a speedup."""
    return gain >= _LARGE_PERCENT
