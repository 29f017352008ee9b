"""Sizes and counts as people write them. Decimal units, as on the hub and on the drives' labels."""

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNT_UNITS = ("", "K", "M", "B", "T")
_STEP = 1000
_WIDE = 99.95
"""Limit from which three digits stand before the point, and none is needed after it."""


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
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _scaled(n: int, units: tuple[str, ...]) -> tuple[str, str]:
    value = float(n)
    for unit in units:
        # 999.6 would be written as 1000 of a unit that has a next one.
        if round(value) < _STEP or unit == units[-1]:
            break
        value /= _STEP
    return f"{value:.{0 if value >= _WIDE else 1}f}".removesuffix(".0"), unit
