"""A setting of three numbers, each on a scale: stepped with left and right, or typed."""

from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Blur, Click, Key
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from spectui.options.drafters import DraftSimple, Model, numbers_of
from spectui.tui.glyphs import ASCII, glyphs_of
from spectui.tui.widgets import hidden, key

_LABEL = len(">   ") + max(len(number.name) for number in numbers_of(DraftSimple))
_VALUE = len("0.00 ")
_MAX_TYPED = 5


class Stepper(Widget, can_focus=True):
    """One parameter. ``>`` stands before the one that has the keys."""

    DEFAULT_CSS = """
    Stepper { height: 1; width: 100%; }
    Stepper:focus { background: $boost; text-style: bold; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("left,h", "whatif.less", "Less", action="step(-1)"),
        key(
            "right,l",
            "whatif.more",
            "Change",
            "One step more; left is one less, digits type a value",
            action="step(1)",
            display="arrows",
        ),
        hidden("home", "whatif.least", "Least", action="jump(0)"),
        hidden("end", "whatif.most", "Most", action="jump(1)"),
        hidden("up,k", "whatif.up", "Parameter up", action="app.focus_previous"),
        hidden("down,j", "whatif.down", "Parameter down", action="app.focus_next"),
    ]

    value: reactive[float] = reactive(0.0)
    high: reactive[float] = reactive(1.0)
    typed: reactive[str] = reactive("")
    """Typed text; Enter takes it, and so do leaving and whatever uses the setting."""

    class Changed(Message):
        """The user wants another value."""

    def __init__(self, name: str, *, low: float, high: float, step: float) -> None:
        """Show ``name`` at ``low``; the widget's id is the name as well."""
        super().__init__(id=name)
        self._label = name
        self._low = low
        self._step = step
        self._chosen = low
        """Requested number; ``value`` is as much of it as ``high`` allows."""
        self.set_reactive(Stepper.value, low)
        self.set_reactive(Stepper.high, high)

    def choose(self, value: float) -> None:
        """Show ``value``, or as much of it as there may be."""
        self._chosen = value
        self.value = min(value, self.high)

    def bound(self, high: float) -> None:
        """Let there be no more than ``high``; what was chosen returns when there may be more."""
        self.high = high
        self.value = min(self._chosen, high)

    def render(self) -> Text:
        """Label, value, and where it stands between least and most."""
        mark = ">" if self.has_focus else " "
        head = f"{mark} {self._label}".ljust(_LABEL)
        shown = f"{self.typed}_" if self.typed else self._text(self.value)
        return Text(f"{head}{shown:>{_VALUE}} {self._track()}", no_wrap=True)

    def _track(self) -> str:
        glyphs = glyphs_of(self)
        line, knob = ("-", "#") if glyphs is ASCII else ("─", glyphs.accepted)
        ends = f" {self._text(self._low)} to {self._text(self.high)}"
        width = max(0, self.size.width - _LABEL - _VALUE - 1 - len(ends))
        if not width:
            return ""
        span = self.high - self._low
        at = round((self.value - self._low) / span * (width - 1)) if span else 0
        at = min(max(at, 0), width - 1)
        return line * at + knob + line * (width - 1 - at) + ends

    def _text(self, value: float) -> str:
        if self._is_whole:
            return str(round(value))
        # As few digits as tell it: values of the steps have two.
        return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"

    @property
    def _is_whole(self) -> bool:
        return self._step >= 1

    def action_step(self, n: int) -> None:
        """Go to the next value of the scale."""
        # From a value between two steps to the nearest one in that direction.
        typed, self.typed = self._parsed(), ""
        steps = ((self.value if typed is None else typed) - self._low) / self._step
        nearest = round(steps)
        if abs(steps - nearest) > 1e-9:  # noqa: PLR2004 - rounding of the division
            nearest = int(steps) + (n < 0)
        value = round(self._low + (nearest + n) * self._step, 2)
        value = min(max(value, self._low), self.high)
        # A step that leads nowhere chooses nothing.
        if value != self.value:
            self._want(value)

    def action_jump(self, end: int) -> None:
        """Go to the least or the most."""
        self.typed = ""
        self._want(self.high if end else self._low)

    def on_key(self, event: Key) -> None:
        """Type a value."""
        character = event.character or ""
        if character.isdecimal() or (character == "." and not self._is_whole):
            self.typed = (self.typed + character)[:_MAX_TYPED]
        elif self.typed and event.key == "backspace":
            self.typed = self.typed[:-1]
        elif self.typed and event.key == "escape":
            self.typed = ""
        elif self.typed and event.key == "enter":
            self.take_typed()
        else:
            return
        event.stop()
        event.prevent_default()

    def on_blur(self, _event: Blur) -> None:
        """Apply the typed number."""
        self.take_typed()

    def take_typed(self) -> None:
        """Let what was typed be the value, if it is a number."""
        value, self.typed = self._parsed(), ""
        if value is not None:
            self._want(value)

    def _parsed(self) -> float | None:
        """Return the typed number; None if it is none."""
        try:
            return float(self.typed)
        except ValueError:
            return None

    def on_click(self, event: Click) -> None:
        """Go where the pointer is."""
        ends = f" {self._text(self._low)} to {self._text(self.high)}"
        start, width = _LABEL + _VALUE + 1, self.size.width - _LABEL - _VALUE - 1 - len(ends)
        if width > 1 and start <= event.x < start + width:
            share = (event.x - start) / (width - 1)
            steps = round(share * (self.high - self._low) / self._step)
            self._want(round(self._low + steps * self._step, 2))

    def _want(self, value: float) -> None:
        before = self.value
        self.choose(min(max(value, self._low), self.high))
        if self.value != before:
            self.post_message(self.Changed())


