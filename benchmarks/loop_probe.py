"""Times what an app's event loop does, from outside: its handlers, its turns, its lateness."""

import asyncio
import statistics
import time
import types
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import Any

from textual.message import Message
from textual.message_pump import MessagePump

TICK_S = 0.02
N_LONGEST = 8


@dataclass(slots=True)
class Handler:
    """Every time that one kind of widget took one kind of message."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    longest_turn_s: float = 0.0
    """Longest time in which the loop served nobody else; a handler may wait in between."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the loop did without looking for anything else."""

    wall_s: float
    cpu_s: float
    task: str
    """Whose it was: a message pump paints and lays out when it idles. Empty for a callback."""
    handled: tuple[str, ...]
    """Messages."""


@dataclass(slots=True)
class Phase:
    """What was measured while the app did one thing."""

    handlers: defaultdict[str, Handler] = field(default_factory=lambda: defaultdict(Handler))
    turns: list[Turn] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)

    def results(self) -> dict[str, Any]:
        """In milliseconds."""
        longest = nlargest(N_LONGEST, self.turns, key=lambda turn: turn.wall_s)
        busiest = sorted(self.handlers.items(), key=lambda item: -sum(item[1].cpu_s))
        return {
            "late_ms": _spread(self.late_s),
            "turns": {
                "wall_ms": _spread([turn.wall_s for turn in self.turns]),
                "cpu_ms": _spread([turn.cpu_s for turn in self.turns]),
                "longest": [
                    {
                        "wall_ms": _ms(turn.wall_s),
                        "cpu_ms": _ms(turn.cpu_s),
                        "task": turn.task,
                        "handled": sorted(set(turn.handled)),
                    }
                    for turn in longest
                ],
            },
            "handlers": {name: _row(handler) for name, handler in busiest},
        }


class LoopProbe:
    """Measures the event loop of this thread, phase by phase.

    A handler's times are those in which it held the loop: what it waits for does not count, what it
    calls does. Layout and painting follow a message when a widget idles; the turn has them, and the
    lateness of a callback that wants to run every 20 ms is what a user feels of all this.
    """

    def __init__(self) -> None:
        """Nothing is measured before ``install``."""
        self.phases: dict[str, Phase] = {}
        self._phase = Phase()
        self._handled: list[str] = []

    def begin(self, name: str) -> None:
        """What follows belongs to phase ``name``."""
        self._phase = self.phases[name] = Phase()

    def end(self) -> None:
        """What follows belongs to no phase."""
        self._phase = Phase()

    def install(self) -> None:
        """Measure from now on, in every app and loop of this process."""
        dispatch, run = MessagePump._dispatch_message, asyncio.Handle._run  # noqa: SLF001 - outside

        def timed_dispatch(pump: MessagePump, message: Message) -> Generator[Any, Any, None]:
            name = f"{type(pump).__name__} {type(message).__name__}"
            self._handled.append(name)
            return _held(dispatch(pump, message), self._phase.handlers[name])

        def timed_run(handle: asyncio.Handle) -> None:
            self._handled = []
            # Gone once it has run.
            task = _task_of(handle)
            wall_s, cpu_s = time.perf_counter(), time.thread_time()
            run(handle)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.thread_time() - cpu_s
            self._phase.turns.append(Turn(wall_s, cpu_s, task, tuple(self._handled)))

        MessagePump._dispatch_message = timed_dispatch  # type: ignore[method-assign,assignment] # noqa: SLF001
        asyncio.Handle._run = timed_run  # type: ignore[method-assign,assignment] # noqa: SLF001

    async def watch_lateness(self) -> None:
        """Note how late a callback is that wants to run every 20 ms, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            self._phase.late_s.append(max(0.0, loop.time() - due_s))


def _task_of(handle: asyncio.Handle) -> str:
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined] # noqa: SLF001
    return owner.get_name() if isinstance(owner, asyncio.Task) else ""


@types.coroutine
def _held(coroutine: Coroutine[Any, Any, None], handler: Handler) -> Generator[Any, Any, None]:
    """Run ``coroutine``, and add the time in which it holds the loop to ``handler``."""
    wall_s = cpu_s = 0.0
    resume: Callable[[], Any] = partial(coroutine.send, None)
    try:
        while True:
            began_wall_s, began_cpu_s = time.perf_counter(), time.thread_time()
            try:
                waits_for = resume()
            except StopIteration:
                return
            finally:
                turn_s = time.perf_counter() - began_wall_s
                wall_s += turn_s
                cpu_s += time.thread_time() - began_cpu_s
                handler.longest_turn_s = max(handler.longest_turn_s, turn_s)
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                resume = partial(coroutine.throw, error)
            else:
                resume = partial(coroutine.send, None)
    finally:
        handler.wall_s.append(wall_s)
        handler.cpu_s.append(cpu_s)


def _row(handler: Handler) -> dict[str, float]:
    return {
        "n": len(handler.wall_s),
        "cpu_ms": _ms(sum(handler.cpu_s)),
        "max_cpu_ms": _ms(max(handler.cpu_s, default=0.0)),
        "max_wall_ms": _ms(max(handler.wall_s, default=0.0)),
        "longest_turn_ms": _ms(handler.longest_turn_s),
    }


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {
        "n": len(seconds),
        "median": _ms(statistics.median(seconds)),
        "p95": _ms(cuts[94]),
        "p99": _ms(cuts[98]),
        "max": _ms(max(seconds)),
    }


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
