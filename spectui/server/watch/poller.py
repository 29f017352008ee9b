"""The thread that asks a server again and again."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from spectui.closing import Closing
from spectui.server.address import Address
from spectui.server.connection import Connection
from spectui.server.watch.interview import Interview
from spectui.server.watch.locator import Locator
from spectui.server.watch.sample import Failure, Sample, Trouble

TIMEOUT_S = 5.0
_JOIN_S = 1.0
_LOADING_S = 1.0
"""Pause between questions to a server that loads its model."""
_FIRST_S = 0.5
_LONGEST_S = 10.0
"""The first and the longest pause after other failures; each is twice as long as the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The server to ask, and how."""

    address: Address
    api_key: str | None = None
    model: str | None = None
    """Name of the model at a router."""
    timeout_s: float = TIMEOUT_S
    """The longest that an answer may take."""

    @asynccontextmanager
    async def interview(
        self, clock: Callable[[], float] = time.monotonic
    ) -> AsyncIterator[Interview]:
        """Return an interview over a connection that is closed at last; ``clock`` is in seconds."""
        connection = Connection(
            self.address.url, api_key=self.api_key, model=self.model, timeout_s=self.timeout_s
        )
        try:
            yield Interview(connection, Locator(self.address), clock=clock)
        finally:
            await connection.close()


async def ask(wanted: Attachment, interval_s: float = 0.0) -> tuple[Sample, ...]:
    """Ask once, or twice with an interval, so that rates are known; once where nobody answers."""
    async with wanted.interview() as interview:
        first = await interview.ask()
        if isinstance(first, Failure) or not interval_s:
            return (first,)
        await asyncio.sleep(interval_s)
        return first, await interview.ask()


class Poller(Closing):
    """Hands a sample to a sink every interval, from a daemon thread of its own.

    One round of questions is under way at a time: a server that answers slowly is asked less often.
    """

    def __init__(
        self,
        wanted: Attachment,
        sink: Callable[[Sample], None],
        *,
        interval_s: float,
        on_failure: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """Prepare the poller; ``start`` begins.

        Args:
            wanted: the server.
            sink: called on the thread with every sample; it must only store or post it.
            interval_s: from the beginning of one round of questions to the next.
            on_failure: called on the thread with what ended it, if that is a defect.
        """
        self._wanted = wanted
        self._sink = sink
        self._on_failure = on_failure
        self._interval_s = interval_s
        self._woken = asyncio.Event()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._thread = threading.Thread(target=self._run, name="spectui-attach", daemon=True)

    def start(self) -> None:
        """Begin, once."""
        self._runner.get_loop()
        self._thread.start()

    def try_now(self) -> None:
        """Ask at once instead of waiting."""
        self._call(self._woken.set)

    def close(self) -> None:
        """End it, in the middle of a question if need be. May be called again."""
        self._call(self._cancel)
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _call(self, what: Callable[[], object]) -> None:
        """Call it on the thread, if that runs."""
        if self._thread.is_alive():
            # Its loop may end at this moment.
            with suppress(RuntimeError):
                self._runner.get_loop().call_soon_threadsafe(what)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError), self._runner:
                self._runner.run(self._ask_on())
        except BaseException as error:  # noqa: BLE001 - a thread that dies silently leaves stale panels
            self._on_failure(error)

    async def _ask_on(self) -> None:
        loop, retry_s = asyncio.get_running_loop(), _FIRST_S
        async with self._wanted.interview() as interview:
            while True:
                began_s = loop.time()
                sample = await interview.ask()
                if isinstance(sample, Failure):
                    wait_s = _LOADING_S if sample.trouble is Trouble.LOADING else retry_s
                    retry_s = min(2 * retry_s, _LONGEST_S)
                    sample = replace(sample, retry_s=wait_s)
                else:
                    wait_s, retry_s = began_s + self._interval_s - loop.time(), _FIRST_S
                self._sink(sample)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(wait_s, 0.0)):
                        await self._woken.wait()
                self._woken.clear()
