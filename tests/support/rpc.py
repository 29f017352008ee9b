"""RPC servers of llama.cpp's on loopback: devices of their own where there is no GPU."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
