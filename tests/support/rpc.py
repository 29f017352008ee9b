"""RPC servers of llama.cpp's on loopback: devices of their own where there is no GPU.

A device that llama.cpp knows stays in its process for ever, and a server that goes away ends it:
what uses one runs in a child process, never in that of the tests.
"""

import os
import shlex
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

_TOOL = Path(__file__).parent.parent.parent / "tools" / "build_llama_server.py"


def built(what: str, *, optional: bool = False) -> Path | None:
    """What the tool builds; None where it was never built, but in CI unless it is optional."""
    in_ci = "CI" in os.environ and not optional
    command = [sys.executable, str(_TOOL), what, *([] if in_ci else ["--no-build"])]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0 or not in_ci, found.stderr
    return Path(found.stdout.strip()) if found.returncode == 0 else None


@dataclass(frozen=True, kw_only=True)
class RpcServer:
    endpoint: str
    process: "subprocess.Popen[bytes]"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True, kw_only=True)
class RpcBuild:
    """Programs that can use RPC servers, and the server itself."""

    folder: Path
    server: Path
    """llama-server without RPC."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which the engine has the backend."""
        return {**os.environ, "GGML_BACKEND_PATH": str(self.folder / "module" / "libggml-rpc.so")}

    def llama_server(self, folder: Path) -> Path:
        """A llama-server with RPC: the one without, on ggml's libraries of the other build.

        It reads ``--rpc`` before it loads what GGML_BACKEND_PATH names.
        """
        script = folder / "llama-server"
        libraries = shlex.quote(str(self.folder))
        program = f"LD_LIBRARY_PATH={libraries} exec {shlex.quote(str(self.server))}"
        script.write_text(f'#!/bin/sh\nunset GGML_BACKEND_PATH\n{program} "$@"\n')
        script.chmod(0o755)
        return script

    @contextmanager
    def serving(self, *, port: int | None = None, threads: int = 1) -> Iterator[RpcServer]:
        port = port or _free_port()
        command = [str(self.folder / "ggml-rpc-server"), "-H", "127.0.0.1", "-p", str(port)]
        command += ["-t", str(threads)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait_for(port, process)
                yield RpcServer(endpoint=f"127.0.0.1:{port}", process=process)
            finally:
                process.kill()


def rpc_build() -> RpcBuild | None:
    """What was built; None where it was not, but in CI."""
    folder, server = built("rpc"), built("server")
    return RpcBuild(folder=folder, server=server) if folder and server else None


@contextmanager
def rpc_backend(build: RpcBuild) -> Iterator[None]:
    """The RPC backend in every process that is started meanwhile."""
    with patch.dict(os.environ, build.environment):
        yield


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"the RPC server ended with {process.returncode}")


_REQUEST = struct.Struct("<BQ")
_TWO_NUMBERS = struct.Struct("<QQQ")
"""An answer: its size, and an address and bytes, or bytes that are free and bytes in all."""
_ALLOCATION = struct.Struct("<IQ")
_NO_BUFFER = _TWO_NUMBERS.pack(16, 0, 0)
_ALLOC_BUFFER, _FREE_BUFFER, _GET_DEVICE_MEMORY = 0, 4, 11

Held = dict[int, int]
"""Bytes of the buffers that a client has on a device, by address."""
_AWAITED = 0
"""Address of a buffer that was asked for."""


@contextmanager
def small_device(
    endpoint: str, free_bytes: int, *, has_bytes: int | None = None, held: Held | None = None
) -> Iterator[str]:
    """A server in front of another, whose devices say that they have so much memory, all free.

    Like any other it serves one client at a time, which is refused what goes beyond ``has_bytes``;
    ``held`` is filled with what it has.
    """
    held = {} if held is None else held
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = (listener, endpoint, free_bytes, has_bytes, held)
        thread = threading.Thread(target=_forward, args=arguments)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _forward(
    listener: socket.socket, endpoint: str, free_bytes: int, has_bytes: int | None, held: Held
) -> None:
    host, _, port = endpoint.rpartition(":")
    while True:
        try:
            client, _address = listener.accept()
        except OSError:
            return
        held.clear()
        with client, socket.create_connection((host, int(port))) as server:
            for one in (client, server):
                # As the library does: a small message would else wait for the one before it.
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_answers, args=(server, client, held))
            back.start()
            with suppress(OSError):
                _questions(client, server, free_bytes, has_bytes, held)
            # The server answers in two parts and dies of SIGPIPE where the first finds nobody: it
            # is told that no question follows, and heard to the end.
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            back.join()


def _questions(
    client: socket.socket, server: socket.socket, free_bytes: int, has_bytes: int | None, held: Held
) -> None:
    """Pass on what a client asks, but for the memory. It waits for one answer after the other."""
    while len(head := client.recv(_REQUEST.size, socket.MSG_WAITALL)) == _REQUEST.size:
        command, size = _REQUEST.unpack(head)
        if command == _GET_DEVICE_MEMORY:
            client.recv(size, socket.MSG_WAITALL)
            client.sendall(_TWO_NUMBERS.pack(16, free_bytes, free_bytes))
            continue
        if command in {_ALLOC_BUFFER, _FREE_BUFFER}:
            asked = client.recv(size, socket.MSG_WAITALL)
            if command == _FREE_BUFFER:
                held.pop(int.from_bytes(asked, "little"), None)
            elif has_bytes is not None:
                wanted = _ALLOCATION.unpack(asked)[1]
                if sum(held.values()) + wanted > has_bytes:
                    client.sendall(_NO_BUFFER)
                    continue
            if command == _ALLOC_BUFFER:
                held[_AWAITED] = 1
            head, size = head + asked, 0
        server.sendall(head)
        # Who asks may be ended in the middle.
        while size and (part := client.recv(min(size, 1 << 20))):
            server.sendall(part)
            size -= len(part)


def _answers(server: socket.socket, client: socket.socket, held: Held) -> None:
    """Pass on what the server answers, until it ends; nobody may hear it any more."""
    last = b""
    with suppress(ConnectionError):
        while part := server.recv(1 << 20):
            # Who allocates waits for the answer, and asks for nothing else meanwhile. It may come
            # in parts, behind answers of other sizes.
            last = (last + part)[-_TWO_NUMBERS.size :]
            is_whole = len(last) == _TWO_NUMBERS.size and last.startswith(_NO_BUFFER[:8])
            if _AWAITED in held and is_whole:
                _size, address, n_bytes = _TWO_NUMBERS.unpack(last)
                del held[_AWAITED]
                held.update({address: n_bytes} if address else {})
            with suppress(OSError):
                client.sendall(part)
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
