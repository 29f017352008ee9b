"""A number of a drafter, with all its properties."""

from dataclasses import dataclass
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, Meta

from spectui.options.option import Decimal, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a drafter: its name, type, range, default and help, and what is known of it."""

    name: str
    """The field's."""
    kind: str
    """The drafter's, as ``--spec-type`` has it."""
    annotation: Any
    """The field's type with its range, as msgspec checks it."""
    type: type[int] | type[float]
    low: float
    high: float
    default: float
    help: str
    flags: tuple[str, ...]
    """spectui's own spelling first, current llama.cpp's last."""
    short: str
    """Name in tables."""
    ik: tuple[str, ...]
    """Keys behind the kind in ik_llama.cpp's ``--spec-type``; of several the last one counts."""
    shared: tuple[str, ...] = ()
    """Options in its place when all n-gram drafters shared them (until spring 2026)."""
    old_default: float | None = None
    """Default until spring 2026, and in ik_llama.cpp; None for today's."""
    bounds_drafts: bool = False
    """Whether it is the length of the longest draft."""
    is_read: bool = True
    """Whether llama.cpp looks at it."""
    searched: tuple[float, float | None] | None = None
    """Least and most that a search tries, None for its longest draft; None where it does not."""
    step: float = 1
    """Distance between values that a search tries, and between those of a key on the screen."""
    replayed: tuple[int, ...] = ()
    """Values that a replay tries in its place, where drafts of every length are tried with each."""

    @property
    def values(self) -> Whole | Decimal:
        """Range of valid values."""
        if self.type is int:
            return Whole(int(self.low), int(self.high))
        return Decimal(self.low, self.high)

    @property
    def option(self) -> str:
        """The option's name: spectui's own flag without dashes."""
        return self.flags[0].removeprefix("--")

    @property
    def parameter(self) -> str:
        """The option's name as Python has it."""
        return self.option.replace("-", "_")

    @property
    def axis(self) -> str:
        """The option's name among the columns and axes of a table."""
        return self.option.removeprefix("spec-")

    @property
    def earlier_default(self) -> float:
        """Default until spring 2026, and in ik_llama.cpp."""
        return self.default if self.old_default is None else self.old_default

    def searched_values(self, longest: int) -> tuple[float, ...]:
        """Values that a search tries; ``longest`` is its longest draft."""
        if self.searched is None:
            return ()
        low, high = self.searched
        n_steps = round(((longest if high is None else high) - low) / self.step)
        # 3 * 0.05 is not 0.15.
        return tuple(self.type(round(low + n * self.step, 2)) for n in range(n_steps + 1))

    def text(self, value: float) -> str:
        """Text of a value in tables."""
        return str(value) if self.type is int else f"{value:.2f}"

    def argument(self, value: float) -> str:
        """Text of a value in commands."""
        # A sampler's 0.15000000000000002 helps no reader; the server keeps 7 digits.
        return str(value) if self.type is int else str(round(float(value), 6))


def described(low: float, high: float, help_text: str, **facts: Any) -> Meta:  # noqa: ANN401 - as many types as ``Number`` has
    """Describe a number in the annotation of a drafter's field.

    Without ``flags`` its option is ``--spec-KIND-NAME``.
    """
    return Meta(ge=low, le=high, description=help_text, extra=facts)


def read_number(field: msgspec.structs.FieldInfo, kind: str) -> Number:
    """Read what a field's annotation says, for a drafter of ``kind``."""
    own_type, meta = get_args(field.type)
    assert field.default is not NODEFAULT  # noqa: S101 - a drafter without options is a drafter
    facts = {"flags": (f"--spec-{kind}-{field.name.replace('_', '-')}",), **meta.extra}
    return Number(
        **facts,
        name=field.name,
        kind=kind,
        annotation=field.type,
        type=own_type,
        low=meta.ge,
        high=meta.le,
        default=field.default,
        help=meta.description.format(kind=kind),
    )
