"""Servers that are none: they answer at once, and remember in which order they were asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import Fleet
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import GREEDY, ContextOptions, ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.server.replies import Completion, Timings

T = TypeVar("T")
ON = Speculation(DraftSimple(draft_max=4))
ITEMS = tuple(WorkItem(id=name, category="x", tokens=(ord(name),)) for name in "abcdefg")
WORKLOAD = Workload(items=ITEMS, n_predict=11, sampling=GREEDY)
BASE = Setup(
    target=ModelOptions(path=Path("t.gguf")),
    draft=ModelOptions(path=Path("d.gguf")),
    context=ContextOptions(),
    speculation=ON,
)


def completion(*, is_on: bool) -> Completion:
    timings = Timings(
        predicted_n=11,
        predicted_ms=800.0 if is_on else 1000.0,
        prompt_ms=250.0,
        draft_n=8 * is_on,
        draft_n_accepted=6 * is_on,
    )
    return Completion(text="", tokens=tuple(range(11)), stop="limit", timings=timings)


class Recorded:
    """Servers that answer at once, and remember in which order they were asked."""

    n_starts = 0
    binary = SimpleNamespace(prompt_times_include_draft=True)

    def __init__(self, *, keeps_off: bool) -> None:
        self.keeps_off = keeps_off
        self.asked: list[str] = []
        """Prompts by request: in upper case with speculation."""
        self.bodies: list[Mapping[str, Any]] = []
        """Fields of the requests."""
        self.ended: list[Setup] = []
        self._ends = set[Setup]()

    def of(self, setup: Setup) -> SimpleNamespace:
        def together(
            wanted: Sequence[Mapping[str, Any]], n_streams: int
        ) -> list[tuple[Completion, float]]:
            assert n_streams == setup.n_slots
            self.bodies += wanted
            told = "".join(chr(one["prompt"][0]) for one in wanted)
            self.asked.append(told if setup.is_off else told.upper())
            return [(completion(is_on=not setup.is_off), 2.0) for _ in wanted]

        self.n_starts += setup in self._ends
        self._ends.discard(setup)
        return SimpleNamespace(complete_together=together)

    def check(self, _setup: Setup, _done: Completion) -> None: ...

    def measure(self, run: Callable[[], T]) -> T:
        return run()

    def end(self, setup: Setup) -> None:
        self.ended.append(setup)
        # As a server that is started anew with the next request.
        self._ends.add(setup)


def backend(servers: Recorded, n_slots: int, speculation: Speculation = ON) -> ServerBackend:
    base = replace(BASE, n_slots=n_slots, speculation=speculation)
    return ServerBackend(cast("Fleet", servers), base, {}, redoes_rounds=False)
