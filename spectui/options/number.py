"""A number of a drafter, with all its properties."""

from dataclasses import dataclass
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, Meta

from spectui.options.option import Decimal, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a drafter."""

    name: str
    """The field's."""
    kind: str
    """The drafter's, as ``--spec-type`` has it."""
    flags: tuple[str, ...]
    """spectui's own spelling first, current llama.cpp's last."""
    annotation: Any
    """The field's type with its range, as msgspec checks it."""
    type: type[int] | type[float]
    low: float
    high: float
    default: float
    old_default: float
    """Until spring 2026, and in ik_llama.cpp."""
    help: str
    short: str
    """Its name in tables."""
    ik: tuple[str, ...]
    """Keys behind the kind in ik_llama.cpp's ``--spec-type``; of several the last one counts."""
    shared: tuple[str, ...]
    """Options in its place when all n-gram drafters shared them (until spring 2026)."""
    variables: tuple[str | None, str | None]
    """Variables of current builds and of those before spring 2026, without their ``LLAMA_ARG_``."""
    bounds_drafts: bool
    """Whether it is the length of the longest draft."""
    is_read: bool
    """Whether llama.cpp looks at it."""
    searched: tuple[int, int | None] | None
    """Least and most that a search tries, None for its longest draft; None where it does not."""
    replayed: tuple[int, ...]
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

    def text(self, value: float) -> str:
        """Text of a value in tables."""
        return str(value) if self.type is int else f"{value:.2f}"

    def argument(self, value: float) -> str:
        """Text of a value in commands."""
        # A sampler's 0.15000000000000002 helps no reader; the server keeps 7 digits.
        return str(value) if self.type is int else str(round(float(value), 6))


def facts(
    low: float,
    high: float,
    help_text: str,
    *,
    short: str,
    ik: tuple[str, ...] = (),
    shared: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    variables: tuple[str | None, str | None] = (None, None),
    old_default: float | None = None,
    bounds_drafts: bool = False,
    is_read: bool = True,
    searched: tuple[int, int | None] | None = None,
    replayed: tuple[int, ...] = (),
) -> Meta:
    """Describe a number in the annotation of a drafter's field: see ``Number``."""
    extra = {
        "short": short,
        "ik": ik,
        "shared": shared,
        "flags": flags,
        "variables": variables,
        "old_default": old_default,
        "bounds_drafts": bounds_drafts,
        "is_read": is_read,
        "searched": searched,
        "replayed": replayed,
    }
    return Meta(ge=low, le=high, description=help_text, extra=extra)


def read_number(field: msgspec.structs.FieldInfo, kind: str) -> Number:
    """Read what a field's annotation says, for a drafter of ``kind``."""
    own_type, meta = get_args(field.type)
    assert field.default is not NODEFAULT  # noqa: S101 - a drafter without options is a drafter
    known = dict(meta.extra)
    own_flag = f"--spec-{kind}-{field.name.replace('_', '-')}"
    old_default = field.default if known["old_default"] is None else known["old_default"]
    known |= {"flags": known["flags"] or (own_flag,), "old_default": old_default}
    return Number(
        name=field.name,
        kind=kind,
        annotation=field.type,
        type=own_type,
        low=meta.ge,
        high=meta.le,
        default=field.default,
        help=meta.description.format(kind=kind),
        **known,
    )
