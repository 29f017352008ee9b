"""The two servers that are compared: both alive, or one at a time."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from spectui.closing import Closing
from spectui.export.setup import ExportSetup
from spectui.export.words import canonical, divide
from spectui.server import LlamaServer
from spectui.server.binary import ServerBinary
from spectui.tune.promise import Case
from spectui.verify.order import Side

_OURS = frozenset(
    {
        *("--host", "--port", "--api-key", "--api-key-file", "--api-prefix"),
        *("--ssl-key-file", "--ssl-cert-file"),
    }
)
"""What spectui decides when it starts a server for itself."""
_CACHE = "--cache-ram"

Arguments = Mapping[Side, tuple[str, ...]]


def arguments_of(case: Case, binary: ServerBinary) -> Arguments:
    """Arguments for the baseline, and for what is exported.

    One slot, as one user has, and no prompt cache. The user's own arguments stay, but for those
    that say who may reach the server.

    Raises:
        BadInputError: the binary has no words for what is asked for.
    """
    extra = tuple(w for g in divide(case.extra) if canonical(g.flag) not in _OURS for w in g.words)
    accepted = binary.accepted
    own = ("-np", "1", *((_CACHE, "0") if _CACHE in accepted.flags else ()))
    target = {Side.OFF: case.baseline, Side.ON: case.target}
    speculation = {Side.OFF: None, Side.ON: case.speculation}
    return {
        side: (
            *ExportSetup(
                target=target[side],
                draft=case.draft,
                context=case.context,
                speculation=speculation[side],
                extra=extra,
                name="verify",
                accepted=accepted,
            ).arguments(binary.dialect),
            *own,
        )
        for side in Side
    }


class Servers(Closing):
    """Starts servers when they are asked for."""

    def __init__(
        self,
        binary: Path,
        arguments: Mapping[Side, Sequence[str]],
        *,
        logs: Path,
        keeps_both: bool,
        timeout_s: float,
        on_start: Callable[[Side], None],
        on_ready: Callable[[LlamaServer], None],
    ) -> None:
        """Start nothing yet.

        Args:
            binary: the user's llama-server.
            arguments: of either side.
            logs: folder for what the servers print.
            keeps_both: whether one stays when the other is asked for.
            timeout_s: how long loading the models may take, and an answer.
            on_start: told before a server is started.
            on_ready: given each server before anything is measured on it.
        """
        self._binary = binary
        self._arguments = arguments
        self._logs = logs
        self._keeps_both = keeps_both
        self._timeout_s = timeout_s
        self._on_start = on_start
        self._on_ready = on_ready
        self._alive: dict[Side, LlamaServer] = {}
        self.n_starts = 0

    def of(self, side: Side) -> LlamaServer:
        """The server of a side, started if it is not alive.

        Raises:
            ServerError: it does not start.
        """
        if side not in self._alive:
            if not self._keeps_both:
                self.close()
            self._on_start(side)
            server = LlamaServer(
                self._binary,
                self._arguments[side],
                log_path=self._logs / f"llama-server-{side}.log",
                ready_timeout_s=self._timeout_s,
                request_timeout_s=self._timeout_s,
            )
            self._alive[side] = server
            self.n_starts += 1
            self._on_ready(server)
        return self._alive[side]

    def close(self) -> None:
        """End those that are alive."""
        while self._alive:
            _, server = self._alive.popitem()
            server.close()
