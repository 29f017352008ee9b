"""The three parameters of a setting, one below the other."""

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from spectui.config import SpeculationConfig
from spectui.tui.widgets.whatif_stepper import Stepper
from spectui.tune.space import P_MIN_STEP


class Steppers(Vertical):
    """A setting that can be stepped and typed."""

    class Changed(Message):
        """The setting is another one."""

    def __init__(self, setting: SpeculationConfig) -> None:
        """Begin at ``setting``."""
        super().__init__()
        self._max = Stepper("draft_max", low=1, high=setting.draft_max, step=1)
        self._min = Stepper("draft_min", low=0, high=setting.draft_max, step=1)
        self._p_min = Stepper("draft_p_min", low=0.0, high=1.0, step=P_MIN_STEP)
        self._show(setting)

    def compose(self) -> ComposeResult:
        """In the order in which they are written."""
        yield self._max
        yield self._min
        yield self._p_min

    @property
    def longest(self) -> int:
        """Largest ``draft_max``."""
        return round(self._max.high)

    @longest.setter
    def longest(self, longest: int) -> None:
        self._max.bound(longest)
        self._bound_min()

    @property
    def setting(self) -> SpeculationConfig:
        """What they say."""
        return SpeculationConfig(
            draft_max=round(self._max.value),
            draft_min=round(self._min.value),
            draft_p_min=self._p_min.value,
        )

    @setting.setter
    def setting(self, setting: SpeculationConfig) -> None:
        self._show(setting)
        self.post_message(self.Changed())

    def take_typed(self) -> None:
        """Let what is being typed count, as if Enter had been pressed."""
        for stepper in (self._max, self._min, self._p_min):
            stepper.take_typed()
        self._bound_min()

    def _show(self, setting: SpeculationConfig) -> None:
        self._max.choose(setting.draft_max)
        self._bound_min()
        self._min.choose(setting.draft_min)
        self._p_min.choose(setting.draft_p_min)

    @on(Stepper.Changed)
    def _on_step(self, event: Stepper.Changed) -> None:
        event.stop()
        self._bound_min()
        self.post_message(self.Changed())

    def _bound_min(self) -> None:
        """A least length above the largest would drop every draft; it returns with the largest."""
        self._min.bound(self._max.value)
