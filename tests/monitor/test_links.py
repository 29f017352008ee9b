"""Bytes over real connections on loopback."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from spectui.monitor.links import Links
from spectui.monitor.readings import LinkReading
from spectui.monitor.sampler import LiveSource

MANY = 300_000
"""More than one segment, and than a socket's first window."""


class Server:
    """Listens on loopback, and keeps both ends of its connections in this process."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def connect(self) -> tuple[socket.socket, socket.socket]:
        ours = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        theirs, _address = self._listener.accept()
        return ours, self._stack.enter_context(theirs)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def carry(sender: socket.socket, receiver: socket.socket, n: int) -> None:
    """Send ``n`` bytes, until all have arrived."""
    while n:
        sent = sender.send(bytes(min(n, 1 << 14)))
        receiver.recv(sent, socket.MSG_WAITALL)
        n -= sent


def only(found: tuple[LinkReading, ...]) -> LinkReading:
    (one,) = found
    return one


def test_every_byte_is_counted(stack: ExitStack) -> None:
    server = Server(stack)
    links = Links([server.endpoint])
    ours, theirs = server.connect()
    first = only(links.read(1.0))
    assert (first.sent_bytes, first.received_bytes) == (0, 0)
    assert "two samples" in (first.sent_bytes_per_s.reason or "")
    carry(ours, theirs, MANY)
    carry(theirs, ours, 7)
    found = only(links.read(3.0))
    assert (found.sent_bytes, found.received_bytes) == (MANY, 7)
    assert (found.sent_bytes_per_s.value, found.received_bytes_per_s.value) == (MANY / 2, 3.5)


def test_connections_that_follow_each_other_add_up(stack: ExitStack) -> None:
    server = Server(stack)
    links = Links([server.endpoint])
    ours, theirs = server.connect()
    carry(ours, theirs, 1000)
    assert only(links.read(1.0)).sent_bytes == 1000
    ours.close()
    gone = only(links.read(2.0))
    assert gone.sent_bytes == 1000
    assert gone.sent_bytes_per_s.reason == "no model is on this server"
    ours, theirs = server.connect()
    carry(ours, theirs, 10)
    assert only(links.read(3.0)).sent_bytes == 1010


HOLDS_A_CONNECTION = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(bytes(1000))
sys.stdin.read()
"""


def test_the_connections_of_another_process_are_counted(stack: ExitStack) -> None:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = listener.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_CONNECTION, str(port)], stdin=subprocess.PIPE
    ) as other:
        theirs, _address = listener.accept()
        with theirs:
            theirs.recv(1000, socket.MSG_WAITALL)
            links = Links([f"127.0.0.1:{port}"], lambda: other.pid)
            assert only(Links([f"127.0.0.1:{port}"]).read(1.0)).sent_bytes == 0
            assert only(links.read(1.0)).sent_bytes == 1000
            other.kill()
            other.wait()
            found = only(links.read(2.0))
    assert found.sent_bytes == 1000
    assert found.sent_bytes_per_s.reason == "no model is on this server"


def test_a_system_that_keeps_them_to_itself_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with socket.create_server(("127.0.0.1", 0)):
        found = only(Links(["127.0.0.1:1"], os.getpid).read(1.0))
    assert found.sent_bytes_per_s.reason == "the system does not tell the bytes of a connection"


def test_each_server_has_its_own(stack: ExitStack) -> None:
    servers = [Server(stack), Server(stack), Server(stack)]
    links = Links([servers[0].endpoint, servers[1].endpoint])
    for n, server in enumerate(servers):
        carry(*server.connect(), n)
    assert [one.sent_bytes for one in links.read(1.0)] == [0, 1]
    assert [one.endpoint for one in links.read(1.0)] == [one.endpoint for one in servers[:2]]


def test_a_host_that_cannot_be_found_has_no_connection() -> None:
    found = only(Links(["no-such-host.invalid:1"]).read(1.0))
    assert found.received_bytes_per_s.reason == "no model is on this server"
    assert Links([]).read(1.0) == ()


def test_the_sampler_reads_the_servers_that_models_are_on_now(stack: ExitStack) -> None:
    server = Server(stack)
    watched: list[str] = []
    with closing(LiveSource(rpc=lambda: watched)) as source:
        assert source.read().links == ()
        watched.append(server.endpoint)
        carry(*server.connect(), 1000)
        assert only(source.read().links).sent_bytes == 1000
