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
from spectui.server.watch.sample import Event, FailedSample, Sample, Trouble, WaitingSample

TIMEOUT_S = 5.0
_PATIENCE_S = 1.5
"""A round of questions that takes longer is reported as slow, and again after each such time."""
_JOIN_S = 1.0
_FIRST_S = 0.5
_LONGEST_S = 10.0
_STEADY_S = {Trouble.LOADING: 1.0, Trouble.LOCKED: 10.0}
"""It answers, so that asking costs little, or will not answer otherwise before somebody acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The server to ask, and how."""

    address: Address
    api_key: str | None = None
    model: str | None = None
    """Name of the model at a router."""
    timeout_s: float = TIMEOUT_S
    """The longest that a round of questions may take, whichever of them stall."""

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


async def ask_once(wanted: Attachment) -> Sample:
    """Ask once."""
    async with wanted.interview() as interview:
        return await interview.ask()


async def ask_twice(wanted: Attachment, interval_s: float) -> tuple[Sample, Sample]:
    """Ask twice, so that rates are known; only once where the first question finds no answer."""
    async with wanted.interview() as interview:
        first = await interview.ask()
        if isinstance(first, FailedSample):
            return first, first
        await asyncio.sleep(interval_s)
        return first, await interview.ask()


class Backoff:
    """Backoff after failures: twice as long each time, up to ten seconds."""

    def __init__(self) -> None:
        """Begin with no failure."""
        self._next_s = _FIRST_S

    def failed(self, trouble: Trouble) -> float:
        """Return the seconds to wait after one more failure."""
        steady_s = _STEADY_S.get(trouble)
        if steady_s is not None:
            self._next_s = _FIRST_S
            return steady_s
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, _LONGEST_S)
        return wait_s

    def succeeded(self) -> None:
        """Forget the failures."""
        self._next_s = _FIRST_S


class Poller(Closing):
    """Hands a sample to a sink every interval, from a daemon thread of its own.

    One round of questions is under way at a time: a server that answers slowly is asked less often.
    """

    def __init__(
        self,
        wanted: Attachment,
        sink: Callable[[Event], None],
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken: asyncio.Event | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="spectui-attach", daemon=True)

    def start(self) -> None:
        """Begin, once."""
        self._thread.start()

    def try_now(self) -> None:
        """Ask at once instead of waiting."""
        with self._lock:
            if self._loop is not None and self._woken is not None:
                self._loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """End it, in the middle of a question if need be."""
        with self._lock:
            self._is_closed = True
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                asyncio.run(self._ask_on())
        except BaseException as error:  # noqa: BLE001 - a thread that dies silently leaves stale panels
            self._on_failure(error)

    async def _ask_on(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            self._woken = asyncio.Event()
        try:
            async with self._wanted.interview() as interview:
                await self._ask_in_turn(interview)
        finally:
            with self._lock:
                self._loop = None

    async def _ask_in_turn(self, interview: Interview) -> None:
        backoff, loop = Backoff(), asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            sample = await self._asked(interview)
            if isinstance(sample, FailedSample):
                wait_s = backoff.failed(sample.failure.trouble)
                sample = replace(sample, retry_s=wait_s)
            else:
                backoff.succeeded()
                wait_s = began_s + self._interval_s - loop.time()
            self._sink(sample)
            await self._wait(wait_s)

    async def _asked(self, interview: Interview) -> Sample:
        """Ask; say now and then that no answer is there yet."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        question = asyncio.ensure_future(interview.ask())
        try:
            while not (await asyncio.wait({question}, timeout=_PATIENCE_S))[0]:
                now_s = loop.time()
                self._sink(WaitingSample(time_s=now_s, waited_s=now_s - began_s))
            return question.result()
        finally:
            question.cancel()

    async def _wait(self, seconds: float) -> None:
        if self._woken is None:
            raise RuntimeError("the poller is not running")
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._woken.wait()
        self._woken.clear()
