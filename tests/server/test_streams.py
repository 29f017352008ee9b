"""Requests in flight: always as many as there are streams, and none is left behind."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.server.client import keep_busy


class Clocked:
    """Answers requests after some seconds of a clock that only moves when all wait."""

    def __init__(self, fails: str | None = None) -> None:
        self.now_s = 0.0
        self.begun: list[str] = []
        self.n_broken_off = 0
        self.in_flight: list[int] = []
        """Requests under way whenever one was answered."""
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._fails = fails

    async def ask(self, request: tuple[str, float]) -> str:
        name, seconds = request
        self.begun.append(name)
        if name == self._fails:
            raise ValueError(name)
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = self.now_s + seconds
        try:
            await future
        except asyncio.CancelledError:
            self.n_broken_off += 1
            raise
        finally:
            self._waiting.pop(future, None)
        return name

    async def run(self) -> None:
        """Move the clock to the next answer, and on."""
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            due = sorted(self._waiting.items(), key=lambda one: one[1])
            if due:
                self.in_flight.append(len(due))
                self.now_s = due[0][1]
                due[0][0].set_result(None)


def answered(
    server: Clocked,
    wanted: Sequence[tuple[str, float]],
    n_streams: int,
    fillers: Sequence[tuple[str, float]] = (("filler", 2.0),),
) -> list[tuple[str, float]]:
    async def both() -> list[tuple[str, float]]:
        clock = asyncio.ensure_future(server.run())
        try:
            return await keep_busy(
                server.ask, wanted, fillers, n_streams, clock=lambda: server.now_s
            )
        finally:
            clock.cancel()

    return asyncio.run(both())


def test_a_stream_takes_the_next_request_and_then_fillers() -> None:
    server = Clocked()
    wanted = [("a", 3.0), ("b", 1.0), ("c", 1.5), ("d", 4.0)]
    assert answered(server, wanted, 2) == wanted
    assert server.begun == ["a", "b", "c", "d", "filler", "filler"]
    assert (server.now_s, server.n_broken_off) == (6.5, 1)


def test_one_stream_asks_for_nothing_else() -> None:
    server = Clocked()
    assert answered(server, [("a", 1.0), ("b", 1.0)], 1) == [("a", 1.0), ("b", 1.0)]
    assert server.begun == ["a", "b"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 5))
def test_as_many_are_always_in_flight(seconds: list[int], n_streams: int) -> None:
    server = Clocked()
    wanted = [(str(number), float(one)) for number, one in enumerate(seconds)]
    assert answered(server, wanted, n_streams) == wanted
    assert set(server.in_flight) == {n_streams}
    assert server.n_broken_off == n_streams - 1


@pytest.mark.parametrize("failing", ["b", "filler"])
def test_a_failure_ends_all(failing: str) -> None:
    server = Clocked(failing)
    with pytest.raises(ValueError, match=failing):
        answered(server, [("a", 9.0), ("b", 1.0)], 3)
    assert server.n_broken_off == 2
