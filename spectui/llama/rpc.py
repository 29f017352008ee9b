"""llama.cpp's RPC servers, asked over their own protocol: version, devices, memory, link.

The library ends the whole process where a server cannot be reached, answers wrongly or has another
version (``get_dispatcher`` in llama.cpp's ``ggml-rpc.cpp``), and waits for ever for one that serves
somebody else: it takes one client at a time. So a server is asked here before the library is.
"""

import socket
import statistics
import struct
import time
from dataclasses import dataclass
from enum import IntEnum

import psutil

from spectui.closing import Closing
from spectui.errors import UsageError

PROTOCOL = (7, 0)
"""``RPC_PROTO_MAJOR_VERSION`` and ``_MINOR_VERSION`` of the pinned llama.cpp."""
TIMEOUT_S = 3.0
"""Limit for one answer. A server that does not know anybody yet answers in milliseconds."""
_MOST_DEVICES = 64
_LINK_BYTES = 4 << 20
"""Bytes that measure the link, each way; well below what the library would hash instead."""
_N_ROUND_TRIPS = 9


class _Command(IntEnum):
    """``enum rpc_cmd``."""

    ALLOC_BUFFER = 0
    BUFFER_GET_BASE = 3
    FREE_BUFFER = 4
    SET_TENSOR = 6
    GET_TENSOR = 8
    HELLO = 14
    DEVICE_COUNT = 15


_RESET = struct.pack("ii", 1, 0)
"""``struct linger``: nothing is waited for."""
_HELLO = struct.Struct("<24s")
_VERSION = struct.Struct("<BBBx24s")
_COUNT = struct.Struct("<I")
_MEMORY = struct.Struct("<QQ")
_REQUEST = struct.Struct("<BQ")
_SIZE = struct.Struct("<Q")
_ALLOCATE = struct.Struct("<IQ")
_TENSOR = struct.Struct("<QIQ4I4II16ii10QQQQ64si")
"""``struct rpc_tensor``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Speed of the link to a server."""

    round_trip_s: float
    """Median time of a question and its answer."""
    sent_bytes_per_s: float
    received_bytes_per_s: float


def ensure_free(endpoint: str) -> None:
    """Check that the library can connect to a server, and would not wait for it for ever.

    One that serves this process already is not asked: it would not answer a second connection.

    Raises:
        UsageError: as ``RpcServer``, or it has no devices.
    """
    if not _serves_this_process(endpoint):
        with RpcServer(endpoint) as server:
            _ = server.n_devices


def _serves_this_process(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, OverflowError):
        return False
    addresses = {address[:2] for *_, address in found}
    return any(
        one.status == psutil.CONN_ESTABLISHED and tuple(one.raddr) in addresses
        for one in psutil.Process().net_connections("tcp")
    )


class RpcServer(Closing):
    """A connection to one server. While it is open, nobody else is served."""

    def __init__(self, endpoint: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Connect, and compare versions.

        Args:
            endpoint: ``HOST:PORT``.
            timeout_s: limit for every answer.

        Raises:
            UsageError: nobody listens there, it serves another client, is no RPC server of
                llama.cpp's, or has another version.
        """
        self._endpoint = endpoint
        host, _, port = endpoint.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout_s)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"--rpc {endpoint}: no RPC server answers there ({error}); start one with "
                f"ggml-rpc-server -H {host} -p {port}"
            ) from None
        # Closed by a reset: a server that is busy reads the question once it is free, and a signal
        # would end it for answering who has hung up. Of a reset it is told, and goes on.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        major, minor, patch, _capabilities = _VERSION.unpack(
            self._ask(_Command.HELLO, _HELLO.pack(b""), _VERSION.size)
        )
        if major != PROTOCOL[0] or minor > PROTOCOL[1]:
            raise UsageError(
                f"--rpc {self._endpoint}: the server speaks version {major}.{minor}.{patch} of "
                f"llama.cpp's RPC protocol, and this llama.cpp version "
                f"{'.'.join(map(str, PROTOCOL))}; build both from the same llama.cpp"
            )

    @property
    def n_devices(self) -> int:
        """Devices that it has."""
        (n,) = _COUNT.unpack(self._ask(_Command.DEVICE_COUNT, b"", _COUNT.size))
        if not 0 < n <= _MOST_DEVICES:
            raise UsageError(f"--rpc {self._endpoint}: the server has {n} devices; check it")
        return int(n)

    def link(self) -> Link:
        """Measure the link, with a few megabytes in the memory of the first device.

        Raises:
            UsageError: the device has no such memory, or the server goes away.
        """
        buffer, size = _MEMORY.unpack(
            self._ask(_Command.ALLOC_BUFFER, _ALLOCATE.pack(0, _LINK_BYTES), _MEMORY.size)
        )
        if not buffer or size < _LINK_BYTES:
            raise UsageError(f"--rpc {self._endpoint}: no memory to measure the link with")
        (base,) = _SIZE.unpack(self._ask(_Command.BUFFER_GET_BASE, _SIZE.pack(buffer), _SIZE.size))
        tensor = _floats(buffer, base, _LINK_BYTES // 4)
        try:
            round_trip_s = statistics.median(self._round_trip_s() for _ in range(_N_ROUND_TRIPS))
            began = time.perf_counter()
            self._send(_Command.SET_TENSOR, tensor + bytes(9 + _LINK_BYTES))
            _ = self.n_devices
            sent = time.perf_counter()
            self._ask(_Command.GET_TENSOR, tensor + _MEMORY.pack(0, _LINK_BYTES), _LINK_BYTES)
            received = time.perf_counter()
        finally:
            self._send(_Command.FREE_BUFFER, _SIZE.pack(buffer))
        return Link(
            round_trip_s=round_trip_s,
            sent_bytes_per_s=_LINK_BYTES / max(sent - began - round_trip_s, 1e-9),
            received_bytes_per_s=_LINK_BYTES / max(received - sent - round_trip_s, 1e-9),
        )

    def close(self) -> None:
        """Let the server serve others."""
        self._socket.close()

    def _round_trip_s(self) -> float:
        began = time.perf_counter()
        _ = self.n_devices
        return time.perf_counter() - began

    def _send(self, command: _Command, data: bytes) -> None:
        self._socket.sendall(_REQUEST.pack(command, len(data)) + data)

    def _ask(self, command: _Command, data: bytes, size: int) -> bytes:
        """The answer to a question, which has ``size`` bytes."""
        try:
            self._send(command, data)
            (told,) = _SIZE.unpack(self._received(_SIZE.size))
            if told == size:
                return self._received(size)
        except TimeoutError:
            raise UsageError(
                f"--rpc {self._endpoint}: the server does not answer; it serves one client at a "
                "time, so end the other one, or it is no RPC server of llama.cpp's"
            ) from None
        except OSError as error:
            raise UsageError(f"--rpc {self._endpoint}: the connection broke ({error})") from None
        raise UsageError(f"--rpc {self._endpoint}: no RPC server of llama.cpp's answers there")

    def _received(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            part = self._socket.recv(min(missing, 1 << 16))
            if not part:
                raise ConnectionError("the server closed it")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def _floats(buffer: int, base: int, n: int) -> bytes:
    """A tensor of ``n`` 32-bit floats at the start of a buffer of the server's."""
    lengths, strides = (n, 1, 1, 1), (4, 4 * n, 4 * n, 4 * n)
    return _TENSOR.pack(
        *(0, 0, buffer, *lengths, *strides, 0, *([0] * 16), 0, *([0] * 10)),
        *(0, 0, base, b"link", 0),
    )
