"""The thread that asks a server again and again."""

import asyncio
import os
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from spectui.server.watch.locator import Address, Locator, parse_address
from spectui.server.watch.poller import Poller
from spectui.server.watch.sample import Failure, Sample, ServerSample, Trouble
from tests.support.attached import Script, hang, serving

WAIT_S = 60


class Watch:
    """A poller, and what it has handed over."""

    def __init__(self, wanted: Address, interval_s: float = 0.01) -> None:
        self.samples: queue.Queue[Sample] = queue.Queue()
        self.failures: list[BaseException] = []
        self.poller = Poller(
            wanted, self.samples.put, interval_s=interval_s, on_failure=self.failures.append
        )

    def next(self) -> Sample:
        return self.samples.get(timeout=WAIT_S)

    def until(self, kind: type[Sample]) -> Sample:
        while not isinstance(found := self.next(), kind):
            pass
        return found


def attachment(script: Script, timeout_s: float = 30.0) -> Address:
    return replace(parse_address(script.address), timeout_s=timeout_s)


@contextmanager
def watching(script: Script, interval_s: float = 0.01, timeout_s: float = 30.0) -> Iterator[Watch]:
    watch = Watch(attachment(script, timeout_s), interval_s)
    watch.poller.start()
    try:
        yield watch
    finally:
        watch.poller.close()
        assert "spectui-attach" not in {thread.name for thread in threading.enumerate()}
        assert watch.failures == []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_samples_come_in_turn() -> None:
    with serving() as script, watching(script) as watch:
        samples = [watch.next() for _ in range(20)]
    times = [each.time_s for each in samples if isinstance(each, ServerSample)]
    assert len(times) == len(samples)
    assert times == sorted(times)
    # /metrics and /slots are asked for together.
    assert script.most_at_once <= 2


def test_it_reconnects_when_the_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.server.watch.poller._RETRY_S", 0.01)
    port, script = free_port(), Script()
    script.address = f"127.0.0.1:{port}"
    with watching(script) as watch:
        first = watch.next()
        assert isinstance(first, Failure)
        assert first.trouble is Trouble.UNREACHABLE
        with serving(script, port):
            watch.until(ServerSample)
        watch.until(Failure)
        again = Script()
        with serving(again, port):
            watch.until(ServerSample)
    # A server that is back is asked for everything.
    assert again.asked[:3] == ["/health", "/v1/models", "/props"]


def test_it_ends_in_the_middle_of_a_question() -> None:
    with serving() as script:
        script.plays["/health"] = hang
        with watching(script, timeout_s=WAIT_S):
            assert script.seen("/health").wait(WAIT_S)


def test_a_defect_is_told() -> None:
    with serving() as script:
        failures: queue.Queue[BaseException] = queue.Queue()

        def broken(_sample: Sample) -> None:
            raise ZeroDivisionError

        with Poller(
            parse_address(script.address),
            broken,
            interval_s=0.01,
            on_failure=failures.put,
        ) as asking:
            asking.start()
            assert isinstance(failures.get(timeout=WAIT_S), ZeroDivisionError)


def test_a_process_is_looked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.server.watch.locator.runs_llama", lambda _process: True)
    with serving() as script:
        locator = Locator(parse_address(script.address))
        first = asyncio.run(locator.look(0.0))
        assert first[1].value is not None
        assert first[1].value.pid == os.getpid()
        assert asyncio.run(locator.look(0.9)) is first
        assert asyncio.run(locator.look(1.1)) is not first
