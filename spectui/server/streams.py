"""Keeps several requests in flight, as that many users of one server would."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import Any, TypeVar

R = TypeVar("R")
T = TypeVar("T")


async def keep_busy(
    ask: Callable[[R], Awaitable[T]],
    wanted: Sequence[R],
    fillers: Sequence[R],
    n_streams: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple[T, float]]:
    """Get an answer to each of ``wanted``, with ``n_streams`` requests in flight until the last.

    A stream takes the next request as soon as its own is answered. Where none is left, it asks for
    fillers, so that the last ones are answered beside as many others as the first. Fillers under
    way are broken off in the end.

    Args:
        ask: sends a request, and returns the answer.
        wanted: requests in the order in which they are sent; not empty.
        fillers: requests whose answers nobody needs; not empty.
        n_streams: number of requests in flight.
        clock: seconds.

    Returns:
        The answers in the order of ``wanted``, each with the seconds from sending to the answer.

    Raises:
        Exception: the first failure of any stream, once all of them have ended.
    """
    answers: dict[int, tuple[T, float]] = {}
    queue, rest = iter(enumerate(wanted)), cycle(fillers)
    complete = asyncio.Event()

    async def stream() -> None:
        for number, request in queue:
            began_s = clock()
            answer = await ask(request)
            answers[number] = (answer, clock() - began_s)
        if len(answers) == len(wanted):
            complete.set()
        while not complete.is_set():
            await ask(next(rest))

    await _until(complete, [asyncio.ensure_future(stream()) for _ in range(n_streams)])
    return [answers[number] for number in range(len(wanted))]


async def _until(complete: asyncio.Event, streams: Sequence["asyncio.Future[None]"]) -> None:
    """Let the streams run until it is complete, or one of them fails; end them all."""
    end = asyncio.ensure_future(complete.wait())
    every: list[asyncio.Future[Any]] = [end, *streams]
    try:
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        for one in streams:
            if one.done():
                one.result()
    finally:
        for one in every:
            one.cancel()
        await asyncio.gather(*every, return_exceptions=True)
