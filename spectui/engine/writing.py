"""Answers to several prompts, of which the target decodes a token each at once.

Reading the weights once for all of them is what saves time. Each answer is a sequence of its own,
and as many are open as fit. A prompt is evaluated alone, in the target's own sequence, so that its
cache can be kept as that of any other generation; then the answer's sequence takes it over.

The sequences are those of the target's context where they cost no memory. Recurrent states and
windows have room for one sequence there, as in a llama-server with one slot. They get a context of
their own for as long as the writing takes, if a plan of it fits beside what is loaded; else one
answer is written after the other, in the sequence of its prompt.

Batches of several tokens are rounded otherwise than single ones: where two tokens are all but
equally good, an answer may part from the one that is written alone. Both are the target's own.
"""

import time
from contextlib import ExitStack, suppress

from spectui.engine.commands import Generate, WriteAnswers
from spectui.engine.events import AnswerWritten, Done, Sink, TokenEmitted
from spectui.engine.generation import check_request
from spectui.engine.models import LoadedModels
from spectui.errors import DoesNotFitError, UsageError
from spectui.llama.context import Context
from spectui.llama.pair import AnswersContext
from spectui.llama.sampling import SamplerChain
from spectui.speculative.decoder import stop_reason
from spectui.speculative.models import Outputs, Row

_MOST_AT_ONCE = 8


class _Answer:
    """An answer that is being written."""

    def __init__(self, index: int, prompt: tuple[int, ...], sampler: SamplerChain) -> None:
        self.index = index
        self.prompt = prompt
        self.sampler = sampler
        self.sequence = 0
        self.tokens: list[int] = []
        self.probabilities: list[float] = []
        self.decode_s = 0.0

    @property
    def n_past(self) -> int:
        """Tokens in the cache: all but the last one."""
        return len(self.prompt) + len(self.tokens) - 1


class Writing:
    """Runs a ``WriteAnswers`` command. Use it once."""

    def __init__(self, models: LoadedModels, command: WriteAnswers, emit: Sink) -> None:
        """Prepare; nothing runs yet.

        Args:
            models: the loaded ones.
            command: the request.
            emit: called with the event of every token and answer.

        Raises:
            BadInputError: a prompt is empty or does not fit in the context.
            UsageError: numbers out of range.
        """
        self._models, self._target = models, models.target
        self._command = command
        self._emit = emit
        for prompt in command.prompts:
            check_request(models, Generate(prompt=prompt, n_predict=command.n_predict))
        self._waiting = list(range(len(command.prompts)))
        self._open: list[_Answer] = []
        self._read_s: dict[int, float] = {}
        """Seconds of evaluating prompts for the first time."""
        self._context: Context = self._target
        """Holds the answers."""

    def run(self) -> Done:
        """Write all answers.

        Raises:
            CancelledError: it was cancelled.
        """
        self._models.conversation.put_aside(self._models.contexts)
        with ExitStack() as stack:
            if self._target.n_sequences == 1 and (context := self._context_for_several()):
                self._context = stack.enter_context(context)
            try:
                self._keep_prompts()
                while self._waiting or self._open:
                    self._models.abort.check("the writing was cancelled")
                    if self._waiting and self._has_room():
                        self._begin(self._waiting.pop(0), stack)
                    else:
                        self._step()
            finally:
                self._target.sampler = None
                self._target.clear()
        return Done()

    def _context_for_several(self) -> AnswersContext | None:
        """A context for as many answers as find room beside all that is loaded; None below two."""
        target, options = self._target, self._models.context_options
        most = sorted(map(self._most_cells, self._command.prompts), reverse=True)
        n = min(_MOST_AT_ONCE, len(most))
        while n > 1:
            if self._models.has_room_for_answers(n, sum(most[:n])):
                with suppress(DoesNotFitError, UsageError):
                    return AnswersContext(
                        target.model, options, n_answers=n, n_cells=sum(most[:n]), target=target
                    )
            n //= 2
        return None

    def _keep_prompts(self) -> None:
        """Evaluate the prompts, each alone in the cache, as long as there is memory to keep them.

        Beside other sequences its sums would be rounded in another order.
        """
        target, prompts = self._target, self._models.prompts
        for index, prompt in enumerate(self._command.prompts):
            target.clear()
            if (read_s := prompts.read(target, prompt)) is not None:
                self._read_s[index] = read_s
            if not prompts.keep(target, prompt):
                break
        target.clear()

    def _has_room(self) -> bool:
        """Whether the next answer fits beside the open ones, however long they get."""
        if not self._open:
            return True
        prompts = [one.prompt for one in self._open] + [self._command.prompts[self._waiting[0]]]
        return len(prompts) <= min(len(self._sequences), _MOST_AT_ONCE) and (
            sum(map(self._most_cells, prompts)) <= self._context.n_cells
        )

    @property
    def _sequences(self) -> range:
        """Sequences that an answer may have: not the one in which prompts are evaluated.

        Unless there is no other: then one answer is written after the other.
        """
        n = self._context.n_sequences
        return range(self._context is self._target and n > 1, n)

    def _most_cells(self, prompt: tuple[int, ...]) -> int:
        n_ctx, n_predict = self._target.n_ctx, self._command.n_predict
        return n_ctx if n_predict < 0 else min(len(prompt) + n_predict, n_ctx)

    def _begin(self, index: int, samplers: ExitStack) -> None:
        """Read a prompt, and take the first token of its answer from its logits."""
        target, prompt = self._target, self._command.prompts[index]
        target.truncate(0)
        if not self._models.prompts.restore((target,), prompt):
            began = time.perf_counter()
            target.decode(prompt, Outputs.LAST)
            self._read_s.setdefault(index, time.perf_counter() - began)
        chain = SamplerChain(self._command.sampling, target.vocabulary)
        answer = _Answer(index, prompt, samplers.enter_context(chain))
        target.sampler = answer.sampler
        first = target.sample(0)
        answer.sequence = min({*self._sequences} - {one.sequence for one in self._open})
        if self._context is not target:
            self._context.hold(answer.sequence, target.save())
            target.clear()
        elif answer.sequence:
            target.copy_to(answer.sequence)
            target.truncate(0)
        self._open.append(answer)
        self._append(answer, first)

    def _step(self) -> None:
        """Decode the last token of each open answer, and sample the next."""
        began = time.perf_counter()
        answers = self._open.copy()
        self._context.decode_each(
            [Row(one.sequence, one.n_past, one.tokens[-1]) for one in answers]
        )
        tokens = [one.sampler.sample(self._context.logits(i)) for i, one in enumerate(answers)]
        share_s = (time.perf_counter() - began) / len(answers)
        for answer, token in zip(answers, tokens, strict=True):
            answer.decode_s += share_s
            self._append(answer, token)

    def _append(self, answer: _Answer, token: int) -> None:
        """Append a token to an answer; emit the answer once complete, and free its cells."""
        target = self._target
        answer.tokens.append(token)
        answer.probabilities.append(answer.sampler.probability)
        piece = target.vocabulary.piece(token)
        self._emit(TokenEmitted(token=token, piece=piece, from_draft=False))
        stop = stop_reason(
            target,
            token,
            n_emitted=len(answer.tokens),
            n_predict=self._command.n_predict,
            n_past=answer.n_past,
        )
        if stop is None:
            return
        self._open.remove(answer)
        self._context.drop(answer.sequence)
        self._emit(
            AnswerWritten(
                index=answer.index,
                tokens=tuple(answer.tokens),
                probabilities=tuple(answer.probabilities),
                stop=stop,
                decode_s=answer.decode_s,
                read_s=self._read_s.get(answer.index),
            )
        )
