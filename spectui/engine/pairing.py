"""One prompt decoded without and with speculation, in segments that take turns.

Another program that is busy for a second disturbs a segment of one side, not a prompt, and a clock
that falls slows both sides alike. Of every two segments in a row each side begins one; chance says
which, but for the first.

The answer is speculation's, and so are the cells of the cache: the target alone goes on from where
the answer has got to, and its tokens are forgotten after its part, as those of a rejected draft
are. So speculation decodes what it would decode by itself, in the same batches over the same cells.
Where it goes first, the target alone follows for as many tokens, or a share of them; where the
target alone begins, it decodes for as long as a segment takes, or a share of that, and speculation
writes as much at least.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from spectui.engine.commands import GeneratePair
from spectui.engine.events import (
    Event,
    GenerationResult,
    PairGenerated,
    PromptEvaluated,
    RoundPrice,
    Segment,
)
from spectui.engine.generation import Generation
from spectui.engine.models import LoadedModels
from spectui.errors import CancelledError
from spectui.speculative.counters import Round, count
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import NoDrafter


class Stopwatch:
    """Counts the seconds in which it runs."""

    def __init__(self) -> None:
        """Begin stopped, at 0."""
        self._seconds = 0.0
        self._began: float | None = None

    def __call__(self) -> float:
        """Seconds so far."""
        now_s = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._seconds + now_s

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run for a while."""
        self._began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds, self._began = self(), None


class PairGeneration:
    """Runs a ``GeneratePair`` command. Use it once."""

    def __init__(
        self,
        models: LoadedModels,
        command: GeneratePair,
        emit: Callable[[Event], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Prepare; nothing runs yet.

        ``emit`` is told when the prompt has been evaluated; to tell of tokens would take time.

        Raises:
            BadInputError: the prompt is empty or does not fit in the context.
            UsageError: numbers out of range.
        """
        self._target = models.target
        self._command = command
        self._cancelled = cancelled
        self._watch = Stopwatch()

        def emit_prompt(event: Event) -> None:
            if isinstance(event, PromptEvaluated):
                emit(event)

        self._speculative = Generation(
            models, command.speculative, emit_prompt, cancelled, self._watch
        )
        self._rounds: Iterator[Round] = iter(())
        self._segments: list[Segment] = []
        self._alone: list[tuple[int, list[Round]]] = []
        """Positions in the answer, and the rounds of the target alone from there."""
        self._alone_native_s = 0.0

    def run(self) -> PairGenerated:
        """Decode to the end.

        Raises:
            CancelledError: it was cancelled.
        """
        generation = self._speculative
        orders = _turns(baseline_first=self._command.baseline_first)
        with generation.attached():
            generation.begin()
            self._rounds = generation.rounds()
            while generation.stop is None:
                self._segment(alone_first=next(orders))
            result = generation.result()
        return PairGenerated(
            speculative=result, baseline=self._baseline(result), segments=tuple(self._segments)
        )

    def _segment(self, *, alone_first: bool) -> None:
        """Decode the next part of the answer with speculation, and as many tokens or less alone."""
        command, written = self._command, self._speculative.tokens
        share, segment_s = command.baseline_share, command.segment_s
        if alone_first:
            n_predict = command.speculative.n_predict
            n_left = self._target.n_ctx if n_predict < 0 else n_predict - len(written)
            alone = self._decode_alone(n_left, segment_s * share)
            least_s = segment_s if share < 1 else 0.0
            together = self._together(n_least=len(alone), least_s=least_s)
        else:
            n_before = len(written)
            together = self._together(least_s=segment_s)
            alone = self._decode_alone(math.ceil(share * (len(written) - n_before)))
        self._segments.append(
            Segment(
                baseline_s=tuple(one.times.total_s for one in alone),
                rounds=tuple(map(RoundPrice.of, together)),
            )
        )

    def _together(self, *, n_least: int = 1, least_s: float = 0.0) -> list[Round]:
        """Rounds with speculation until there are ``n_least`` tokens and ``least_s`` have gone."""
        found: list[Round] = []
        with self._watch.running():
            began = self._watch()
            while len(_emitted(found)) < n_least or self._watch() < began + least_s:
                finished = next(self._rounds, None)
                if finished is None:
                    break
                found.append(finished)
        if self._speculative.stop is Stop.CANCELLED:
            raise CancelledError("the generation was cancelled")
        return found

    def _decode_alone(self, n_most: int, most_s: float = math.inf) -> list[Round]:
        """Run rounds of the target alone behind the answer so far, and forget their tokens.

        Args:
            n_most: tokens, at least 1; behind the end of the answer fewer may fit.
            most_s: seconds after which no other round begins.
        """
        target, written = self._target, self._speculative.tokens
        n_past, n_most = target.n_past, min(n_most, target.n_ahead)
        decoder = Decoder(target, NoDrafter(), n_predict=n_most, clock=time.perf_counter)
        found: list[Round] = []
        target.mark()
        with self._speculative.detached():
            native_before_s = target.native_s
            began = time.perf_counter()
            for finished in decoder.rounds(written[-1], self._cancelled):
                found.append(finished)
                if time.perf_counter() >= began + most_s:
                    break
            self._alone_native_s += target.native_s - native_before_s
        if decoder.stop is Stop.CANCELLED:
            raise CancelledError("the generation was cancelled")
        target.truncate(n_past)
        self._alone.append((len(written), found))
        return found

    def _baseline(self, speculative: GenerationResult) -> GenerationResult:
        """The target alone on the same text; its counters are of each token of that once."""
        written = speculative.tokens
        decode_s = sum(one.baseline_decode_s for one in self._segments)
        alone_s = sum(sum(one.baseline_s) for one in self._segments)
        by_position = {n + i: one for n, rounds in self._alone for i, one in enumerate(rounds)}
        return replace(
            speculative,
            prompt_s=speculative.prompt_s - (speculative.prompt_draft_s or 0.0),
            prompt_draft_s=0.0,
            n_read=0,
            tokens=_choices(written, ((n, _emitted(rounds)) for n, rounds in self._alone)),
            decode_s=decode_s,
            native_s=self._alone_native_s * decode_s / alone_s if alone_s else 0.0,
            counters=count(one for at, one in by_position.items() if at < len(written)),
        )


def _turns(*, baseline_first: bool) -> Iterator[bool]:
    """Whether the target alone begins, segment by segment."""
    chance = Random(baseline_first)  # noqa: S311 - an order, not a secret
    first = baseline_first
    while True:
        yield from (first, not first)
        first = chance.random() < 0.5  # noqa: PLR2004 - one of two


def _emitted(rounds: Iterable[Round]) -> list[int]:
    """Tokens of rounds, in order."""
    return [token for one in rounds for token in one.tokens]


def _choices(written: Sequence[int], known: Iterable[tuple[int, Sequence[int]]]) -> tuple[int, ...]:
    """The target's own choice after the text so far, as far as it can be told.

    After the first difference of a segment, and where it decoded less, the text itself.
    """
    found = list(written)
    for begin, alone in known:
        for position, (theirs, its) in enumerate(zip(written[begin:], alone, strict=False), begin):
            found[position] = its
            if theirs != its:
                break
    return tuple(found)
