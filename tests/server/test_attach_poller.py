"""The thread that asks a server again and again."""

import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spectui.server.address import parse_address
from spectui.server.watch import poller
from spectui.server.watch.poller import Attachment, Poller
from spectui.server.watch.sample import (
    Event,
    FailedSample,
    Sample,
    ServerSample,
    Trouble,
    WaitingSample,
)
from tests.support.attached import Script, hang, serving

WAIT_S = 60


class Watch:
    """A poller, and what it has handed over."""

    def __init__(self, wanted: Attachment, interval_s: float = 0.01) -> None:
        self.samples: queue.Queue[Event] = queue.Queue()
        self.failures: list[BaseException] = []
        self.poller = Poller(
            wanted, self.samples.put, interval_s=interval_s, on_failure=self.failures.append
        )

    def next(self) -> Sample:
        while isinstance(found := self.samples.get(timeout=WAIT_S), WaitingSample):
            pass
        return found

    def until(self, kind: type[Sample]) -> Sample:
        while not isinstance(found := self.next(), kind):
            pass
        return found


def attachment(script: Script, timeout_s: float = 30.0) -> Attachment:
    return Attachment(address=parse_address(script.address), timeout_s=timeout_s)


@contextmanager
def watching(script: Script, interval_s: float = 0.01, timeout_s: float = 30.0) -> Iterator[Watch]:
    watch = Watch(attachment(script, timeout_s), interval_s)
    watch.poller.start()
    try:
        yield watch
    finally:
        watch.poller.close()
        assert not watch.poller._thread.is_alive()
        assert watch.failures == []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_samples_come_in_turn() -> None:
    with serving() as script, watching(script) as watch:
        samples = [watch.next() for _ in range(20)]
    assert all(isinstance(each, ServerSample) for each in samples)
    times = [each.time_s for each in samples]
    assert times == sorted(times)
    # Of a server at work, /metrics and /slots are asked for together.
    assert script.most_at_once <= 2


def test_it_reconnects_when_the_server_is_back() -> None:
    port, script = free_port(), Script()
    script.address = f"127.0.0.1:{port}"
    with watching(script) as watch:
        first = watch.next()
        assert isinstance(first, FailedSample)
        assert (first.failure.trouble, first.retry_s) == (Trouble.UNREACHABLE, 0.5)
        with serving(script, port):
            watch.poller.try_now()
            assert isinstance(watch.until(ServerSample), ServerSample)
        lost = watch.until(FailedSample)
        assert isinstance(lost, FailedSample)
        assert lost.retry_s == 0.5
        again = Script()
        with serving(again, port):
            watch.poller.try_now()
            watch.until(ServerSample)
    # A server that is back is asked for everything.
    assert again.asked[:3] == ["/health", "/props", "/v1/models"]


def test_what_takes_long_is_said_while_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "_PATIENCE_S", 0.05)
    with serving() as script:
        script.plays["/slots"] = hang
        with watching(script) as watch:
            waits = [watch.samples.get(timeout=WAIT_S) for _ in range(3)]
    assert all(isinstance(each, WaitingSample) for each in waits)
    waited = [each.waited_s for each in waits if isinstance(each, WaitingSample)]
    assert waited == sorted(waited)


def test_it_ends_in_the_middle_of_a_question() -> None:
    with serving() as script:
        script.plays["/health"] = hang
        with watching(script, timeout_s=WAIT_S):
            assert script.seen("/health").wait(WAIT_S)


def test_a_defect_is_told() -> None:
    with serving() as script:
        failures: list[BaseException] = []

        def broken(_sample: Event) -> None:
            raise ZeroDivisionError

        asking = Poller(
            Attachment(address=parse_address(script.address)),
            broken,
            interval_s=0.01,
            on_failure=failures.append,
        )
        asking.start()
        asking._thread.join(WAIT_S)
    assert [type(each) for each in failures] == [ZeroDivisionError]


def test_trying_now_does_not_wait_for_the_interval() -> None:
    with serving() as script, watching(script, interval_s=3600) as watch:
        found = [watch.next()]
        for _ in range(3):
            watch.poller.try_now()
            found.append(watch.next())
    assert all(isinstance(each, ServerSample) for each in found)
    assert script.asked.count("/slots") == 4
