"""Numbers of the settings form: what each drafter has, and what concerns every answer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spectui.live.setup import LiveSetup
from spectui.options import catalogue
from spectui.options.drafters import DrafterSetting, DraftSimple, ModelDrafter, numbers_of
from spectui.options.number import Number
from spectui.options.option import INT_MAX, Decimal, Option, Whole
from spectui.options.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A number that the user may type."""

    id: str
    label: str
    value: float
    kind: type[int] | type[float] = int
    low: float
    high: float
    drafter: str = ""
    """Whose it is, where several drafters may have one of that name."""
    why: str = ""
    """What sets the limit, as it goes on after "must be 1 to 16"."""

    @property
    def text(self) -> str:
        """The number as it stands in the form."""
        return str(int(self.value)) if self.kind is int else f"{self.value:g}"

    def parse(self, text: str) -> float:
        """Return the number. Raises ``ValueError`` with a sentence."""
        try:
            number = self.kind(text)
        except ValueError:
            number = self.low - 1
        if not (self.low <= number <= self.high and math.isfinite(number)):
            name = f"{self.drafter} {self.label}".strip()
            bounds = f"{self.low:g} to {self.high:g}"
            if math.isinf(self.high):
                bounds = f"at least {self.low:g}"
            raise ValueError(f"{name} must be {bounds}{self.why}")
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterFields:
    """What can be set of one drafter, which stays who it is."""

    drafter: DrafterSetting
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Who drafts."""
        return "draft model" if isinstance(self.drafter, DraftSimple) else self.drafter.kind

    def read(self, numbers: Mapping[str, float]) -> DrafterSetting:
        """Return the drafter with ``numbers`` by field. Raises ``ValueError`` with a sentence."""
        typed = {field.label: field.kind(numbers[field.id]) for field in self.fields}
        changed = type(self.drafter)(**{**self.drafter.numbers, **typed})
        problem = changed.check()
        if problem is not None:
            raise ValueError(problem)
        return changed


def drafter_fields(speculation: Speculation, max_draft: int) -> tuple[DrafterFields, ...]:
    """Return what can be set of each drafter, in the order in which they are asked.

    Args:
        speculation: who drafts.
        max_draft: longest draft that the pair was loaded for.
    """
    return tuple(
        DrafterFields(
            drafter=one,
            fields=tuple(
                _number_field(number, one, max_draft)
                for number in numbers_of(type(one))
                if number.is_read
            ),
        )
        for one in speculation.chain
    )


def _number_field(number: Number, drafter: DrafterSetting, max_draft: int) -> Field:
    high, why = number.high, ""
    # Of a model's drafts the shortest cannot be longer than the longest.
    is_bounded = number.bounds_drafts or isinstance(drafter, ModelDrafter)
    if is_bounded and number.type is int and max_draft < number.high:
        high, why = max_draft, ", which is what the pair was loaded for"
    is_model = isinstance(drafter, ModelDrafter)
    return Field(
        id=number.name if is_model else f"{drafter.kind}-{number.name}",
        label=number.name,
        value=getattr(drafter, number.name),
        kind=number.type,
        low=number.low,
        high=high,
        drafter="" if is_model else drafter.kind,
        why=why,
    )


def answer_fields(setup: LiveSetup) -> tuple[Field, ...]:
    """Return what concerns every answer, whoever drafts."""
    samplers = (catalogue.TEMPERATURE, *(one for one in catalogue.SAMPLING if not one.is_switch))
    return (
        Field(
            id="n_predict", label="tokens (-1: all)", value=setup.n_predict, low=-1, high=INT_MAX
        ),
        *(_sampler_field(one, getattr(setup.sampling, one.parameter)) for one in samplers),
    )


def _sampler_field(option: Option, value: float) -> Field:
    numbers = option.values
    assert isinstance(numbers, Whole | Decimal)  # noqa: S101 - a sampler takes a number
    return Field(
        id=option.parameter,
        label="temperature" if option is catalogue.TEMPERATURE else option.parameter,
        value=value,
        kind=int if isinstance(numbers, Whole) else float,
        low=numbers.low,
        high=math.inf if numbers.high is None else numbers.high,
    )
