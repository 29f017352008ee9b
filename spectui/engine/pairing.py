"""One prompt decoded without and with speculation, in segments that take turns.

Another program that is busy for a second disturbs a segment of one side, not a prompt, and a clock
that falls slows both sides alike, since each begins half of the prompts.

The answer is speculation's, and so are the cells of the cache: the target alone goes on from where
the answer has got to, and its tokens are forgotten after its part, as those of a rejected draft
are. So speculation decodes what it would decode by itself, in the same batches over the same cells.

Where the target alone begins, it decodes for as long as a segment takes, or a share of that, and
speculation writes as much at least. Where speculation begins, the target alone decodes as many
tokens of the next segment, or a share of them, and those of the first one when the answer is
complete: nothing looks at its cells any more then.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from spectui.engine import events
from spectui.engine.commands import GeneratePair
from spectui.engine.generation import Generation
from spectui.engine.models import LoadedModels
from spectui.errors import CancelledError
from spectui.llama.sampling import SamplerChain
from spectui.speculative.counters import Round, count
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import Drafter
from spectui.speculative.models import Rollback


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

    def __init__(self, models: LoadedModels, command: GeneratePair, emit: events.Sink) -> None:
        """Prepare; nothing runs yet.

        ``emit`` gets ``PromptEvaluated`` alone; events of tokens would take time.

        Raises:
            BadInputError: the prompt is empty or does not fit in the context.
            UsageError: numbers out of range.
        """
        self._target, self._prompts = models.target, models.prompts
        self._command = command
        self._watch = Stopwatch()

        def emit_prompt(event: events.Event) -> None:
            if isinstance(event, events.PromptEvaluated):
                emit(event)

        self._speculative = Generation(models, command.speculative, emit_prompt, self._watch)
        self._rounds: Iterator[Round] = iter(())
        self._segments: list[events.Segment] = []
        self._alone: list[tuple[int, list[Round]]] = []
        """Positions in the answer, and the rounds of the target alone from there."""

    def run(self) -> events.PairGenerated:
        """Decode to the end.

        Raises:
            CancelledError: it was cancelled.
        """
        generation = self._speculative
        with generation.attached() as sampler:
            generation.begin()
            self._rounds = generation.rounds()
            with sampler.copy() as first_sampler:
                while generation.stop is None:
                    self._segment(sampler, first_sampler)
            result = generation.result()
        return events.PairGenerated(
            speculative=result, baseline=self._baseline(result), segments=tuple(self._segments)
        )

    def _segment(self, own_sampler: SamplerChain, first_sampler: SamplerChain) -> None:
        """Decode the next part of the answer with speculation, and as many tokens or less alone.

        Args:
            own_sampler: draws what speculation writes.
            first_sampler: draws what follows on the first token.
        """
        command, written = self._command, self._speculative.tokens
        share, segment_s = command.baseline_share, command.segment_s
        n_before = len(written)
        if command.baseline_first:
            n_predict = command.speculative.n_predict
            n_left = self._target.n_ctx if n_predict < 0 else n_predict - n_before
            with own_sampler.copy() as sampler:
                alone = self._decode_alone(n_before, sampler, n_left, segment_s * share)
            least_s = segment_s if share < 1 else 0.0
            together = self._together(n_least=len(alone), least_s=least_s)
        else:
            together = self._together(least_s=segment_s)
            n_alone = math.ceil(share * (len(written) - n_before))
            if self._speculative.stop is None:
                with own_sampler.copy() as sampler:
                    alone = self._decode_alone(len(written), sampler, n_alone)
            else:
                if self._target.rollback is not Rollback.TRUNCATE:
                    # It could not go back that far without decoding the prompt again.
                    self._prompts.restore((self._target,), command.speculative.prompt)
                alone = self._decode_alone(1, first_sampler, n_alone)
        self._segments.append(
            events.Segment(
                baseline_s=tuple(one.times.total_s for one in alone),
                rounds=tuple(together),
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

    def _decode_alone(
        self, position: int, sampler: SamplerChain, n_most: int, most_s: float = math.inf
    ) -> list[Round]:
        """Run rounds of the target alone, and forget their tokens.

        Args:
            position: in the answer, of the first token that it decodes.
            sampler: draws the tokens.
            n_most: tokens, at least 1.
            most_s: seconds after which no other round begins.
        """
        target, generation = self._target, self._speculative
        n_past = len(self._command.speculative.prompt) + position - 1
        n_most = min(n_most, target.n_ahead)
        decoder = Decoder(target, Drafter(), n_predict=n_most, clock=time.perf_counter)
        found: list[Round] = []
        with generation.detached(sampler):
            target.truncate(n_past)
            target.mark()
            began = time.perf_counter()
            for finished in decoder.rounds(
                generation.tokens[position - 1], target.model.abort.is_set
            ):
                found.append(finished)
                if time.perf_counter() >= began + most_s:
                    break
            if decoder.stop is Stop.CANCELLED:
                raise CancelledError("the generation was cancelled")
            target.truncate(n_past)
        self._alone.append((position, found))
        return found

    def _baseline(self, speculative: events.GenerationResult) -> events.GenerationResult:
        """The target alone on the same text; its counters are of each token of that once."""
        written = speculative.tokens
        by_position = {n + i: one for n, rounds in self._alone for i, one in enumerate(rounds)}
        return replace(
            speculative,
            prompt_s=speculative.prompt_s - (speculative.prompt_draft_s or 0.0),
            prompt_draft_s=0.0,
            n_read=0,
            tokens=_choices(written, ((n, _emitted(rounds)) for n, rounds in self._alone)),
            decode_s=sum(one.baseline_decode_s for one in self._segments),
            counters=count(one for at, one in by_position.items() if at < len(written)),
        )


def _emitted(rounds: Iterable[Round]) -> list[int]:
    """Tokens of rounds, in order."""
    return [token for one in rounds for token in one.tokens]


def _choices(written: Sequence[int], known: Iterable[tuple[int, Sequence[int]]]) -> tuple[int, ...]:
    """The target's own choice after the text so far, as far as it is known.

    After the first difference in a segment, and where the target decoded less, the text itself.
    """
    found = list(written)
    for begin, alone in known:
        for position, (text, own) in enumerate(zip(written[begin:], alone, strict=False), begin):
            found[position] = own
            if text != own:
                break
    return tuple(found)
