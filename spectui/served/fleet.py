"""The llama-servers that are alive: the target alone beside one other, or one at a time."""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from spectui.closing import Closing
from spectui.served.checks import check_alone, check_answer
from spectui.served.setup import Setup
from spectui.server import Completion, LlamaServer
from spectui.server.binary import ServerBinary

_MOST_OF_NAME = 80


class Fleet(Closing):
    """Starts a server when it is asked for, and ends those that have to give way to it."""

    def __init__(
        self,
        binary: ServerBinary,
        *,
        logs: Path,
        keeps_off: bool,
        timeout_s: float,
        on_start: Callable[[Setup], None],
        on_ready: Callable[[LlamaServer], None],
    ) -> None:
        """Start nothing yet.

        Args:
            binary: the user's llama-server.
            logs: folder for what the servers print.
            keeps_off: whether the target alone stays alive beside one that speculates, for which
                there must be room (``room.both_fit``).
            timeout_s: how long loading the models may take, and an answer.
            on_start: told before a server is started.
            on_ready: given each server before anything is measured on it.
        """
        self._binary = binary
        self._logs = logs
        self._keeps_off = keeps_off
        self._timeout_s = timeout_s
        self._on_start = on_start
        self._on_ready = on_ready
        self._alive: dict[Setup, LlamaServer] = {}
        self.n_starts = 0

    def of(self, setup: Setup) -> LlamaServer:
        """The server of a setup, started if it is not alive.

        Raises:
            BadInputError: the binary has no words for what is asked for.
            HopelessError: it speculates, and should not.
            ServerError: it does not start.
        """
        if setup not in self._alive:
            arguments = setup.arguments(self._binary)
            self._make_room(setup)
            self._on_start(setup)
            self.n_starts += 1
            server = LlamaServer(
                Path(self._binary.path),
                arguments,
                log_path=self._logs / f"llama-server-{'off' if setup.is_off else 'on'}.log",
                failed_log_path=self._failed_log(setup, arguments),
                name=f"llama-server {'without' if setup.is_off else 'with'} speculation",
                ready_timeout_s=self._timeout_s,
                request_timeout_s=self._timeout_s,
            )
            self._alive[setup] = server
            try:
                if setup.is_off:
                    check_alone(server, self._binary.path)
                self._on_ready(server)
            except BaseException:
                self.end(setup)
                raise
        return self._alive[setup]

    def check(self, setup: Setup, done: Completion) -> None:
        """Hold what the server of a setup has answered against that.

        Raises:
            HopelessError: it cannot be of such a server.
        """
        check_answer(setup, done, self._binary.path)

    def end(self, setup: Setup) -> None:
        """End the server of a setup, if it is alive; asked for again, it is started anew."""
        server = self._alive.pop(setup, None)
        if server is not None:
            server.close()

    def close(self) -> None:
        """End those that are alive."""
        for setup in tuple(self._alive):
            self.end(setup)

    def _failed_log(self, setup: Setup, arguments: Sequence[str]) -> Path:
        """One for each setup: the next failure of the same takes its place."""
        name = re.sub(r"[^\w.]+", "-", setup.label)
        digest = hashlib.sha256("\0".join(arguments).encode(errors="surrogateescape")).hexdigest()
        return self._logs / f"llama-server-failed-{name[:_MOST_OF_NAME]}-{digest[:8]}.log"

    def _make_room(self, setup: Setup) -> None:
        for other in tuple(self._alive):
            if not self._keeps_off or other.is_off == setup.is_off:
                self.end(other)
