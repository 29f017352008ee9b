"""The llama-servers that decode in measurements: facts of their models, their starts and ends."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from spectui.closing import Closing
from spectui.commands.items import divide, words_of
from spectui.commands.launch import ExportSetup
from spectui.commands.measured import own_arguments
from spectui.documents import Json, fields_of, or_reason
from spectui.engine.guard import Guard
from spectui.errors import BadInputError, DoesNotFitError, HopelessError
from spectui.format import bytes_text
from spectui.gguf_names import shard_names
from spectui.llama.architectures import architecture
from spectui.llama.planned import PlanRequest
from spectui.llama.rpc import ensure_free
from spectui.measure.workload import WARM_UP_TOKENS
from spectui.models.facts import ModelFacts, facts_of
from spectui.models.gguf import read_gguf
from spectui.options.option import Dialect
from spectui.options.setup import ModelOptions, Setup
from spectui.paths import data_dir, ensure_dir
from spectui.server.binary import ServerBinary, Version
from spectui.server.process import LlamaServer
from spectui.server.replies import Completion

_CACHE = "--cache-ram"
SYNTHETIC_RATES = "--spec-synth-rates"
"""Option by which a llama-server accepts drafted tokens at random, for measurements alone."""
_WARM_UP_TEXT = "The quick brown fox"


class ServedModel(NamedTuple):
    """A model that was not loaded in this process."""

    options: ModelOptions
    file_bytes: int
    """Size of its files, including headers."""
    facts: ModelFacts | None = None
    """As its header has them; None where spectui's llama.cpp cannot read it."""

    @property
    def path(self) -> Path:
        """Path of its file."""
        return self.options.path

    @property
    def reader(self) -> str | None:
        """Kind of a draft that reads the target's hidden states; None for a model of its own."""
        return None if self.facts is None else self.facts.draft_kind

    @property
    def mtp_layers(self) -> int:
        """Number of MTP layers, as the header has it; 0 where it cannot be read."""
        return 0 if self.facts is None else self.facts.mtp_layers

    @property
    def redoes_rounds(self) -> bool:
        """Whether llama-server has to redo rounds that reject something; True if unknown."""
        known = None if self.facts is None else architecture(self.facts.arch)
        return known is None or known.has_state or not known.is_known

    @property
    def alteration(self) -> str | None:
        """The effect of ``--override-kv`` on its output, in a sentence; None without overrides."""
        return None if self.facts is None else self.facts.alteration

    def document(self, n_ctx: int) -> Json:
        """The model in documents, as those of loaded models, as far as that is known."""
        if self.facts is None:
            return {"path": str(self.path), **or_reason("arch", None, UNREAD), "n_ctx": n_ctx}
        return self.facts.document(rollback=None, n_ctx=n_ctx)


UNREAD = "spectui's llama.cpp cannot read the file's header"


def look_at(options: ModelOptions) -> ServedModel:
    """Read as much of the header as possible: the engine may not understand the file."""
    try:
        facts = facts_of(options.path, read_gguf(options.path))
    except BadInputError:
        return ServedModel(options=options, file_bytes=size_bytes(options.path))
    facts = replace(facts, overridden=tuple(one.text for one in options.override_kv))
    return ServedModel(options=options, file_bytes=facts.file_bytes, facts=facts)


def keeps_off(setup: Setup, drafts: Iterable[ModelOptions] = ()) -> bool:
    """Whether the server of the target alone stays alive beside one that speculates.

    That is so where both fit, by llama.cpp's plans; an RPC server serves one client at a time.

    Args:
        setup: of the servers, with the most slots.
        drafts: drafts of servers that speculate, one at a time; of none, that of ``setup``.
    """
    if setup.target.devices.rpc:
        return False
    alone, own = PlanRequest.of(setup.off), PlanRequest.of(setup)
    with Guard(is_here=False) as guard, suppress(DoesNotFitError):
        each = [own.beside(draft) for draft in drafts] or [own]
        # Models that cannot be planned may not fit.
        return all(guard.fit_together(alone, one) or False for one in each)
    return False


def size_bytes(path: Path) -> int:
    """Return the size of a model, with all of its shards."""
    shards = (path.with_name(name) for name in shard_names(path.name))
    return sum(shard.stat().st_size for shard in shards if shard.exists())


def measuring_arguments(setup: Setup, binary: ServerBinary) -> tuple[str, ...]:
    """Arguments of a server for measurements, in the binary's dialect.

    No prompt cache, and each slot with the context of the setup. The user's own arguments stay, but
    for those that say who may reach the server, or that would write the user's files.

    Raises:
        BadInputError: the binary has no options for the setup.
    """
    reader = binary.reader
    written = (
        setup.converted(
            ExportSetup,
            context=setup.shared_context,
            extra=own_arguments(setup.extra),
            name="spectui",
        )
        .launch(reader.dialect, reader)
        .command.arguments
    )
    # No export has them: they fake the acceptance, to measure what rounds cost.
    rates = words_of(item for item in divide(setup.extra) if item.spelling == SYNTHETIC_RATES)
    cache = (_CACHE, "0") if _CACHE in reader.flags else ()
    return (*written, *rates, "-np", str(setup.n_slots), *cache)


_PLACES = re.compile(
    r"cache-type|ctx-size|device|ffn|fit|gpu|load-mode|mmap|moe|offload|override|rpc|split|swa"
)
"""Parts of names of options that spectui passes on unread, and that decide what lies where."""


