"""Sends the same prompts to a llama-server without and to one with speculation."""

from collections.abc import Callable, Sequence

from spectui.errors import BadInputError, HopelessError, SpectuiError
from spectui.measure.promise import Case
from spectui.measure.server_backend import Memory
from spectui.measure.servers import Fleet
from spectui.measure.workload import WARM_UP_TOKENS, WorkItem, as_tokens, complete, distinct
from spectui.options.setup import Setup
from spectui.paths import data_dir, ensure_dir
from spectui.prompts import Prompt
from spectui.server import Completion, LlamaServer
from spectui.server.binary import ServerBinary
from spectui.verify.order import Block, Side, blocks
from spectui.verify.served import Delivered, ServedPair
from spectui.verify.servers import setups_of


class Verifier:
    """Measures what servers deliver. Use it once."""

    def __init__(
        self,
        case: Case,
        prompts: Sequence[Prompt],
        *,
        repeats: int,
        seed: int,
        keeps_both: bool,
        on_pair: Callable[[ServedPair], None],
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            case: case to verify.
            prompts: prompts to send.
            repeats: repeats of every prompt.
            seed: seed of the order.
            keeps_both: whether both servers are alive at once.
            on_pair: told of every prompt that both have continued.
        """
        self._case = case
        self._setups = setups_of(case)
        self._prompts = prompts
        self._repeats = repeats
        self._seed = seed
        self._keeps_both = keeps_both
        self._on_pair = on_pair
        self._items: tuple[WorkItem, ...] = ()
        self._repeated: tuple[str, ...] = ()
        self._pairs: list[ServedPair] = []
        self._memory = Memory()

    def run(
        self,
        binary: ServerBinary,
        *,
        timeout_s: float,
        on_start: Callable[[Setup], None],
    ) -> Delivered:
        """Start the servers, send everything, end them.

        An interrupt or a failure after the first prompt ends it early, with what was measured.

        Raises:
            BadInputError: no prompt made the servers decode anything, or the binary has no words
                for what is asked for.
            HopelessError: a server does not run as it was started.
            ServerError: a server failed before anything was measured.
        """

        def started(setup: Setup) -> None:
            self._memory.clear(setup)
            on_start(setup)

        servers = Fleet(
            binary,
            logs=ensure_dir(data_dir() / "logs"),
            keeps_off=self._keeps_both,
            timeout_s=timeout_s,
            on_start=started,
            on_ready=self._prepare,
        )
        ended: BaseException | None = None
        with servers:
            try:
                self._measure(servers)
            except (KeyboardInterrupt, SpectuiError) as error:
                if not self._pairs or isinstance(error, HopelessError):
                    raise
                ended = error
        found = Delivered(
            pairs=tuple(self._pairs),
            n_starts=servers.n_starts,
            repeated=self._repeated,
            ended=ended,
        )
        if not found.observed and ended is None:
            raise BadInputError(
                "the model ended every answer at once, so there is no decoding to measure; "
                "use other prompts or --ignore-eos"
            )
        return found

    def _measure(self, servers: Fleet) -> None:
        for side in self._first_sides():
            servers.of(self._setups[side])
        n_prompts = len(self._items)
        for block in blocks(n_prompts, self._repeats, self._seed, keeps_both=self._keeps_both):
            self._run(servers, block)

    def _first_sides(self) -> tuple[Side, ...]:
        """The servers to start before anything is sent: both, or the one that is randomly first."""
        sides = blocks(1, 1, self._seed, keeps_both=self._keeps_both)[0].sides
        return sides if self._keeps_both else sides[:1]

    def _run(self, servers: Fleet, block: Block) -> None:
        first, second = block.sides
        begun = {index: self._complete(servers, first, index) for index in block.indexes}
        for index, done in begun.items():
            both = {first: done, second: self._complete(servers, second, index)}
            pair = ServedPair(item=self._items[index], off=both[Side.OFF], on=both[Side.ON])
            self._pairs.append(pair)
            self._on_pair(pair)

    def _complete(self, servers: Fleet, side: Side, index: int) -> Completion:
        setup, item = self._setups[side], self._items[index]
        if self._memory.holds(setup, item.tokens):
            servers.end(setup)
        done = self._send(servers.of(setup), item, self._case.n_predict)
        servers.check(setup, done)
        self._memory.add(setup, item.tokens)
        return done

    def _prepare(self, server: LlamaServer) -> None:
        """Tokenize the prompts, unless that is done, and warm up weights and caches."""
        if not self._items:
            found = as_tokens(
                server,
                self._prompts,
                n_predict=self._case.n_predict,
                n_ctx=self._case.context.ctx_size,
            )
            self._items, self._repeated = distinct(found)
        self._send(server, self._items[0], WARM_UP_TOKENS)

    def _send(self, server: LlamaServer, item: WorkItem, n_predict: int) -> Completion:
        return complete(server, item.tokens, self._case.sampling, n_predict)
