"""A llama-server that spectui starts, on a free loopback port, and that ends with spectui."""

import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from spectui.commands.items import divide, words_of
from spectui.commands.measured import own_environment
from spectui.commands.sources.source import absolute
from spectui.errors import ServerError
from spectui.files import write_own_file
from spectui.server.client import LlamaClient
from spectui.server.connection import BrokenError, ReplyError, UnreachableError
from spectui.server.kept import KeptProcess, manner_of

POLL_INTERVAL_S = 0.05
HEALTH_TIMEOUT_S = 2.0
GRACE_S = 10.0
_BROKEN_S = 1.0
_LISTENS = "0A"
"""State of a listening socket in ``/proc/net/tcp``."""
_ROOT = 0
"""The user of programs that forward a port to a container."""


class LlamaServer(LlamaClient):
    """A running llama-server; the constructor returns once it is ready.

    Args:
        binary: the user's or the project's own llama-server.
        arguments: its command line, with paths from this process's folder. Host and port are set
            by spectui and win over the user's; the API key travels in the environment, where other
            users cannot read it.
        log_path: file for what the server printed, written once an error refers to it.
        name: name in error messages.
        ready_timeout_s: limit for loading the model.
        request_timeout_s: limit for one answer.

    Raises:
        ServerError: it could not be started, exited, or was not ready in time.
    """

    def __init__(
        self,
        binary: Path,
        arguments: Sequence[str],
        *,
        log_path: Path,
        name: str = "llama-server",
        ready_timeout_s: float = 120.0,
        request_timeout_s: float = 600.0,
    ) -> None:
        port, api_key = _free_port(), secrets.token_urlsafe(24)
        super().__init__(
            f"http://127.0.0.1:{port}",
            api_key=api_key,
            name=name,
            request_timeout_s=request_timeout_s,
            check_peer=self._check_listener,
        )
        self._port = port
        self._log_path = log_path
        own = words_of(absolute(item) for item in divide(arguments))
        self._process = KeptProcess(
            [str(binary.absolute()), *own, "--host", "127.0.0.1", "--port", str(port)],
            grace_s=GRACE_S,
            environment={**own_environment(os.environ), "LLAMA_API_KEY": api_key},
        )
        try:
            self._wait_until_ready(ready_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def printed(self) -> str:
        """The end of what the server has printed so far."""
        return self._process.output.text

    @property
    def pid(self) -> int:
        """Process id of the server, for measuring its memory."""
        return self._process.pid

    def close(self) -> None:
        """End the process, by force if it does not go on request. May be called again."""
        self._process.close()
        super().close()

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self._has_exited(POLL_INTERVAL_S):
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise ServerError(
                    f"{self.name} was not ready after {timeout_s:g} s, and --timeout gives it "
                    f"longer; {self._last_words()}"
                )
            if self.is_ready(timeout_s=min(HEALTH_TIMEOUT_S, remaining_s)):
                return
        raise self._exited()

    def _has_exited(self, within_s: float) -> bool:
        # Waiting for the exit is the pause between two polls, so that a death ends it at once.
        return self._process.wait(within_s) is not None

    def _exited(self) -> ServerError:
        self._process.output.join()
        manner = manner_of(self._process.returncode or 0)
        return ServerError(f"{self.name} ended with {manner}; {self._last_words()}")

    def _check_listener(self, from_port: int) -> None:
        """Refuse to send a prompt and the key to another user who has taken the port.

        Args:
            from_port: port of the connection at this end.

        Raises:
            ServerError: the server has ended, or another user listens there.
        """
        if self._has_exited(0.0):
            raise self._exited()
        for user in _strangers(self._port, from_port):
            raise ServerError(
                f"port {self._port} of {self.name} was taken by a process of user {user}, which "
                "was sent nothing; try again"
            )

    def _failure(self, asked: str, error: ReplyError) -> ServerError:
        # A connection breaks a moment before the process is gone.
        is_gone = isinstance(error, BrokenError | UnreachableError)
        if self._has_exited(_BROKEN_S if is_gone else 0.0):
            return self._exited()
        return ServerError(f"{super()._failure(asked, error)}; {self._last_words()}")

    def _last_words(self) -> str:
        where = ""
        with suppress(OSError):
            write_own_file(self._log_path, self.printed.encode(), is_private=True)
            where = f" (all of it in {self._log_path})"
        return f"{self._process.output.last_words}{where}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _strangers(port: int, from_port: int) -> Iterator[int]:
    """Yield other users whose sockets listen at a port, or have a connection from another one."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                _, local, remote, state, _, _, _, owner, _, inode, *_ = line.split()
                if int(local.rpartition(":")[2], 16) != port:
                    continue
                # A connection that is not accepted yet has no socket, and no owner.
                is_taken = int(remote.rpartition(":")[2], 16) == from_port and inode != "0"
                if (state == _LISTENS or is_taken) and int(owner) not in {_ROOT, os.geteuid()}:
                    yield int(owner)
