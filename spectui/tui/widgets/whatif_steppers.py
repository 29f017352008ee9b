"""The three parameters of a setting, one below the other."""

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from spectui.options.drafters import DraftSimple, Model, numbers_of
from spectui.tui.widgets.whatif_stepper import Stepper
from spectui.tune.space import P_MIN_STEP


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
                step=1 if number.type is int else P_MIN_STEP,
            )
            for number in numbers_of(DraftSimple)
        }
        self._max, self._min = self._steppers["draft_max"], self._steppers["draft_min"]
        self._show(setting)

    def compose(self) -> ComposeResult:
        """In the order in which they are written."""
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
        """What they say."""
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
