"""Drafting and sampling of the answers to come."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.live.setup import LiveSetup
from spectui.options.drafters import NgramDrafter
from spectui.options.setup import SamplingConfig, Schedule
from spectui.options.speculation import Speculation
from spectui.tui.widgets.choice_row import ChoiceRow
from spectui.tui.widgets.key_bar import KeyBar
from spectui.tui.widgets.setting_fields import Field, answer_fields, drafter_fields

_USES = ("on", "off")
_SCHEDULES = tuple(Schedule)
_WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (64, "-normal")]


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
        Binding("escape", "dismiss", "Cancel", id="settings.cancel", tooltip="Change nothing"),
        Binding(
            "ctrl+s,f3", "apply", "Apply", id="settings.apply", tooltip="Use these from now on"
        ),
    ]

    def __init__(self, setup: LiveSetup, max_draft: int) -> None:
        """Show what ``setup`` says; the pair was loaded for drafts up to ``max_draft``."""
        super().__init__()
        self._setup = setup
        self._drafters = drafter_fields(setup.wanted, max_draft)
        self._answer = answer_fields(setup)

    def compose(self) -> ComposeResult:
        """Who drafts and how, then what concerns every answer."""
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
        speculation = Speculation(
            last, tuple(one for one in ahead if isinstance(one, NgramDrafter))
        )
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
