"""RPC servers of llama.cpp's on loopback: devices of their own where there is no GPU."""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_TOOL = Path(__file__).parent.parent.parent / "tools" / "build_llama_server.py"


def built_rpc() -> Path | None:
    """The folder of the RPC server's build; None where it was never built, but in CI."""
    in_ci = "CI" in os.environ
    command = [sys.executable, str(_TOOL), "rpc", *([] if in_ci else ["--no-build"])]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0 or not in_ci, found.stderr
    return Path(found.stdout.strip()) if found.returncode == 0 else None


@contextmanager
def rpc_server(folder: Path, *, threads: int = 1) -> Iterator[tuple[str, int]]:
    """A server on a free port; its ``HOST:PORT`` and process id. It is ended in every case."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(folder / "ggml-rpc-server"), "-H", "127.0.0.1", "-p", str(port)]
    command += ["-t", str(threads)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port, process)
            yield f"127.0.0.1:{port}", process.pid
        finally:
            process.kill()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return once it listens at the port."""
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"the RPC server ended with {process.returncode}")


@contextmanager
def rpc_servers(folder: Path, n: int) -> Iterator[tuple[str, ...]]:
    """Several servers; their ``HOST:PORT``."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(rpc_server(folder))[0] for _ in range(n))


_REQUEST = struct.Struct("<BQ")
_MEMORY = struct.Struct("<QQQ")
_GET_DEVICE_MEMORY = 11


@contextmanager
def small_device(endpoint: str, free_bytes: int) -> Iterator[str]:
    """A server in front of another, whose devices say that they have so much memory, all free.

    Like any other it serves one client at a time.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_forward, args=(listener, endpoint, free_bytes))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _forward(listener: socket.socket, endpoint: str, free_bytes: int) -> None:
    host, _, port = endpoint.rpartition(":")
    while True:
        try:
            client, _address = listener.accept()
        except OSError:
            return
        with client, socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=_copy, args=(server, client))
            back.start()
            with suppress(OSError):
                _questions(client, server, free_bytes)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join()


def _questions(client: socket.socket, server: socket.socket, free_bytes: int) -> None:
    """Pass on what a client asks, but for the memory. It waits for one answer after the other."""
    while len(head := client.recv(_REQUEST.size, socket.MSG_WAITALL)) == _REQUEST.size:
        command, size = _REQUEST.unpack(head)
        if command == _GET_DEVICE_MEMORY:
            client.recv(size, socket.MSG_WAITALL)
            client.sendall(_MEMORY.pack(16, free_bytes, free_bytes))
            continue
        server.sendall(head)
        # Who asks may be ended in the middle.
        while size and (part := client.recv(min(size, 1 << 20))):
            server.sendall(part)
            size -= len(part)


def _copy(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 20):
            to.sendall(part)
