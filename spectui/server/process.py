"""A llama-server of our own: started on a free loopback port, stopped with its owner."""

import os
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import httpx

from spectui.errors import ServerError
from spectui.server.client import LlamaClient, T
from spectui.server.kept import KeptProcess, last_words, manner_of

POLL_INTERVAL_S = 0.05
HEALTH_TIMEOUT_S = 2.0
GRACE_S = 10.0
MAX_TAIL_BYTES = 4096


class LlamaServer(LlamaClient):
    """A running llama-server; the constructor returns once it is ready.

    Args:
        binary: the user's or the project's own llama-server.
        arguments: its command line. Host and port are set by spectui and win over the user's; the
            API key travels in the environment, where other users cannot read it.
        log_path: file for the server's stdout and stderr.
        ready_timeout_s: how long loading the model may take.
        request_timeout_s: how long one answer may take.

    Raises:
        ServerError: it could not be started, exited, or was not ready in time.
    """

    def __init__(
        self,
        binary: Path,
        arguments: Sequence[str],
        *,
        log_path: Path,
        ready_timeout_s: float = 120.0,
        request_timeout_s: float = 600.0,
    ) -> None:
        self.log_path = log_path
        port = _free_port()
        api_key = secrets.token_urlsafe(24)
        command = [str(binary), *arguments, "--host", "127.0.0.1", "--port", str(port)]
        self._process = _start(command, api_key=api_key, log_path=log_path)
        try:
            super().__init__(
                f"http://127.0.0.1:{port}", api_key=api_key, request_timeout_s=request_timeout_s
            )
            self._wait_until_ready(ready_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The server's process, for whoever watches its memory."""
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
                    f"llama-server was not ready after {timeout_s:g} s; {self._told()}"
                )
            if self.is_ready(timeout_s=min(HEALTH_TIMEOUT_S, remaining_s)):
                return
        raise self._exited()

    def _has_exited(self, within_s: float) -> bool:
        # Waiting for the exit is the pause between two polls, so that a death ends it at once.
        return self._process.wait(within_s) is not None

    def _exited(self) -> ServerError:
        code = self._process.returncode
        return ServerError(f"llama-server ended with {manner_of(code or 0)}; {self._told()}")

    def _decode(self, response: httpx.Response, kind: type[T]) -> T:
        try:
            return super()._decode(response, kind)
        except ServerError as error:
            raise ServerError(f"{error}; {self._told()}") from error

    def _lost_connection(self, error: httpx.RequestError) -> ServerError:
        # The connection breaks a moment before the process is gone.
        is_timeout = isinstance(error, httpx.TimeoutException)
        if self._has_exited(0.0 if is_timeout else 1.0):
            return self._exited()
        return ServerError(f"{super()._lost_connection(error)}; {self._told()}")

    def _told(self) -> str:
        return f"its last words were {self._last_words()} (all of them in {self.log_path})"

    def _last_words(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - MAX_TAIL_BYTES))
            return last_words(log.read())


def _start(command: Sequence[str], *, api_key: str, log_path: Path) -> KeptProcess:
    environment = {**os.environ, "LLAMA_API_KEY": api_key}
    with _open_log(log_path) as log:
        return KeptProcess(command, output=log.fileno(), grace_s=GRACE_S, environment=environment)


def _open_log(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise ServerError(
            f"cannot write llama-server's log to {path} ({error.strerror})"
        ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
