"""What the what-if plot shows: a curve over ``draft_max``, marks on it, and the same in ASCII."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spectui.live.whatif import Line, Measured, Source
from spectui.options.drafters import Model
from spectui.trace.replay import Total
from spectui.tui.glyphs import ASCII, Glyphs
from spectui.tui.widgets.whatif_axis import Axis, axis


class Mark(Enum):
    """Kinds of marks, those drawn later above those drawn earlier."""

    OTHER = "other line"
    """Measured with another ``draft_min`` or ``draft_p_min``."""
    TRIAL = "trial"
    """Of tuning, on its own prompts."""
    CHAT = "measured"
    """In this chat."""
    SHOWN = "shown"
    """The setting that is looked at."""


_UNICODE_MARKS = {Mark.OTHER: "·", Mark.TRIAL: "×", Mark.CHAT: "■", Mark.SHOWN: "◆"}
_ASCII_MARKS = {Mark.OTHER: ".", Mark.TRIAL: "x", Mark.CHAT: "o", Mark.SHOWN: "#"}
_ASCII_CURVE = "*"
_LABELS = len("000.0 |")
_MEASURED_ON = ": answers that ran so"
_CURVE_ON = ", all answers"
"""A point of the chat and the curve are of different answers: said where there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of settings."""

    name: str
    """What its values are, with their unit."""
    values: tuple[float, ...]
    """By ``draft_max``, from 1 on."""
    shown: int
    """The ``draft_max`` that is looked at."""
    off: float | None
    """The target alone."""
    points: tuple[tuple[Mark, int, float], ...]
    """(kind, ``draft_max``, value) of what was measured, in the order of drawing."""

    def axis(self, n_rows: int) -> Axis:
        """Return a scale of ``n_rows`` rows for everything that is drawn."""
        values = [*self.values, *(value for _, _, value in self.points)]
        values += [] if self.off is None else [self.off]
        return axis(min(values), max(values), n_rows)


def curve(line: Line, shown: Model, measured: Sequence[Measured]) -> Curve:
    """Return throughput over ``draft_max``; without costs, the mean accepted length."""
    speeds = [total.tokens_per_s for total in line]
    if any(speed is None for speed in speeds):
        return Curve(
            name="tokens/round",
            values=tuple(total.tokens_per_round or 1.0 for total in line),
            shown=shown.draft_max,
            off=None,
            points=(),
        )
    points = [
        (_kind(one, shown), one.setting.draft_max, one.tokens_per_s)
        for one in measured
        if one.setting.draft_max <= len(line)
    ]
    order = list(Mark)
    return Curve(
        name="tokens/s",
        values=tuple(speed or 0.0 for speed in speeds),
        shown=shown.draft_max,
        off=_off(line[0]),
        points=tuple(sorted(points, key=lambda point: order.index(point[0]))),
    )


def _kind(measured: Measured, shown: Model) -> Mark:
    ran = measured.setting
    if (ran.draft_min, ran.draft_p_min) != (shown.draft_min, shown.draft_p_min):
        return Mark.OTHER
    return Mark.CHAT if measured.source is Source.CHAT else Mark.TRIAL


def _off(total: Total) -> float | None:
    return total.n_decoded / total.off_s if total.off_s else None


def mark(kind: Mark, glyphs: Glyphs) -> str:
    """Return the character of a kind of marks."""
    return (_ASCII_MARKS if glyphs is ASCII else _UNICODE_MARKS)[kind]


def legend(drawn: Curve, glyphs: Glyphs, width: int) -> str:
    """Return what the marks mean that are there, in as many words as ``width`` has room for."""
    plain = _legend(drawn, glyphs)
    if Mark.CHAT not in (kind for kind, _, _ in drawn.points):
        return plain
    fuller = (
        _legend(drawn, glyphs, curve_on=_CURVE_ON, measured_on=_MEASURED_ON),
        _legend(drawn, glyphs, measured_on=_MEASURED_ON),
    )
    return next((words for words in fuller if len(words) <= width), plain)


def _legend(drawn: Curve, glyphs: Glyphs, *, curve_on: str = "", measured_on: str = "") -> str:
    present = {Mark.SHOWN, *(kind for kind, _, _ in drawn.points)}
    kinds = [kind for kind in reversed(Mark) if kind in present]
    notes = {Mark.CHAT: measured_on}
    parts = [f"{mark(kind, glyphs)} {kind.value}{notes.get(kind, '')}" for kind in kinds]
    line = "-" if glyphs is ASCII else "─"
    parts += [] if drawn.off is None else [f"{line} off {drawn.off:.1f}"]
    return "  ".join([f"{drawn.name} by draft_max{curve_on}:", *parts])


def ascii_chart(drawn: Curve, width: int, height: int) -> list[str]:
    """Return ``height`` lines: the values as stars, the off level as dashes, and the axis."""
    room, n_values = max(1, width - _LABELS), len(drawn.values)
    per_value = max(1, room // n_values)
    scale = drawn.axis(max(2, height - 1))
    rows = [[" "] * (per_value * n_values) for _ in range(scale.n_rows)]
    if drawn.off is not None:
        rows[scale.row(drawn.off)] = ["-"] * (per_value * n_values)
    at_shown = drawn.values[drawn.shown - 1]
    for x, y, sign in (
        *((x, y, _ASCII_CURVE) for x, y in enumerate(drawn.values, start=1)),
        (drawn.shown, at_shown, mark(Mark.SHOWN, ASCII)),
        *((x, y, mark(kind, ASCII)) for kind, x, y in drawn.points),
    ):
        rows[scale.row(y)][(x - 1) * per_value + per_value // 2] = sign
    labels = {scale.row(value): label for value, label in scale.ticks}
    lines = [
        f"{labels.get(index, ''):>{_LABELS - 2}} |" + "".join(row) for index, row in enumerate(rows)
    ]
    return [*reversed(lines), " " * _LABELS + _lengths(n_values, per_value)]


def _lengths(n_values: int, per_value: int) -> str:
    """Return the numbers under the columns: every one, or every other, or fourth, with room."""
    step = 1
    while step * per_value <= len(str(n_values)):
        step *= 2
    line = ""
    for x in range(1, n_values + 1, step):
        start = (x - 1) * per_value + per_value // 2 - (len(str(x)) - 1) // 2
        line = line.ljust(start) + str(x)
    return line
