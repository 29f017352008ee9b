"""The llama-servers that decode: those started for it, and those already running."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from spectui.closing import Closing
from spectui.commands.items import divide, words_of
from spectui.commands.launch import ExportSetup
from spectui.commands.measured import own_arguments
from spectui.documents import Json, fields_of, or_reason
from spectui.engine.guard import Guard, request_of
from spectui.errors import DoesNotFitError, HopelessError, ServerError
from spectui.format import bytes_text, counted
from spectui.llama.rpc import ensure_free
from spectui.measure.device_locks import devices_held_for
from spectui.measure.served_models import size_bytes
from spectui.measure.workload import WARM_UP_TOKENS
from spectui.options.dialect import Dialect
from spectui.options.setup import Setup
from spectui.paths import data_dir, ensure_dir
from spectui.server.binary import ServerBinary
from spectui.server.client import Completion, LlamaClient
from spectui.server.help_text import Version
from spectui.server.process import LlamaServer

_CACHE = "--cache-ram"
SYNTHETIC_RATES = "--spec-synth-rates"
"""Option by which a llama-server accepts drafted tokens at random, for measurements alone."""
_WARM_UP_TEXT = "The quick brown fox"


def measuring_arguments(setup: Setup, binary: ServerBinary) -> tuple[str, ...]:
    """Arguments of a server for measurements, in the binary's dialect.

    No prompt cache, and each slot with the context of the setup. The user's own arguments stay, but
    for those that say who may reach the server, or that would write the user's files.

    Raises:
        BadInputError: the binary has no words for what is asked for.
    """
    accepted = binary.accepted
    written = ExportSetup(
        target=setup.target,
        draft=setup.draft,
        context=setup.shared_context,
        speculation=setup.speculation,
        extra=own_arguments(setup.extra),
        name="spectui",
        accepted=accepted,
    ).arguments(binary.dialect)
    # No export has them: they make acceptance up, which shows what rounds cost.
    rates = words_of(item for item in divide(setup.extra) if item.spelling == SYNTHETIC_RATES)
    cache = (_CACHE, "0") if _CACHE in accepted.flags else ()
    return (*written, *rates, "-np", str(setup.n_slots), *cache)


_PLACES = re.compile(
    r"cache-type|ctx-size|device|ffn|fit|gpu|load-mode|mmap|moe|offload|override|rpc|split|swa"
)
"""Parts of names of options that spectui passes on unread, and that decide what lies where."""
_MOST_OF_NAME = 80
_PREFIX = "LLAMA_ARG_"
_DRAFTING = ("SPEC", "DRAFT")
"""Parts of the names of llama-server's variables for drafting."""


