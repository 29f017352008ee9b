"""Checks llama.cpp's RPC servers over their own protocol: whether they answer, and their version.

The library ends the whole process where a server cannot be reached, answers wrongly or has another
version (``get_dispatcher`` in llama.cpp's ``ggml-rpc.cpp``), and waits for ever for one that serves
another client: it takes one at a time. So a server is checked here before the library connects.
"""

import socket
import struct

import psutil

from spectui.errors import UsageError

PROTOCOL = (7, 0)
"""``RPC_PROTO_MAJOR_VERSION`` and ``_MINOR_VERSION`` of the pinned llama.cpp."""
TIMEOUT_S = 3.0
"""Limit for the answer. A server without a client answers in milliseconds."""
_RESET = struct.pack("ii", 1, 0)
"""``struct linger``: nothing is waited for."""
_HELLO = struct.pack("<BQ24x", 14, 24)
"""``RPC_CMD_HELLO``, the size of what follows, and no capabilities."""
_VERSION = struct.Struct("<QBBBx24x")
"""The size of what follows, and the version of the protocol."""


def ensure_free(endpoint: str) -> None:
    """Check that the library can connect to a server, and would not wait for it for ever.

    One that serves this process already is not asked: it would not answer a second connection.

    Args:
        endpoint: ``HOST:PORT``.

    Raises:
        UsageError: as ``connected``.
    """
    if not _serves_this_process(endpoint):
        connected(endpoint).close()


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


def connected(endpoint: str, *, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """Connect to a server, and compare versions. While it is open, no other client is served.

    Args:
        endpoint: ``HOST:PORT``.
        timeout_s: limit for its answer.

    Raises:
        UsageError: there is no listener, it serves another client, is no RPC server of llama.cpp's,
            or has another version.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout_s)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--rpc {endpoint}: no RPC server answers there ({error}); start one with "
            f"ggml-rpc-server -H {host} -p {port}"
        ) from None
    # Closed by a reset: a busy server reads the question once it is free, and would be ended by a
    # signal for answering on a closed connection. A reset makes its read fail, and it goes on.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    if (reason := _objection(connection)) is not None:
        connection.close()
        raise UsageError(f"--rpc {endpoint}: {reason}")
    return connection


def _objection(connection: socket.socket) -> str | None:
    """Ask a server for its version; say why the library cannot use it, None where it can."""
    try:
        connection.sendall(_HELLO)
        with connection.makefile("rb") as stream:
            answer = stream.read(_VERSION.size)
    except TimeoutError:
        return (
            "the server does not answer; it serves one client at a time, so end the other one, or "
            "it is no RPC server of llama.cpp's"
        )
    except OSError:
        # It hung up.
        answer = b""
    size, *version = _VERSION.unpack(answer.ljust(_VERSION.size, b"\0"))
    if size != _VERSION.size - 8:
        return "no RPC server of llama.cpp's answers there"
    if version[0] == PROTOCOL[0] and version[1] <= PROTOCOL[1]:
        return None
    served, own = (".".join(map(str, one)) for one in (version, PROTOCOL))
    return (
        f"the server speaks version {served} of llama.cpp's RPC protocol, and this llama.cpp "
        f"version {own}; build both from the same llama.cpp"
    )