@dataclass(eq=False)
class Fleet(Closing):
    """Starts servers on demand, and ends those that have to make room for a new one."""

    binary: ServerBinary
    """The user's llama-server."""
    _: KW_ONLY
    keeps_off: bool
    """Whether the target alone stays alive beside one that speculates, for which there must be room
    (``keeps_off``)."""
    timeout_s: float
    """Most seconds for loading the models, and for an answer."""
    say: Callable[[str], None]
    """Called with a sentence on every start, which interrupts the measuring."""
    from_disk: bool = False
    """Whether servers may read weights from disk again and again."""

    def __post_init__(self) -> None:
        self._guard = Guard(is_here=False, from_disk=self.from_disk)
        self._alive: dict[Setup, LlamaServer] = {}
        self.n_starts = 0

    def of(self, setup: Setup) -> LlamaServer:
        """The server of a setup, started if it is not running.

        Raises:
            BadInputError: the binary has no options for the setup.
            DoesNotFitError: its models have no room, or not beside the other server.
            HopelessError: it speculates, and should not.
            ServerError: it does not start.
            UsageError: an RPC server is gone, or serves another client and would never answer.
        """
        if setup not in self._alive:
            arguments = measuring_arguments(setup, self.binary)
            self._make_room(setup)
            for endpoint in setup.target.devices.rpc:
                ensure_free(endpoint)
            self._check_memory(setup)
            self._alive[setup] = self.start(setup, arguments)
            try:
                self._warm_up(setup, self._alive[setup])
            except BaseException:
                self.end(setup)
                raise
        return self._alive[setup]

    def start(self, setup: Setup, arguments: Sequence[str]) -> LlamaServer:
        """Start the server of a setup, which is not ready yet."""
        size = bytes_text(sum(size_bytes(model.path) for model in setup.models))
        what = "without speculation" if setup.is_off else f"with {setup.label}"
        what += f" and {setup.n_slots} slots" if setup.n_slots > 1 else ""
        self.say(f"starting llama-server {what} ({size} to load)")
        self.n_starts += 1
        side = "off" if setup.is_off else "on"
        return LlamaServer(
            Path(self.binary.path),
            arguments,
            log_path=ensure_dir(data_dir() / "logs") / f"llama-server-failed-{side}.log",
            name=f"llama-server {'without' if setup.is_off else 'with'} speculation",
            ready_timeout_s=self.timeout_s,
            request_timeout_s=self.timeout_s,
        )

    def _warm_up(self, setup: Setup, server: LlamaServer) -> None:
        if setup.is_off and server.speculates():
            raise _drafts_alone()
        server.complete(_WARM_UP_TEXT, n_predict=WARM_UP_TOKENS)

    def check(self, setup: Setup, done: Completion) -> None:
        """Check that the target alone has not drafted.

        Raises:
            HopelessError: it has.
        """
        if setup.is_off and done.n_drafted:
            raise _drafts_alone()

    def end(self, setup: Setup) -> None:
        """End the server of a setup, if it is running; the next request starts it anew."""
        server = self._alive.pop(setup, None)
        if server is not None:
            server.close()

    def close(self) -> None:
        """End all running servers."""
        self._guard.close()
        for setup in tuple(self._alive):
            self.end(setup)

    def document(self, arguments: Mapping[str, Sequence[str]]) -> Json:
        """The llama-server that has measured, with its command lines by name, in documents."""
        return {
            "backend": "server",
            "server": {
                "path": self.binary.path,
                **version_document(self.binary.version),
                "dialect": str(self.binary.dialect),
                "keeps_both": self.keeps_off,
                "n_starts": self.n_starts,
                "arguments": {name: list(words) for name, words in arguments.items()},
            },
        }

    def _check_memory(self, setup: Setup) -> None:
        """Refuse a setup that has no room.

        Plans of this llama.cpp are those of servers of the same dialect, where the user's own
        arguments place nothing.
        """
        names = (item.name for item in divide(setup.extra))
        if self.binary.dialect is not Dialect.LLAMA_CPP or any(map(_PLACES.search, names)):
            return
        try:
            self._guard.check(PlanRequest.of(setup))
        except DoesNotFitError as error:
            if not self._alive:
                raise
            raise DoesNotFitError(f"{error}, beside the other llama-server") from error

    def _make_room(self, setup: Setup) -> None:
        for other in tuple(self._alive):
            is_beside = other.is_off != setup.is_off and other.n_slots == setup.n_slots
            if not (self.keeps_off and is_beside):
                self.end(other)


def turns(*, keeps_off: bool) -> str:
    """How the servers take turns, and what that costs, in a sentence."""
    if keeps_off:
        return "two llama-servers take turns: the target alone, and one that drafts"
    return "one llama-server at a time, as memory has room for no more: each start loads its models"


NOT_REPORTED = "the binary does not tell"


def version_document(version: Version | None) -> Json:
    """Version, build and commit of a binary, in documents."""
    found = version or Version(text="", build=None, commit=None)
    return {
        **or_reason("version", found.text or None, NOT_REPORTED),
        **fields_of(found, NOT_REPORTED, "build", "commit"),
    }


def _drafts_alone() -> HopelessError:
    return HopelessError(
        "the llama-server without speculation drafts as well, so that nothing is compared with the "
        "target alone; unset its variables LLAMA_ARG_SPEC_… and LLAMA_ARG_…DRAFT…, and give "
        "--server-bin a llama-server without options of its own"
    )
