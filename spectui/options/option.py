"""One option of llama-server: its names in every dialect, its values and its help."""

from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import Enum, StrEnum
from typing import Any, Self, get_args

import msgspec
from msgspec import NODEFAULT, Meta

INT_MAX = 2**31 - 1
"""llama.cpp's sizes and counts are 32-bit."""


class Dialect(StrEnum):
    """Dialect of a llama-server's command line.

    ``LLAMA_CPP`` is llama.cpp from spring 2026 on, where each drafter has its own options.
    ``LEGACY`` is llama.cpp from autumn 2025 until then: ``-fa`` takes a value already, and the
    draft has placement options. ``IK`` is ik_llama.cpp with ``--spec-type NAME:key=value,...``.
    """

    LLAMA_CPP = "llama.cpp"
    LEGACY = "llama.cpp-legacy"
    IK = "ik"


NGRAM_DIALECTS = frozenset({Dialect.LLAMA_CPP})
"""Dialects that take n-gram drafters and MTP in any row: a search for others leaves these out."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a range, both ends included."""

    low: int
    high: int = INT_MAX


@dataclass(frozen=True, slots=True)
class Decimal:
    """A finite number in a range, both ends included; None for no upper end."""

    low: float
    high: float | None = None


class Form(Enum):
    """Kinds of values without a range."""

    FILE = "a path"
    LAYERS = "a number of layers, auto or all"
    LENGTHS = "tokens of a request's prompt and answer, such as 4096+512"
    SECONDS = "a duration with its unit, such as 90s, 30m or 2h: 2 alone may mean minutes"
    SWITCH = "no value: the option alone switches something on"
    TEXT = "any text"


Values = Whole | Decimal | tuple[str, ...] | Form
"""A range, words of which one is given, or a form."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a llama-server command."""

    flags: tuple[str, ...]
    """Every spelling in any dialect. The first long one is known to old and current builds."""
    help: str = ""
    values: Values = Form.TEXT
    _: KW_ONLY
    default: object = None
    """Default of spectui's own command line."""
    metavar: str | None = None
    shows_default: bool = True
    """Whether the help shows the default, where its text does not."""
    repeats: bool = False
    """Whether it may be given several times."""
    is_ours: bool = True
    """Whether spectui's command line has it, under ``name``."""
    is_written: bool = True
    """Whether the export writes it from a setup; else it is passed on unchanged."""

    def twin(self, flags: str, help_text: str) -> Self:
        """An option like this: that of the draft, or of the other half of a cache."""
        return replace(self, flags=tuple(flags.split()), help=help_text)

    def filling(self, configuration: type, field: str | None = None) -> Self:
        """This option with the default of the field that it fills: the one of its name."""
        name = field or self.parameter
        return replace(
            self, default=next(one.default for one in fields(configuration) if one.name == name)
        )

    @property
    def name(self) -> str:
        """The long name without dashes; spectui's own where its command line has the option."""
        return self.long_flag.lstrip("-")

    @property
    def parameter(self) -> str:
        """The name as Python has it."""
        return self.name.replace("-", "_")

    @property
    def long_flag(self) -> str:
        """The long spelling that old and current builds share."""
        return next(flag for flag in self.flags if flag.startswith("--"))

    @property
    def written(self) -> str:
        """Flag that exports write for current llama.cpp; empty for the first that it takes."""
        return next((flag for flag in self.flags if flag.startswith("--spec-draft-")), "")

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.values is Form.SWITCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a drafter: name, type, range, default, help, and its names in every dialect."""

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
    """Whether llama.cpp uses it."""
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
