"""Traffic over the links to RPC servers, as the kernel counts it for the models' connections.

llama.cpp's library has the connections, in this process or in one of the models' own. Its file
descriptors are found among the process's by whom they lead to, and the kernel tells of each how
many bytes were acknowledged and received.
"""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from spectui.monitor.readings import CounterRate, LinkReading, Reading

_PROC = Path("/proc")
_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438
"""Of Linux 5.6, on every kind of processor."""
_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""In a container, or by an older kernel."""
_INFO = struct.Struct("=120x2Q")
"""``tcpi_bytes_acked`` and ``tcpi_bytes_received`` of Linux's ``struct tcp_info``."""
_NO_CONNECTION = Reading(None, "no model is on this server")
_NO_COUNTERS = Reading(None, "the system does not tell the bytes of a connection")

_Address = tuple[str, int]
_Ends = tuple[_Address, _Address]
"""Addresses here and there."""
_Bytes = tuple[int, int]
"""Sent and received."""


class Links:
    """Reads the connections that a process has to RPC servers.

    What a connection carries between the last reading and its end is not seen.
    """

    def __init__(
        self, endpoints: Sequence[str], process: Callable[[], int | None] = lambda: None
    ) -> None:
        """Look up the servers' addresses.

        Args:
            endpoints: ``HOST:PORT`` of each.
            process: asked at every reading for the process with the models; None for this one.
        """
        self._process = process
        self.endpoints = tuple(endpoints)
        self._links = tuple(_Link(endpoint) for endpoint in endpoints)

    def read(self, now_s: float) -> tuple[LinkReading, ...]:
        """Return bytes so far, and the rates since the last reading, of every server."""
        found = _connections(self._process()) if self._links else None
        return tuple(link.read(found, now_s) for link in self._links)


class _Link:
    """The connections to one server, one after the other: the library opens them as it needs."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._addresses = _addresses(endpoint)
        self._last: dict[_Ends, _Bytes] = {}
        self._sent = self._received = 0
        self._rates = CounterRate(), CounterRate()

    def read(self, connections: Mapping[_Ends, _Bytes] | None, now_s: float) -> LinkReading:
        ours = {
            ends: counted
            for ends, counted in (connections or {}).items()
            if ends[1] in self._addresses
        }
        for ends, (sent, received) in ours.items():
            sent_before, received_before = self._last.get(ends, (0, 0))
            self._sent += sent - sent_before
            self._received += received - received_before
        self._last = ours
        rates = [
            rate.update(total, now_s)
            for rate, total in zip(self._rates, (self._sent, self._received), strict=True)
        ]
        if not ours:
            rates = [_NO_COUNTERS if connections is None else _NO_CONNECTION] * 2
        return LinkReading(
            endpoint=self._endpoint,
            sent_bytes=self._sent,
            received_bytes=self._received,
            sent_bytes_per_s=rates[0],
            received_bytes_per_s=rates[1],
        )


def _addresses(endpoint: str) -> frozenset[_Address]:
    host, _, port = endpoint.rpartition(":")
    with suppress(OSError, ValueError, OverflowError):
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        return frozenset((str(address[0]), int(port)) for *_, address in found)
    return frozenset()


def _connections(pid: int | None) -> dict[_Ends, _Bytes] | None:
    """The TCP connections of a process, None for this one; None where they are not told."""
    if not _PROC.exists():
        return None
    found: dict[_Ends, _Bytes] = {}
    # It may end at any moment, and open and close what it likes before that.
    with suppress(FileNotFoundError):
        for link in (_PROC / str(pid or "self") / "fd").iterdir():
            try:
                if str(link.readlink()).startswith("socket:"):
                    with _copied(pid, int(link.name)) as copy:
                        found.update(_counted(copy))
            except OSError as error:
                if error.errno in _REFUSED:
                    return None
    return found


def _copied(pid: int | None, number: int) -> socket.socket:
    """A socket on a copy of a process's descriptor: the connection stays its owner's."""
    if pid is None:
        return socket.socket(fileno=os.dup(number))
    process = os.pidfd_open(pid)
    try:
        copy = _LIBC.syscall(_PIDFD_GETFD, process, number, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "no copy of another process's descriptor")
    return socket.socket(fileno=copy)


def _counted(connection: socket.socket) -> Iterator[tuple[_Ends, _Bytes]]:
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        here, there = connection.getsockname(), connection.getpeername()
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        if len(info) == _INFO.size:
            acked, received = _INFO.unpack(info)
            # What opens a connection is acknowledged as one byte.
            yield (here[:2], there[:2]), (max(acked - 1, 0), received)
