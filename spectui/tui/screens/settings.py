"""Drafting and sampling of the answers to come."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.config import SamplingConfig, Schedule, SpeculationConfig
from spectui.live.setup import LiveSetup
from spectui.tui.widgets.choice_row import ChoiceRow
from spectui.tui.widgets.key_bar import KeyBar

_USES = ("on", "off")
_SCHEDULES = tuple(Schedule)
_MAX_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class _Field:
    """A number that the user may type."""

    name: str
    label: str
    kind: type[int] | type[float]
    low: float
    high: float
    value: Callable[[LiveSetup, SpeculationConfig], float]
    why: str = ""
    """What sets the limit, as it goes on after "must be 1 to 16"."""

    def parse(self, text: str) -> float:
        """Return the number. Raises ``ValueError`` with a sentence."""
        try:
            number = self.kind(text)
        except ValueError:
            number = self.low - 1
        if not self.low <= number <= self.high:
            raise ValueError(f"{self.label} must be {self.low:g} to {self.high:g}{self.why}")
        return number


def _fields(max_draft: int) -> tuple[_Field, ...]:
    why = ", which is what the pair was loaded for"
    return (
        _Field("draft_max", "draft_max", int, 1, max_draft, lambda _s, d: d.draft_max, why),
        _Field("draft_min", "draft_min", int, 0, max_draft, lambda _s, d: d.draft_min, why),
        _Field("draft_p_min", "draft_p_min", float, 0, 1, lambda _s, d: d.draft_p_min),
        _Field("n_predict", "tokens (-1: all)", int, -1, 2**31 - 1, lambda s, _d: s.n_predict),
        _Field("temp", "temperature", float, 0, 10, lambda s, _d: s.sampling.temp),
        _Field("top_k", "top_k", int, 0, 2**31 - 1, lambda s, _d: s.sampling.top_k),
        _Field("top_p", "top_p", float, 0, 1, lambda s, _d: s.sampling.top_p),
        _Field("min_p", "min_p", float, 0, 1, lambda s, _d: s.sampling.min_p),
        _Field("seed", "seed", int, 0, _MAX_SEED, lambda s, _d: s.sampling.seed),
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
        & Label { width: 100%; color: $text-muted; }
        & Input { width: 100%; }
        & ChoiceRow { column-span: 2; height: 1; }
        & Input { background: $panel; }
        & #error { color: $text-error; height: auto; }
    }
    """

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
        self._fields = _fields(max_draft)

    def compose(self) -> ComposeResult:
        """Pairs of label and field."""
        setup = self._setup
        speculation = setup.wanted
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            form.border_subtitle = "Enter applies, Esc cancels"
            with Grid():
                yield ChoiceRow(
                    "draft",
                    _USES,
                    index=int(setup.speculation is None),
                    id="draft",
                    disabled=not setup.can_draft,
                )
                schedule = _SCHEDULES.index(setup.schedule)
                yield ChoiceRow("schedule", _SCHEDULES, index=schedule, id="schedule")
                for field in self._fields:
                    yield Label(field.label)
                    value = f"{field.value(setup, speculation):g}"
                    if field.kind is int:
                        value = str(int(field.value(setup, speculation)))
                    yield Input(value, id=field.name, compact=True)
            yield Label("system message")
            yield Input(setup.system, id="system", compact=True)
            yield Label("", id="error", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin with what is changed most."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query_one("#draft_max", Input).focus()

    def on_input_submitted(self) -> None:
        """Enter applies the form."""
        self.action_apply()

    def action_apply(self) -> None:
        """Return the changed setup, or say what is wrong with it."""
        try:
            changed = self._changed()
        except ValueError as error:
            self.query_one("#error", Label).update(str(error))
            return
        self.dismiss(changed)

    def _changed(self) -> LiveSetup:
        numbers: dict[str, float] = {
            field.name: field.parse(self.query_one(f"#{field.name}", Input).value)
            for field in self._fields
        }
        if numbers["draft_min"] > numbers["draft_max"]:
            raise ValueError("draft_min above draft_max would drop every draft")
        if numbers["n_predict"] == 0:
            raise ValueError("0 tokens would be no answer; -1 is as many as fit")
        before = self._setup.wanted
        speculation = SpeculationConfig(
            draft_max=int(numbers["draft_max"]),
            draft_min=int(numbers["draft_min"]),
            draft_p_min=numbers["draft_p_min"],
            mtp=before.mtp,
        )
        if replace(before, ngram=None, ahead=()) == speculation:
            # N-gram drafters, which the form does not know, stay as long as nothing is changed.
            speculation = before
        elif before.ngram is None:
            speculation = speculation.after(before.ahead)
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
            sampling=sampling,
            schedule=_SCHEDULES[self.query_one("#schedule", ChoiceRow).index],
            n_predict=int(numbers["n_predict"]),
            system=self.query_one("#system", Input).value,
        )