@dataclass(eq=False)
class Fleet(Closing):
    """Starts servers on demand, and ends those that have to make room for a new one."""

    binary: ServerBinary
    """The user's llama-server."""
    _: KW_ONLY
    logs: Path
    """Folder for what servers printed that failed."""
    keeps_off: bool
    """Whether the target alone stays alive beside one that speculates, for which there must be room
    (``served_models.keeps_off``)."""
    timeout_s: float
    """Most seconds for loading the models, and for an answer."""
    on_start: Callable[[Setup], None]
    """Told before a server is started."""
    on_ready: Callable[[LlamaServer], None]
    """Given each server before anything is measured on it."""
    guard: Guard
    """Is asked before a start, and closed with this."""

    def __post_init__(self) -> None:
        self._alive: dict[Setup, LlamaServer] = {}
        self._devices = ExitStack()
        """Keeps the devices for these servers alone."""
        self.n_starts = 0

    @property
    def tells_reading(self) -> bool:
        """Whether the seconds that they tell of a prompt hold its reading by a draft model."""
        return self.binary.tells_reading

    def of(self, setup: Setup) -> LlamaServer:
        """The server of a setup, started if it is not running.

        Raises:
            BadInputError: the binary has no words for what is asked for.
            DoesNotFitError: its models have no room, or not beside the other server.
            HopelessError: it speculates, and should not.
            ServerError: it does not start.
            UsageError: another spectui measures on a device of it, or an RPC server is gone or
                serves somebody else: it would wait for ever.
        """
        if setup not in self._alive:
            arguments = measuring_arguments(setup, self.binary)
            self._devices.enter_context(devices_held_for(setup))
            self._make_room(setup)
            for endpoint in setup.target.devices.rpc:
                ensure_free(endpoint)
            self._check_memory(setup)
            self.on_start(setup)
            self.n_starts += 1
            server = LlamaServer(
                Path(self.binary.path),
                arguments,
                log_path=self._failed_log(setup, arguments),
                name=f"llama-server {'without' if setup.is_off else 'with'} speculation",
                ready_timeout_s=self.timeout_s,
                request_timeout_s=self.timeout_s,
            )
            self._alive[setup] = server
            try:
                self._make_ready(setup, server)
            except BaseException:
                self.end(setup)
                raise
        return self._alive[setup]

    def _make_ready(self, setup: Setup, server: LlamaServer) -> None:
        if setup.is_off and server.speculates():
            raise _drafts_alone(self.binary.path)
        self.on_ready(server)

    def check(self, setup: Setup, done: Completion) -> None:
        """Check that an answer is consistent with the setup of its server.

        Raises:
            HopelessError: it cannot be of such a server.
        """
        speculation, program = setup.speculation, self.binary.path
        if speculation is None:
            if done.n_drafted:
                raise _drafts_alone(program)
            return
        # Each round emits a token, and those it accepted; of a text that ended within a draft, more
        # was accepted than emitted.
        n_rounds = max(done.n_predicted - 1 - done.n_accepted * (done.stop == "limit"), 0)
        if done.n_drafted > n_rounds * speculation.longest:
            raise HopelessError(
                f"the llama-server with speculation drafted {counted(done.n_drafted, 'token')} in "
                f"{counted(n_rounds, 'round')}, and was started with drafts of "
                f"{speculation.longest} at most, so that another setting is measured; "
                f"{_by_program(program)}"
            )

    def end(self, setup: Setup) -> None:
        """End the server of a setup, if it is running; the next request starts it anew."""
        server = self._alive.pop(setup, None)
        if server is not None:
            server.close()

    def close(self) -> None:
        """End all running servers."""
        self.guard.close()
        for setup in tuple(self._alive):
            self.end(setup)
        self._devices.close()

    def _failed_log(self, setup: Setup, arguments: Sequence[str]) -> Path:
        """Path of the log of a failed server: one per setup, which the next failure overwrites."""
        name = re.sub(r"[^\w.]+", "-", setup.label)
        digest = hashlib.sha256("\0".join(arguments).encode(errors="surrogateescape")).hexdigest()
        return self.logs / f"llama-server-failed-{name[:_MOST_OF_NAME]}-{digest[:8]}.log"

    def _check_memory(self, setup: Setup) -> None:
        """Refuse a setup that has no room.

        Plans of this llama.cpp are those of servers of the same dialect, where the user's own
        arguments place nothing.
        """
        names = (item.name for item in divide(setup.extra))
        if self.binary.dialect is not Dialect.LLAMA_CPP or any(map(_PLACES.search, names)):
            return
        try:
            self.guard.check(request_of(setup))
        except DoesNotFitError as error:
            if not self._alive:
                raise
            raise DoesNotFitError(
                f"{error}, beside the other llama-server; --one-at-a-time ends one before the "
                "other starts"
            ) from error

    def _make_room(self, setup: Setup) -> None:
        for other in tuple(self._alive):
            is_beside = other.is_off != setup.is_off and other.n_slots == setup.n_slots
            if not (self.keeps_off and is_beside):
                self.end(other)


def open_fleet(
    binary: ServerBinary,
    *,
    keeps_off: bool,
    timeout_s: float,
    say: Callable[[str], None],
    name: Callable[[Setup], str] = lambda _setup: "speculation",
    from_disk: bool = False,
) -> Fleet:
    """Open a fleet whose servers warm up on first use; nothing is started yet.

    Args:
        binary: the user's llama-server.
        keeps_off: as ``Fleet``.
        timeout_s: as ``Fleet``.
        say: told of every start.
        name: name of what a server speculates with.
        from_disk: whether servers may read weights from disk again and again.
    """

    def started(setup: Setup) -> None:
        size = bytes_text(sum(size_bytes(model.path) for model in setup.models))
        what = "without speculation" if setup.is_off else f"with {name(setup)}"
        what += f" and {setup.n_slots} slots" if setup.n_slots > 1 else ""
        alone = ", one at a time: RPC servers take one client" if setup.target.devices.rpc else ""
        say(f"starting llama-server {what} ({size} to load){alone}")

    def warm_up(server: LlamaServer) -> None:
        server.complete(_WARM_UP_TEXT, n_predict=WARM_UP_TOKENS)

    return Fleet(
        binary,
        logs=ensure_dir(data_dir() / "logs"),
        keeps_off=keeps_off,
        timeout_s=timeout_s,
        on_start=started,
        on_ready=warm_up,
        guard=Guard(is_here=False, from_disk=from_disk),
    )


