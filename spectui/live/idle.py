"""Work for idle time: the baseline of the loaded target, and drafts that may fit one."""

from collections.abc import Callable
from dataclasses import replace

from spectui.engine import events
from spectui.engine.commands import ComparePair, Generate, Tokenize
from spectui.engine.thread import EngineThread, Priority
from spectui.live.setup import BaselineMeasured
from spectui.llama.planned import PlanRequest
from spectui.models.ranking import ModelInspected
from spectui.options.setup import GREEDY, Setup

_BASELINE_TOKENS = 24
_BASELINE_TEXT = (
    "The lighthouse stood at the end of a long stone pier. Every evening the keeper climbed the "
    "stairs, lit the lamp, and wrote the weather of the day into a book."
)


class IdleBaseline:
    """Measures the target alone, from one load of it to the next."""

    def __init__(self, engine: EngineThread, on_event: Callable[[events.Event], None]) -> None:
        """Ask nothing yet.

        Args:
            engine: runs the measurements.
            on_event: is told of every event, on the engine's thread; hands it to ``measured``.
        """
        self.client = engine.connect(on_event, Priority.BACKGROUND)
        self._is_warm = False
        """Whether the target has decoded something since it was loaded."""
        self._is_under_way = False
        """Whether one is asked for and has not ended."""

    def measure(self) -> None:
        """Measure in idle time, after what is waiting there already; one at a time."""
        if not self._is_under_way:
            self._begin()

    def _begin(self) -> None:
        self._is_under_way = True
        self.client.submit(Tokenize(text=_BASELINE_TEXT))

    def measured(self, event: events.Event) -> BaselineMeasured | None:
        """Go on with a measurement; return what one that ended has found."""
        match event:
            case events.Tokenized():
                self.client.submit(
                    Generate(
                        prompt=event.tokens,
                        n_predict=_BASELINE_TOKENS + 1,
                        sampling=replace(GREEDY, ignore_eos=True),
                    )
                )
            case events.GenerationResult() if not self._is_warm:
                # The first tokens after a load are slower than the rest: they touch the weights.
                self._is_warm = True
                self._begin()
            case events.GenerationResult():
                self._is_under_way = False
                counters, speed = event.counters, event.tokens_per_s
                if speed is not None and counters.n_rounds:
                    step_s = counters.times.verify_s / counters.n_rounds
                    return BaselineMeasured(tokens_per_s=speed, step_s=step_s)
            case events.EngineFailed():
                # Cancelled, or no target any more: there is no baseline then.
                self._is_under_way = False
            case _:
                pass
        return None


class PairInspector:
    """Checks which drafts fit a target, in the engine's idle time."""

    def __init__(self, engine: EngineThread, sink: Callable[[ModelInspected], None]) -> None:
        """Ask nothing yet; ``sink`` is told of every pair on the engine's thread."""
        self._sink = sink
        self.client = engine.connect(self._on_event, Priority.BACKGROUND)

    def compare(self, setup: Setup) -> None:
        """Find out whether a setup's draft fits its target. Answered by ``ModelInspected``."""
        if setup.draft is not None:
            self.client.submit(ComparePair(request=PlanRequest.of(setup).beside(setup.draft)))

    def forget(self) -> None:
        """Cancel comparisons that are still waiting: another target is looked at."""
        self.client.stop()

    def _on_event(self, event: events.Event) -> None:
        # A failure is a cancelled comparison, or a target that cannot be read: loading it says so.
        if isinstance(event, ModelInspected):
            self._sink(event)
