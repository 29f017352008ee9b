"""An event loop on a thread of its own, for callers that do not wait in one."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_JOIN_S = 1.0
"""A task may be inside a driver or a sink, which nobody waits for longer."""


class LoopThread:
    """Runs tasks on a daemon thread, which begins with the first of them.

    Not on the caller's: a signal may interrupt that anywhere, and what an event loop runs survives
    that only between its steps.
    """

    def __init__(self, name: str) -> None:
        """Prepare a thread of that name."""
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, task: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin a task."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            run = self._loop.run_forever
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(task, self._loop)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel all tasks, wait for a ``last`` one, and end the thread. May be called again."""
        if self._loop is None or self._thread is None:
            return
        with suppress(TimeoutError):
            self.submit(_end_tasks(last)).result(_JOIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = None


async def _end_tasks(last: Callable[[], Awaitable[None]] | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for one in others:
        one.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if last is not None:
        await last()
