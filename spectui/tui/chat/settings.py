"""The form for drafting and sampling of the answers to come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.config import (
    NGRAM_LARGEST,
    NgramConfig,
    NgramKind,
    SamplingConfig,
    Schedule,
    SpeculationConfig,
    ngram_setting,
)
from spectui.live.setup import LiveSetup
from spectui.tui.widgets import ChoiceRow, KeyBar

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
        if not self.low <= number <= self.high:
            name = f"{self.drafter} {self.label}".strip()
            raise ValueError(f"{name} must be {self.low:g} to {self.high:g}{self.why}")
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterFields:
    """The fields of one drafter."""

    drafter: SpeculationConfig
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Name of the drafter."""
        return "draft model" if self.drafter.has_model else self.drafter.kind

    def read(self, numbers: Mapping[str, float]) -> SpeculationConfig:
        """Return the drafter with ``numbers`` by field. Raises ``ValueError`` with a sentence."""
        found = {field.label: numbers[field.id] for field in self.fields}
        ngram = self.drafter.ngram
        if ngram is not None:
            typed = {name: int(number) for name, number in found.items()}
            return _ngram(ngram.kind, {**ngram.options(self.drafter.draft_max), **typed})
        if found["draft_min"] > found["draft_max"]:
            raise ValueError("draft_min above draft_max would drop every draft")
        return replace(
            self.drafter,
            draft_max=int(found["draft_max"]),
            draft_min=int(found["draft_min"]),
            draft_p_min=found["draft_p_min"],
        )


def _ngram(kind: NgramKind, options: Mapping[str, int]) -> SpeculationConfig:
    if kind is NgramKind.SIMPLE and options["size_n"] > options["size_m"]:
        raise ValueError(f"{kind} drafts nothing with size_n above size_m")
    return ngram_setting(kind, options)


def drafter_fields(speculation: SpeculationConfig, max_draft: int) -> tuple[DrafterFields, ...]:
    """Return what can be set of each drafter, in the order in which they are asked.

    Args:
        speculation: who drafts.
        max_draft: longest draft that the pair was loaded for.
    """
    return tuple(
        DrafterFields(
            drafter=one,
            fields=_model_fields(one, max_draft)
            if one.ngram is None
            else _ngram_fields(one.ngram, one.draft_max, max_draft),
        )
        for one in speculation.chain
    )


def _model_fields(one: SpeculationConfig, max_draft: int) -> tuple[Field, ...]:
    return (
        _length("draft_max", one.draft_max, 1, max_draft),
        _length("draft_min", one.draft_min, 0, max_draft),
        _number("draft_p_min", one.draft_p_min, 0, 1, kind=float),
    )


def _ngram_fields(ngram: NgramConfig, longest: int, max_draft: int) -> tuple[Field, ...]:
    fields = []
    for name, value in ngram.options(longest).items():
        if ngram.kind is NgramKind.MAP_K and name == "min_hits":
            # Llama.cpp takes it and does not look at it.
            continue
        field = _number(name, value, 0 if name == "n_min" else 1, NGRAM_LARGEST)
        if name in {"size_m", "n_max"} and max_draft < NGRAM_LARGEST:
            field = _length(name, value, 1, max_draft)
        fields.append(replace(field, id=f"{ngram.kind}-{name}", drafter=ngram.kind))
    return tuple(fields)


def answer_fields(setup: LiveSetup) -> tuple[Field, ...]:
    """Return what concerns every answer, whoever drafts."""
    sampling = setup.sampling
    return (
        _number("n_predict", setup.n_predict, -1, _MAX_INT, label="tokens (-1: all)"),
        _number("temp", sampling.temp, 0, 10, label="temperature", kind=float),
        _number("top_k", sampling.top_k, 0, _MAX_INT),
        _number("top_p", sampling.top_p, 0, 1, kind=float),
        _number("min_p", sampling.min_p, 0, 1, kind=float),
        _number("seed", sampling.seed, 0, _MAX_SEED),
    )


def _length(name: str, value: int, low: int, max_draft: int) -> Field:
    why = ", which is what the pair was loaded for"
    return Field(id=name, label=name, value=value, low=low, high=max_draft, why=why)


def _number(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    label: str = "",
    kind: type[int] | type[float] = int,
) -> Field:
    return Field(id=name, label=label or name, value=value, low=low, high=high, kind=kind)


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
        """The drafters with their numbers, then the fields of every answer."""
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            form.border_subtitle = "Enter applies, Esc cancels"
            with Grid():
                yield from self._choices()
            for drafter in self._drafters:
                if len(self._drafters) > 1 or not drafter.drafter.has_model:
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
        speculation = last.after(ahead)
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
