"""The time of one round of questions: one limit for all of them, however many stall."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Allowance:
    """The seconds that a round of questions may take."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Begin to count.

        Args:
            seconds: for the whole round.
            clock: in seconds.
        """
        self._clock = clock
        self._ends_s = clock() + seconds

    @property
    def rest_s(self) -> float:
        """What is left, for the last question."""
        return max(0.0, self._ends_s - self._clock())

    @property
    def share_s(self) -> float:
        """Half of what is left, so that an answer that never comes leaves time for the others."""
        return self.rest_s / 2


async def together(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Await both at once; what the first to fail raises ends the other."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
