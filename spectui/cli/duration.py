"""A click type for durations such as ``30m``."""

import re

import click

_LONGEST = 1e9
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A duration in seconds, written as ``90``, ``90s``, ``30m`` or ``2h``."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse, or fail with what is accepted."""
        if isinstance(value, int | float):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value).strip())
        if match is None or not 0 < float(match[1]) <= _LONGEST:
            self.fail(f"{value!r} is no duration; write 90s, 30m or 2h", param, ctx)
        return float(match[1]) * _UNIT_S[match[2]]


DURATION = Duration()
