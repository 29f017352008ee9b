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
    """One server, which is one device."""

    endpoint: str
    process: "subprocess.Popen[bytes]"

    def kill(self) -> None:
        """End it at once, as a crash would."""
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
        """Start a server on a free port, and end it in every case."""
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
    before = os.environ.get("GGML_BACKEND_PATH")
    os.environ["GGML_BACKEND_PATH"] = build.environment["GGML_BACKEND_PATH"]
    try:
        yield
    finally:
        os.environ.pop("GGML_BACKEND_PATH")
        if before is not None:
            os.environ["GGML_BACKEND_PATH"] = before


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return once it listens at the port."""
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"the RPC server ended with {process.returncode}")


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
