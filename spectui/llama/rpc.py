"""llama.cpp's RPC servers, asked over their own protocol: version and devices.

The library ends the whole process where a server cannot be reached, answers wrongly or has another
version (``get_dispatcher`` in llama.cpp's ``ggml-rpc.cpp``), and waits for ever for one that serves
somebody else: it takes one client at a time. So a server is asked here before the library is.
"""

import socket
import struct
from enum import IntEnum

import psutil

from spectui.closing import Closing
from spectui.errors import UsageError

PROTOCOL = (7, 0)
"""``RPC_PROTO_MAJOR_VERSION`` and ``_MINOR_VERSION`` of the pinned llama.cpp."""
TIMEOUT_S = 3.0
"""Limit for one answer. A server that does not know anybody yet answers in milliseconds."""
_MOST_DEVICES = 64


class _Command(IntEnum):
    """``enum rpc_cmd``."""

    HELLO = 14
    DEVICE_COUNT = 15


_RESET = struct.pack("ii", 1, 0)
"""``struct linger``: nothing is waited for."""
_HELLO = struct.Struct("<24s")
_VERSION = struct.Struct("<BBBx24s")
_COUNT = struct.Struct("<I")
_REQUEST = struct.Struct("<BQ")
_SIZE = struct.Struct("<Q")


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

    def close(self) -> None:
        """Let the server serve others."""
        self._socket.close()

    def _ask(self, command: _Command, data: bytes, size: int) -> bytes:
        """The answer to a question, which has ``size`` bytes."""
        try:
            self._socket.sendall(_REQUEST.pack(command, len(data)) + data)
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
