"""The form for drafting and sampling of the answers to come."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.live.setup import LiveSetup
from spectui.options import catalogue, drafters
from spectui.options.option import INT_MAX, Decimal, Whole
from spectui.options.speculation import Speculation
from spectui.tui.widgets import KeyBar, key, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A number that the user may type."""

    id: str
    label: str
    value: float
    values: Whole | Decimal
    why: str = ""
    """Reason for the limit, as it goes on after "must be 1 to 16"."""

    @property
    def text(self) -> str:
        """The number as it stands in the form."""
        return str(int(self.value)) if isinstance(self.values, Whole) else f"{self.value:g}"

    def parse(self, text: str) -> float:
        """Return the number. Raises ``ValueError`` with a sentence."""
        low, high = self.values.low, self.values.high
        try:
            number = int(text) if isinstance(self.values, Whole) else float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= (math.inf if high is None else high) or math.isinf(number):
            has_limit = high not in {None, INT_MAX}
            bounds = f"{low:g} to {high:g}" if has_limit else f"at least {low:g}"
            raise ValueError(f"{self.label} must be {bounds}{self.why}")
        return number


def drafter_fields(drafter: drafters.DrafterSetting, max_draft: int) -> Iterator[Field]:
    """Yield the fields of a drafter, for a pair loaded for drafts up to ``max_draft``."""
    is_model = isinstance(drafter, drafters.ModelDrafter)
    for number in drafters.numbers_of(type(drafter)):
        values, why = number.values, ""
        # Of a model's drafts the shortest cannot be longer than the longest.
        bounds_drafts = number.bounds_drafts or is_model
        if isinstance(values, Whole) and bounds_drafts and max_draft < values.high:
            values = Whole(values.low, max_draft)
            why = ", which is what the pair was loaded for"
        if number.is_read:
            value = getattr(drafter, number.name)
            yield Field(id=number.name, label=number.name, value=value, values=values, why=why)


def answer_fields(setup: LiveSetup) -> Iterator[Field]:
    """Yield the fields of every answer, independent of the drafter."""
    yield Field(
        id="n_predict", label="tokens (-1: all)", value=setup.n_predict, values=Whole(-1, INT_MAX)
    )
    samplers = (catalogue.TEMPERATURE, *(one for one in catalogue.SAMPLING if not one.is_switch))
    for option in samplers:
        name, values = option.parameter, option.values
        assert isinstance(values, Whole | Decimal)  # noqa: S101 - a sampler takes a number
        label = "temperature" if option is catalogue.TEMPERATURE else name
        yield Field(id=name, label=label, value=getattr(setup.sampling, name), values=values)


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
        self._drafting = tuple(drafter_fields(setup.wanted.own, max_draft))
        self._answer = tuple(answer_fields(setup))

    def compose(self) -> ComposeResult:
        """The drafter's numbers, then the fields of every answer."""
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            apply, cancel = (key_of(self, f"settings.{word}") for word in ("apply", "cancel"))
            form.border_subtitle = f"{apply} applies, {cancel} cancels"
            for fields in (self._drafting, self._answer):
                with Grid():
                    for field in fields:
                        yield Label(field.label)
                        yield Input(field.text, id=field.id, compact=True)
            yield Label("system message")
            yield Input(self._setup.system, id="system", compact=True)
            yield Label("", id="error", markup=False)
        yield KeyBar()

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

    def _read(self, field: Field) -> Any:  # noqa: ANN401 - the field's type
        return field.parse(self.query_one(f"#{field.id}", Input).value)

    def _changed(self) -> LiveSetup:
        """Return what was typed. Raises ``ValueError`` with a sentence."""
        setup, own = self._setup, self._setup.wanted.own
        numbers = own.numbers | {field.id: self._read(field) for field in self._drafting}
        drafter = type(own)(**numbers)
        if (problem := drafter.check()) is not None:
            raise ValueError(problem)
        speculation = Speculation(drafter, setup.wanted.ahead)
        n_predict, *sampling = ((field.id, self._read(field)) for field in self._answer)
        if n_predict[1] == 0:
            raise ValueError("0 tokens would be no answer; -1 is as many as fit")
        return replace(
            setup,
            speculation=None if setup.speculation is None else speculation,
            resting=speculation,
            sampling=replace(setup.sampling, **dict(sampling)),
            n_predict=int(n_predict[1]),
            system=self.query_one("#system", Input).value,
        )