class Steppers(Vertical):
    """A setting that can be stepped and typed."""

    class Changed(Message):
        """The setting is another one."""

    def __init__(self, setting: Model) -> None:
        """Begin at ``setting``."""
        super().__init__()
        self._steppers = {
            number.name: Stepper(
                number.name,
                low=number.low,
                high=min(number.high, setting.draft_max) if number.type is int else number.high,
                step=number.step,
            )
            for number in numbers_of(DraftSimple)
        }
        self._min, self._max = (self._steppers[name] for name in DraftSimple.bounds)
        self._show(setting)

    def compose(self) -> ComposeResult:
        """Yield the steppers in the order in which they are written."""
        yield from self._steppers.values()

    @property
    def longest(self) -> int:
        """Largest ``draft_max``."""
        return round(self._max.high)

    @longest.setter
    def longest(self, longest: int) -> None:
        self._max.bound(longest)
        self._bound_min()

    @property
    def setting(self) -> DraftSimple:
        """The drafter's options that the steppers show."""
        typed: dict[str, Any] = {
            number.name: number.type(self._steppers[number.name].value)
            for number in numbers_of(DraftSimple)
        }
        return DraftSimple(**typed)

    @setting.setter
    def setting(self, setting: Model) -> None:
        self._show(setting)
        self.post_message(self.Changed())

    def take_typed(self) -> None:
        """Let what is being typed count, as if Enter had been pressed."""
        for stepper in self._steppers.values():
            stepper.take_typed()
        self._bound_min()

    def _show(self, setting: Model) -> None:
        for name, value in setting.numbers.items():
            # The longest comes first: it bounds the shortest.
            self._steppers[name].choose(value)
            self._bound_min()

    @on(Stepper.Changed)
    def _on_step(self, event: Stepper.Changed) -> None:
        event.stop()
        self._bound_min()
        self.post_message(self.Changed())

    def _bound_min(self) -> None:
        """A least length above the largest would drop every draft; it returns with the largest."""
        self._min.bound(self._max.value)
