"""RPC servers that are none, are busy, are older, or go away, before the library is asked."""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from spectui.errors import UsageError
from spectui.llama.library import binding_version
from spectui.llama.rpc import PROTOCOL, connected, ensure_free

HELLO_BYTES = 24


def answer(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def hello(major: int = PROTOCOL[0], minor: int = PROTOCOL[1]) -> bytes:
    return answer(bytes((major, minor, 0, 0)) + bytes(HELLO_BYTES))


@contextmanager
def serving(reply: Callable[[int], bytes | None]) -> Iterator[str]:
    """A server whose answers to commands are made up; None hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            client, _address = listener.accept()
            # Who refuses a server hangs up with words of it unread.
            with client, suppress(ConnectionResetError):
                while head := client.recv(9, socket.MSG_WAITALL):
                    command, size = struct.unpack("<BQ", head)
                    client.recv(size, socket.MSG_WAITALL) if size else b""
                    said = reply(command)
                    if said is None:
                        return
                    client.sendall(said)
                    if not said:
                        ended.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_a_server_of_the_same_llama_cpp_is_connected_to() -> None:
    with serving({14: hello()}.__getitem__) as endpoint:
        connected(endpoint).close()


def test_a_binding_without_the_backend_says_how_to_build_it() -> None:
    program = "from spectui.llama.devices import use_rpc; use_rpc(['127.0.0.1:1'])"
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "was built without RPC" in ended.stderr
    assert f"llama-cpp-python=={binding_version()}, or name" in ended.stderr


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (hello(major=PROTOCOL[0] - 1), "speaks version 6.0.0"),
        (hello(minor=PROTOCOL[1] + 1), "speaks version 7.1.0"),
        (b"", "serves one client at a time"),
        (None, "no RPC server of llama.cpp's"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no RPC server of llama.cpp's"),
        (answer(b"")[:8], "no RPC server of llama.cpp's"),
    ],
    ids=["older", "newer", "silent", "hangs up", "a web server", "too short"],
)
def test_what_the_library_would_end_the_process_for_is_refused(
    said: bytes | None, reason: str
) -> None:
    with serving(lambda _command: said) as endpoint, pytest.raises(UsageError, match=reason):
        connected(endpoint, timeout_s=0.2)


def test_a_busy_server_is_told_by_a_reset_that_nobody_waits_any_more() -> None:
    """It reads the question once it is free: whom it answers then must not be a closed pipe."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(UsageError, match="one client at a time"):
            connected(endpoint, timeout_s=0.05)
        late, _address = listener.accept()
        with late:
            assert late.recv(9 + HELLO_BYTES, socket.MSG_WAITALL)
            with pytest.raises(ConnectionResetError):
                late.sendall(hello())


def test_a_server_that_serves_this_process_is_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address), listener.accept()[0] as theirs:
            ensure_free(f"127.0.0.1:{address[1]}")
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):
                theirs.recv(1)
    for ask in (ensure_free, connected):
        with pytest.raises(UsageError, match=f"no RPC server answers there.*-p {address[1]}"):
            ask(f"127.0.0.1:{address[1]}")
