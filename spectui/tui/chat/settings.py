"""The form for drafting and sampling of the answers to come."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.live.setup import LiveSetup
from spectui.options import catalogue, drafters
from spectui.options.number import Number
from spectui.options.option import INT_MAX, Decimal, Option, Whole
from spectui.options.speculation import Speculation
from spectui.tui.widgets import ChoiceRow, KeyBar, key, key_of

_USES = ("on", "off")


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
            has_limit = not math.isinf(self.high) and self.high != INT_MAX
            bounds = f"{self.low:g} to {self.high:g}" if has_limit else f"at least {self.low:g}"
            raise ValueError(f"{name} must be {bounds}{self.why}")
        return number


def drafter_fields(drafter: drafters.DrafterSetting, max_draft: int) -> tuple[Field, ...]:
    """Return the fields of a drafter, for a pair loaded for drafts up to ``max_draft``."""
    numbers = (number for number in drafters.numbers_of(type(drafter)) if number.is_read)
    return tuple(_number_field(number, drafter, max_draft) for number in numbers)


def _number_field(number: Number, drafter: drafters.DrafterSetting, max_draft: int) -> Field:
    high, why, is_model = number.high, "", isinstance(drafter, drafters.ModelDrafter)
    # Of a model's drafts the shortest cannot be longer than the longest.
    if (number.bounds_drafts or is_model) and number.type is int and max_draft < number.high:
        high, why = max_draft, ", which is what the pair was loaded for"
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

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (64, "-normal")]  # noqa: RUF012 - as Screen has it

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "settings.cancel", "Cancel", "Change nothing", action="dismiss"),
        key("ctrl+s,f3", "settings.apply", "Apply", "Use these from now on"),
    ]

    def __init__(self, setup: LiveSetup, max_draft: int) -> None:
        """Show what ``setup`` says; the pair was loaded for drafts up to ``max_draft``."""
        super().__init__()
        self._setup = setup
        self._drafters = [(one, drafter_fields(one, max_draft)) for one in setup.wanted.chain]
        self._answer = answer_fields(setup)

    def compose(self) -> ComposeResult:
        """The drafters with their numbers, then the fields of every answer."""
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            apply, cancel = (key_of(self, f"settings.{word}") for word in ("apply", "cancel"))
            form.border_subtitle = f"{apply} applies, {cancel} cancels"
            with Grid():
                yield from self._choices()
            for drafter, fields in self._drafters:
                if len(self._drafters) > 1 or not drafter.needs_draft:
                    name = (
                        "draft model" if isinstance(drafter, drafters.DraftSimple) else drafter.kind
                    )
                    yield Label(name, classes="drafter", markup=False)
                with Grid():
                    yield from _inputs(fields)
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

    def on_mount(self) -> None:
        """Begin with what is changed most."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query(Input).first().focus()

    def on_input_changed(self) -> None:
        """Take the error away: it may be corrected now."""
        self.query_one("#error", Label).update("")

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

    def _read(self, fields: Sequence[Field]) -> dict[str, Any]:
        """Return the numbers by their fields. Raises ``ValueError`` with a sentence."""
        return {
            field.id: field.parse(self.query_one(f"#{field.id}", Input).value) for field in fields
        }

    def _read_drafter(
        self, drafter: drafters.DrafterSetting, fields: Sequence[Field]
    ) -> drafters.DrafterSetting:
        typed = dict(zip((one.label for one in fields), self._read(fields).values(), strict=True))
        changed = type(drafter)(**{**drafter.numbers, **typed})
        if (problem := changed.check()) is not None:
            raise ValueError(problem)
        return changed

    def _changed(self) -> LiveSetup:
        *ahead, last = (self._read_drafter(one, fields) for one, fields in self._drafters)
        ngrams = tuple(one for one in ahead if isinstance(one, drafters.NgramDrafter))
        speculation = Speculation(last, ngrams)
        numbers = self._read(self._answer)
        n_predict = numbers.pop("n_predict")
        if n_predict == 0:
            raise ValueError("0 tokens would be no answer; -1 is as many as fit")
        return replace(
            self._setup,
            speculation=None if self.query_one("#draft", ChoiceRow).index else speculation,
            resting=speculation,
            sampling=replace(self._setup.sampling, **numbers),
            n_predict=n_predict,
            system=self.query_one("#system", Input).value,
        )


def _inputs(fields: Sequence[Field]) -> ComposeResult:
    """Pairs of label and field."""
    for field in fields:
        yield Label(field.label)
        yield Input(field.text, id=field.id, compact=True)
