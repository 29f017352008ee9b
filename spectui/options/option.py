"""One option of llama-server: its names in every dialect, what it takes, and what it does."""

from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import Enum
from typing import Self

INT_MAX = 2**31 - 1
"""llama.cpp's sizes and counts are 32-bit."""


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


@dataclass(frozen=True, slots=True)
class Words:
    """One of several words."""

    words: tuple[str, ...]


class Form(Enum):
    """Kinds of values without a range."""

    FILE = "a path"
    LAYERS = "a number of layers, auto or all"
    LENGTHS = "tokens of a request's prompt and answer, such as 4096+512"
    SECONDS = "a duration with its unit, such as 90s, 30m or 2h: 2 alone may mean minutes"
    SWITCH = "no value: the option alone switches something on"
    TEXT = "any text"


Values = Whole | Decimal | Words | Form


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
    """spectui's command line has it, under ``name``."""
    is_written: bool = True
    """The export writes it from a setup. What it does not write must travel as it stands."""

    def twin(self, flags: str, help_text: str) -> Self:
        """An option like this: that of the draft, or of the other half of a cache."""
        return replace(self, flags=tuple(flags.split()), help=help_text)

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


def default_of(configuration: type, field: str) -> object:
    """Default of a configuration's field: the option that fills it has the same."""
    return next(one.default for one in fields(configuration) if one.name == field)