def plan(n_prompts: int, n_runs: int, *, keeps_off: bool) -> str:
    """How the servers take turns, and what that costs, in a sentence."""
    times = f"{counted(n_prompts, 'prompt')}{f' × {n_runs}' if n_runs > 1 else ''}"
    if keeps_off:
        return f"{times}, two llama-servers that take turns"
    n = most_starts(n_runs, keeps_off=False)
    return (
        f"{times}, one llama-server at a time: {n} starts at most, each of which loads its models "
        "anew"
    )


def most_starts(n_runs: int, *, keeps_off: bool) -> int:
    """Most servers that pairs start, unless one remembers: a change for every half of a pass.

    Args:
        n_runs: passes over the prompts.
        keeps_off: as ``Fleet``.
    """
    return 2 if keeps_off else 2 * n_runs + 1


UNTOLD = "the binary does not tell"


def served_by(
    binary: ServerBinary, arguments: Mapping[str, Sequence[str]], *, keeps_both: bool, n_starts: int
) -> Json:
    """The llama-server that has measured and its command lines, in documents."""
    return {
        "backend": "server",
        "server": {
            "path": binary.path,
            **version_document(binary.version),
            "dialect": str(binary.dialect),
            "keeps_both": keeps_both,
            "n_starts": n_starts,
            "arguments": {name: list(words) for name, words in arguments.items()},
        },
    }


def version_document(version: Version | None) -> Json:
    """Version, build and commit of a binary, in documents."""
    told = version or Version(text="", build=None, commit=None)
    return {
        **or_reason("version", told.text or None, UNTOLD),
        **fields_of(told, UNTOLD, "build", "commit"),
    }


class RunningServers(Closing):
    """A running server to measure, and optionally one without speculation to compare with."""

    keeps_off = True
    n_starts = 0
    tells_reading = True

    def __init__(self, server: LlamaClient, baseline: LlamaClient | None) -> None:
        """Take over both servers; closing leaves them running.

        Raises:
            ServerError: one of them does not answer.
        """
        self.server = server
        self._baseline = baseline
        both = [server] if baseline is None else [server, baseline]
        try:
            self._were = {client: client.identity() for client in both}
        except BaseException:
            self.close()
            raise

    def untold(self, n_drafted: int) -> str | None:
        """Return why it is unknown whether anything was drafted; None where it is known.

        Args:
            n_drafted: tokens that all answers together have told of.
        """
        if n_drafted or self._were[self.server].speculates is False:
            return None
        return "the server told of no drafted tokens: it drafted nothing, or does not tell"

    def of(self, setup: Setup) -> LlamaClient:
        """The measured server, or the other one for a setup that does not speculate."""
        return self._baseline if setup.is_off and self._baseline is not None else self.server

    def check(self, setup: Setup, done: Completion) -> None:
        """Refuse answers of a baseline server that drafts, and of a server that has changed.

        Raises:
            HopelessError: the one to compare with drafts.
            ServerError: another server has the port.
        """
        client = self.of(setup)
        change = self._were[client].change(client.identity())
        if change is not None:
            raise ServerError(
                f"the server at {client.base_url} is not the one that it was in the beginning: "
                f"{change}; measure again while one and the same runs"
            )
        if setup.is_off and self._baseline is not None and done.n_drafted:
            raise HopelessError(
                f"the server of --baseline-url drafts as well ({done.n_drafted} tokens on one "
                "prompt), so that nothing is compared; give the address of one that was started "
                "without speculation"
            )

    def end(self, _setup: Setup) -> None:
        """Do nothing: the servers are not spectui's."""

    def close(self) -> None:
        """Close the connections."""
        self.server.close()
        if self._baseline is not None:
            self._baseline.close()


Servers = Fleet | RunningServers


def _drafts_alone(program: str, environment: Mapping[str, str] = os.environ) -> HopelessError:
    names = sorted(
        name
        for name in environment
        if name.startswith(_PREFIX) and any(word in name for word in _DRAFTING)
    )
    remedy = f"unset {' and '.join(names)}, which every llama-server reads" if names else ""
    return HopelessError(
        "the llama-server without speculation drafts as well, so that nothing is compared with the "
        f"target alone; {remedy or _by_program(program)}"
    )


def _by_program(program: str) -> str:
    return (
        f"{program} seems to add options of its own: give --server-bin the llama-server itself, or "
        "leave them out there"
    )
