"""Kinds of values that options take, besides click's own."""

import math
from pathlib import PurePosixPath
from typing import Any

import click

INT_MAX = 2**31 - 1
"""llama.cpp's sizes and counts are 32-bit."""


class GpuLayers(click.ParamType[int]):
    """A number of layers, or ``auto`` or ``all``."""

    name = "N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse, or fail with what is accepted; -1 is all."""
        if value in {"auto", "all"}:
            return -1
        try:
            layers = int(str(value))
        except ValueError:
            layers = -2
        if not -1 <= layers <= INT_MAX:
            self.fail(f"{value!r} is no number of layers, nor auto or all", param, ctx)
        return layers


class FileGlob(click.ParamType[str]):
    """A name of a file, with folders or without, in which wildcards may stand."""

    name = "GLOB"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Parse, or fail with what is accepted."""
        glob = str(value)
        if not PurePosixPath(glob).parts:
            self.fail(f"{glob!r} can match no file; give one such as *Q8_0*", param, ctx)
        return glob


class Fraction(click.FloatRange):
    """A finite number in a range: click lets ``nan`` and ``inf`` through."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse, or fail with what is accepted."""
        number = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class ListOf(click.ParamType[tuple[Any, ...]]):
    """Values of another type, separated by commas; each counts once."""

    def __init__(self, item: click.ParamType[Any]) -> None:
        self._item = item
        self.name = f"{item.name},..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Parse every item, or fail with what is accepted."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            self.fail(f"{value!r} has an empty place; write 1,2,3", param, ctx)
        return tuple(dict.fromkeys(self._item.convert(part, param, ctx) for part in parts))
