"""Llama-servers behind the engine's interface, for measurements that are written for the engine."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from spectui.commands.items import divide
from spectui.documents import Json
from spectui.engine.commands import Generate, GeneratePair, ProbeMargin
from spectui.engine.events import GenerationResult, PairGenerated
from spectui.errors import ServerError
from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer, Timed
from spectui.measure.workload import Workload
from spectui.options.setup import ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.server.client import LlamaClient, completion_body
from spectui.server.replies import Completion, Round
from spectui.speculative.counters import Counters, Detail
from spectui.speculative.decoder import Stop

if TYPE_CHECKING:
    from spectui.measure.servers import Fleet

T = TypeVar("T")
Tokens = tuple[int, ...]


def remembers(speculation: Speculation | None) -> bool:
    """Return whether drafters keep text from request to request.

    The tables of llama.cpp's ``common_ngram_mod``, ``common_ngram_map`` and ``common_ngram_cache``
    live as long as the server's slot.
    """
    return speculation is not None and any(one.remembers for one in speculation.ngrams)


REMEMBERS = (
    "llama-server's n-gram drafters remember earlier requests, so that later prompts may draft "
    "from what was generated before"
)


_STOPS = {"eos": Stop.END_OF_GENERATION, "word": Stop.END_OF_GENERATION}


@dataclass(eq=False)
class ServerBackend:
    """Decodes prompts on servers: a ``Backend``, and a ``Loading``."""

    servers: "Fleet"
    """Decode."""
    base: Setup
    """The setup that all of them share, and the draft that is loaded."""
    drafts: Mapping[str, ModelOptions]
    """Drafts by the names for ``load``."""
    _: KW_ONLY
    redoes_rounds: bool
    """As ``result_of``."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""

    def __post_init__(self) -> None:
        self._draft: ModelOptions | None = self.base.draft
        self._neutral = _neutral(self.base)
        self._had: dict[Setup, set[Tokens]] = {}
        """Prompts that servers have seen, as far as their drafters remember them."""
        self.n_slots = self.base.n_slots
        """Requests that are in flight whenever anything is measured."""
        self.n_beside_off: int | None = int(self.servers.keeps_off)
        self.move_s = 0.0
        """Duration of the last start of a server."""

    @property
    def waited_s(self) -> float:
        """0: the servers have no other clients."""
        return 0.0

    def load(self, draft: str | None) -> None:
        """Use this draft for all speculation from now on."""
        self._draft = None if draft is None else self.drafts.get(draft)

    def setup(self, speculation: Speculation | None) -> Setup:
        """Return the setup of the server that decodes with a setting and the loaded draft."""
        if speculation is None:
            return self.base.off
        draft = self._draft if speculation.takes_draft else None
        return replace(self.base, draft=draft, speculation=speculation)

    def generate(self, command: Generate) -> GenerationResult:
        """Continue a prompt on the server of the setting, which is started if necessary.

        Copies of it keep the other slots busy meanwhile. Raises as ``generate_together``.
        """
        return self.generate_together((command,))[0][0]

    def rounds(self, command: Generate, *arguments: str) -> tuple[Round, ...]:
        """Continue a prompt, and return the rounds that it took.

        Args:
            command: what to continue.
            arguments: further arguments of the server.

        Raises:
            HopelessError: it does not run as it was started.
            ServerError: it does not start, fails, or reports no rounds; it is ended then.
        """
        setup = self.setup(command.speculation)
        setup = replace(setup, extra=(*setup.extra, *arguments))
        body = {**_body(command), **self._neutral}
        return self._measured(setup, (command,), lambda server: server.rounds(body))

    def generate_together(self, commands: Sequence[Generate]) -> list[Timed]:
        """Continue prompts on the server of their setting, with all of its slots busy throughout.

        A server whose drafters remember that they had one of the prompts before is started anew.

        Args:
            commands: what to continue, all with one setting.

        Returns:
            The results, each with the seconds from asking to the answer.

        Raises:
            HopelessError: it does not run as it was started.
            ServerError: it does not start, or fails; it is ended then.
        """
        setup = self.setup(commands[0].speculation)
        done = self._measured(
            setup, commands, lambda server: self._completed(server, commands, setup)
        )
        found: list[tuple[GenerationResult, float | None]] = [
            (result_of(one, len(command.prompt), redoes_rounds=self.redoes_rounds), took_s)
            for command, (one, took_s) in zip(commands, done, strict=True)
        ]
        if setup.used_draft is not None and not self.servers.binary.prompt_times_include_draft:
            found = [(replace(one, n_evaluated=None), took_s) for one, took_s in found]
        return found

    def _measured(
        self, setup: Setup, commands: Sequence[Generate], measure: Callable[[LlamaClient], T]
    ) -> T:
        """Measure on the server of a setup, which is ended where it fails."""
        try:
            return measure(self._started(setup, commands))
        except ServerError:
            self.servers.end(setup)
            raise

    def _completed(
        self, server: LlamaClient, commands: Sequence[Generate], setup: Setup
    ) -> list[tuple[Completion, float]]:
        wanted = [{**_body(command), **self._neutral} for command in commands]
        if remembers(setup.speculation):
            self._had.setdefault(setup, set()).update(one.prompt for one in commands)
        done = server.complete_together(wanted, setup.n_slots)
        for one, _took_s in done:
            self.servers.check(setup, one)
        return done

    def generate_pair(self, command: GeneratePair) -> PairGenerated:
        """Continue a prompt on two servers, one after the other; raises as ``generate``."""
        order = (command.baseline, command.speculative)
        first, second = map(self.generate, order if command.baseline_first else reversed(order))
        off, on = (first, second) if command.baseline_first else (second, first)
        return PairGenerated(speculative=on, baseline=off, segments=())

    def probe_margin(self, _command: ProbeMargin) -> None:
        """Return None: a server does not report how close a choice was."""

    def _started(self, setup: Setup, commands: Sequence[Generate]) -> LlamaClient:
        # Its drafters would draft their earlier answer.
        if not self._had.get(setup, set()).isdisjoint(one.prompt for one in commands):
            self.servers.end(setup)
        n_starts, began_s = self.servers.n_starts, self.clock()
        server = self.servers.of(setup)
        if self.servers.n_starts > n_starts:
            self._had.pop(setup, None)
            self.move_s = self.clock() - began_s
        return server


