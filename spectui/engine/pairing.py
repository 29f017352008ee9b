"""One prompt decoded without and with speculation, in segments that take turns.

Another program that is busy for a second disturbs a segment of one side, not a prompt, and a clock
that falls slows both sides alike. Of every two segments in a row each side begins one; chance says
which, but for the first.

The answer is speculation's. After each segment the target goes back, decodes it alone, and holds
the text again: where it goes first, it decodes for as long as a segment takes, and speculation
follows until it has written as much. Where it decodes a share alone, that is the beginning of the
segment or of the next one, and speculation takes a whole segment's time.
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
from spectui.llama.context import SavePoint
from spectui.llama.sampling import SamplerChain
from spectui.speculative.counters import Round, count
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import NoDrafter
from spectui.speculative.models import Outputs


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
        self._alone_rounds: list[Round] = []
        self._alone_native_s = 0.0
        self._point: SavePoint | None = None
        self._known: list[tuple[int, list[int]]] = []
        """Positions in the answer, and what the target alone wrote from there."""

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
        """Decode the next part of the answer twice, or with speculation and a share of it alone."""
        tokens, segment_s = self._speculative.tokens, self._command.segment_s
        n_before = len(tokens)
        point = self._point = self._target.save_point(self._point)
        with self._speculative.next_sampler() as sampler:
            if alone_first:
                alone = self._alone(tokens[-1], sampler, self._n_left, segment_s * self._share)
                self._target.return_to(point)
                whole_s = segment_s if self._share < 1 else 0.0
                together = self._together(n_least=len(alone), least_s=whole_s)
            else:
                together = self._together(least_s=segment_s)
                if self._share < 1 and self._speculative.stop is None:
                    n_before, alone = len(tokens), self._alone_after(len(tokens) - n_before)
                else:
                    alone = self._alone_again(tokens[n_before - 1 :], sampler, point)
        self._known.append((n_before, _emitted(alone)))
        self._alone_rounds += alone
        self._segments.append(
            Segment(
                baseline_s=tuple(one.times.total_s for one in alone),
                rounds=tuple(map(RoundPrice.of, together)),
            )
        )

    def _alone_again(
        self, written: Sequence[int], sampler: SamplerChain, point: SavePoint
    ) -> list[Round]:
        """Go back, and decode what was written after ``written[0]`` with the target alone."""
        self._target.return_to(point)
        alone = self._alone(written[0], sampler, len(written) - 1)
        if _emitted(alone) != written[1:]:
            self._target.return_to(point)
            self._target.decode(written[:-1], Outputs.NONE)
        return alone

    def _alone_after(self, n_written: int) -> list[Round]:
        """Decode a share of as many tokens as were just written, and go back."""
        point = self._point = self._target.save_point(self._point)
        with self._speculative.next_sampler() as sampler:
            n_most = min(self._n_left, math.ceil(self._share * n_written))
            alone = self._alone(self._speculative.tokens[-1], sampler, n_most)
        self._target.return_to(point)
        return alone

    @property
    def _share(self) -> float:
        return self._command.baseline_share

    @property
    def _n_left(self) -> float:
        """Tokens that may still be written."""
        n_predict = self._command.speculative.n_predict
        return math.inf if n_predict < 0 else n_predict - len(self._speculative.tokens)

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

    def _alone(
        self, last: int, sampler: SamplerChain, n_most: float, most_s: float = math.inf
    ) -> list[Round]:
        """Rounds of the target alone until there are ``n_most`` tokens, or ``most_s`` have gone.

        Args:
            last: token that it goes on from, which the cache lacks.
            sampler: draws the tokens.
            n_most: tokens.
            most_s: seconds.
        """
        decoder = Decoder(self._target, NoDrafter(), n_predict=-1, clock=time.perf_counter)
        found: list[Round] = []
        with self._speculative.detached(sampler):
            native_before_s = self._target.native_s
            began = time.perf_counter()
            for finished in decoder.rounds(last, self._cancelled):
                found.append(finished)
                if len(found) >= n_most or time.perf_counter() >= began + most_s:
                    break
            self._alone_native_s += self._target.native_s - native_before_s
        if decoder.stop is Stop.CANCELLED:
            raise CancelledError("the generation was cancelled")
        return found

    def _baseline(self, speculative: GenerationResult) -> GenerationResult:
        """The target alone on the same text."""
        decode_s = sum(one.baseline_decode_s for one in self._segments)
        alone_s = sum(one.times.total_s for one in self._alone_rounds)
        return replace(
            speculative,
            prompt_s=speculative.prompt_s - (speculative.prompt_draft_s or 0.0),
            prompt_draft_s=0.0,
            n_read=0,
            tokens=_choices(speculative.tokens, self._known),
            decode_s=decode_s,
            native_s=self._alone_native_s * decode_s / alone_s if alone_s else 0.0,
            counters=count(self._alone_rounds),
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
