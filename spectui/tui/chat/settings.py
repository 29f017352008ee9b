"""The form for drafting and sampling of the answers to come."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.live.setup import LiveSetup
from spectui.options import catalogue
from spectui.options.drafters import (
    DrafterSetting,
    DraftSimple,
    ModelDrafter,
    NgramDrafter,
    numbers_of,
)
from spectui.options.number import Number
from spectui.options.option import INT_MAX, Decimal, Option, Whole
from spectui.options.setup import SamplingConfig, Schedule
from spectui.options.speculation import Speculation
from spectui.tui.widgets import ChoiceRow, KeyBar, key

_MAX_INT = 2**31 - 1
_MAX_SEED = 2**32 - 1
_USES = ("on", "off")
_SCHEDULES = tuple(Schedule)
_WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (64, "-normal")]


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
    """Drafter of the field, where several drafters may have one of that name."""
    why: str = ""
    """Reason for the limit, as it goes on after "must be 1 to 16"."""

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
    """The fields of one drafter."""

    drafter: DrafterSetting
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Name of the drafter."""
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
    """Return the fields of each drafter, in the order in which they are asked.

    Args:
        speculation: the drafters.
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
    """Return the fields of every answer, independent of the drafter."""
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


class SettingsScreen(ModalScreen[LiveSetup | None]):
    """A form; returns the changed setup, or None."""

    DEFAULT_CSS = """
    SettingsScreen {
        align: center middle;
        & > VerticalScroll {
            width: 66; max-width: 100%; height: auto; max-height: 100%;
            background: $surface; border: round $primary; padding: 0 1;
        }
        & Grid {
            grid-size: 4; grid-columns: 16 1fr 16 1fr; grid-rows: 1; height: auto;
            grid-gutter: 0 1;
        }
        &.-tiny Grid { grid-size: 2; grid-columns: 16 1fr; }
        & Label { width: 100%; color: $text-muted; }
        & .drafter { text-style: bold; }
        & Input { width: 100%; }
        & ChoiceRow { column-span: 2; height: 1; }
        & Input { background: $panel; }
        & #error { color: $text-error; height: auto; }
    }
    """

    HORIZONTAL_BREAKPOINTS = _WIDTHS

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "settings.cancel", "Cancel", "Change nothing", action="dismiss"),
        key("ctrl+s,f3", "settings.apply", "Apply", "Use these from now on"),
    ]

    def __init__(self, setup: LiveSetup, max_draft: int) -> None:
        """Show what ``setup`` says; the pair was loaded for drafts up to ``max_draft``."""
        super().__init__()
        self._setup = setup
        self._drafters = drafter_fields(setup.wanted, max_draft)
        self._answer = answer_fields(setup)

    def compose(self) -> ComposeResult:
        """The drafters with their numbers, then the fields of every answer."""
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            form.border_subtitle = "Enter applies, Esc cancels"
            with Grid():
                yield from self._choices()
            for drafter in self._drafters:
                if len(self._drafters) > 1 or not drafter.drafter.needs_draft:
                    yield Label(drafter.name, classes="drafter", markup=False)
                with Grid():
                    yield from _inputs(drafter.fields)
            with Grid():
                yield from _inputs(self._answer)
            yield Label("system message")
            yield Input(self._setup.system, id="system", compact=True)
            yield Label("", id="error", markup=False)
        yield KeyBar()

    def _choices(self) -> ComposeResult:
        setup = self._setup
        is_off = int(setup.speculation is None)
        yield ChoiceRow("draft", _USES, index=is_off, id="draft", disabled=not setup.can_draft)
        schedule = _SCHEDULES.index(setup.schedule)
        yield ChoiceRow("schedule", _SCHEDULES, index=schedule, id="schedule")

    def on_mount(self) -> None:
        """Begin with what is changed most."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query(Input).first().focus()

    def on_input_submitted(self) -> None:
        """Enter applies the form."""
        self.action_apply()

    def action_apply(self) -> None:
        """Return the changed setup, or say what is wrong with it."""
        try:
            changed = self._changed()
        except ValueError as error:
            label = self.query_one("#error", Label)
            label.update(str(error))
            self.call_after_refresh(label.scroll_visible)
            return
        self.dismiss(changed)

    def _read(self, fields: Sequence[Field]) -> dict[str, float]:
        return {
            field.id: field.parse(self.query_one(f"#{field.id}", Input).value) for field in fields
        }

    def _changed(self) -> LiveSetup:
        *ahead, last = (one.read(self._read(one.fields)) for one in self._drafters)
        ngrams = tuple(one for one in ahead if isinstance(one, NgramDrafter))
        speculation = Speculation(last, ngrams)
        numbers = self._read(self._answer)
        if numbers["n_predict"] == 0:
            raise ValueError("0 tokens would be no answer; -1 is as many as fit")
        sampling: SamplingConfig = replace(
            self._setup.sampling,
            temp=numbers["temp"],
            top_k=int(numbers["top_k"]),
            top_p=numbers["top_p"],
            min_p=numbers["min_p"],
            seed=int(numbers["seed"]),
        )
        return replace(
            self._setup,
            speculation=None if self.query_one("#draft", ChoiceRow).index else speculation,
            resting=speculation,
            sampling=sampling,
            schedule=_SCHEDULES[self.query_one("#schedule", ChoiceRow).index],
            n_predict=int(numbers["n_predict"]),
            system=self.query_one("#system", Input).value,
        )


def _inputs(fields: Sequence[Field]) -> ComposeResult:
    """Pairs of label and field."""
    for field in fields:
        yield Label(field.label)
        yield Input(field.text, id=field.id, compact=True)