def _neutral(setup: Setup) -> Json:
    """Fields of requests with which a server samples as the engine, whatever its model's defaults.

    What the user's own arguments say stays as it is.
    """
    is_given = any(item.name == "repeat-penalty" for item in divide(setup.extra))
    return {} if is_given else {"repeat_penalty": 1.0}


def _body(command: Generate) -> Json:
    """Request to continue a prompt, evaluated anew, with spectui's sampling."""
    sampling = command.sampling
    return completion_body(
        command.prompt,
        n_predict=command.n_predict,
        temperature=sampling.temp,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        seed=sampling.seed,
        ignore_eos=sampling.ignore_eos,
    )


def result_of(done: Completion, n_prompt_tokens: int, *, redoes_rounds: bool) -> GenerationResult:
    """Convert a completion into a result of the engine, as far as the server reports it.

    Args:
        done: the server's completion.
        n_prompt_tokens: number of prompt tokens sent.
        redoes_rounds: whether the target may redo a round, which then emits a token more; True
            where that is not known.
    """
    return GenerationResult(
        tokens=done.tokens,
        text=done.text,
        n_prompt_tokens=n_prompt_tokens,
        prompt_s=done.prompt_s,
        decode_s=done.predicted_s,
        counters=_counters(done, redoes_rounds=redoes_rounds),
        stop=_STOPS.get(done.stop, Stop.LENGTH),
        n_evaluated=done.n_evaluated,
    )


def _counters(done: Completion, *, redoes_rounds: bool) -> Counters:
    """Counts, and the number of rounds if it follows from them.

    A round emits what it accepted and one token more. A text that ends of itself may end inside a
    draft, whose accepted tokens are counted all the same.
    """
    n_rounds = len(done.tokens) - 1 - done.n_accepted
    follows = done.n_drafted == 0 or (done.stop == "limit" and not redoes_rounds)
    is_known = follows and n_rounds >= 0
    return Counters(
        n_rounds=n_rounds if is_known else 0,
        n_drafted=done.n_drafted,
        n_accepted=done.n_accepted,
        detail=Detail.N_ROUNDS if is_known else Detail.TOTALS,
    )


def measurer_of(backend: Backend, workload: Workload, *, baseline_share: float = 1.0) -> Measurer:
    """The measurer of a workload that suits what decodes it.

    All slots of a server are kept busy with prompts, which are all measured: blocks of as many
    prompts as there are slots take turns without and with speculation, as single prompts do where
    there is one slot. Where each change loads models, halves of all prompts do.

    Args:
        backend: decodes.
        workload: the prompts.
        baseline_share: as ``Measurer``.
    """
    if not isinstance(backend, ServerBackend):
        return Measurer(backend, workload, baseline_share=baseline_share)
    together = backend.generate_together if backend.n_slots > 1 else None
    return Measurer(backend, workload, n_streams=backend.n_slots, together=together)
