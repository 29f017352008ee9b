"""Runs one generation on the loaded models, and emits its events."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from spectui.engine import events
from spectui.engine.commands import Generate, ProbeMargin
from spectui.engine.models import LoadedModels
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.llama.context import Context
from spectui.llama.sampling import SamplerChain
from spectui.options.drafters import DrafterSetting, DraftMtp, NgramDrafter
from spectui.speculative.counters import Round, count
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import (
    ChainedDrafter,
    Clock,
    Drafter,
    DraftModelDrafter,
    VariedDrafter,
)
from spectui.speculative.models import Outputs, usable_snapshots
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter


def check_request(models: LoadedModels, command: Generate) -> None:
    """Refuse what cannot run, before anything is decoded.

    Raises:
        BadInputError: the prompt is empty or does not fit in the context.
        UsageError: numbers out of range.
    """
    n_ctx = models.target.n_ctx
    if not command.prompt:
        raise BadInputError("the prompt has no tokens; give some text")
    if len(command.prompt) + 1 >= n_ctx:
        is_full = n_ctx >= models.target.model.info.n_ctx_train
        remedy = "the model was trained for no more: " if is_full else "raise -c or "
        raise BadInputError(
            f"the prompt has {len(command.prompt)} tokens, which leaves no room to generate in a "
            f"context of {n_ctx}; {remedy}shorten the prompt"
        )
    if command.n_predict == 0 or command.n_predict < -1:
        raise UsageError(f"-n {command.n_predict}: must be positive, or -1 for no bound")
    for one in () if command.speculation is None else command.speculation.chain:
        _check_drafter(one, models.target.max_outputs - 1)


def _check_drafter(drafter: DrafterSetting, room: int) -> None:
    if drafter.longest > room:
        raise UsageError(
            f"draft_max {drafter.longest} is more than the {room} tokens that the target was "
            "loaded for; lower it, or load the target for longer drafts"
        )
    # A draft model may drop all its drafts: measurements do that to learn its cost.
    if isinstance(drafter, NgramDrafter) and (problem := drafter.check()):
        raise UsageError(f"{drafter.kind}: {problem}")


class Generation:
    """Runs a ``Generate`` command, whole or round by round. Use it once."""

    def __init__(
        self, models: LoadedModels, command: Generate, emit: events.Sink, clock: Clock | None = None
    ) -> None:
        """Prepare drafter and decoder; nothing runs yet.

        Args:
            models: the loaded ones.
            command: the request.
            emit: called with the event of every token and round.
            clock: times the rounds; None for the wall clock.

        Raises:
            BadInputError: the prompt is empty or does not fit in the context.
            UsageError: numbers out of range.
        """
        check_request(models, command)
        self._models = models
        self._command = command
        self._emit = emit
        config = command.speculation
        self._mtp = models.mtp if config is not None and config.is_mtp else None
        needs_draft = config is not None and config.needs_draft
        self._draft = models.draft if needs_draft else None
        used: tuple[Context | None, ...] = (models.target, self._draft, self._mtp)
        self._contexts = [context for context in used if context is not None]
        self._decoder = Decoder(
            models.target,
            self._drafter(),
            n_predict=command.n_predict,
            clock=time.perf_counter if clock is None else clock,
            # Where lengths are prescribed, rounds of each are to be measured.
            bounded=not command.draft_lengths,
        )
        self.tokens: list[int] = []
        """Emitted tokens."""
        self._pieces: list[bytes] = []
        self._rounds: list[Round] = []
        self._prompt_s = self._prompt_draft_s = 0.0
        self._n_evaluated = self._n_read = 0

    def _drafter(self) -> Drafter:
        command, config = self._command, self._command.speculation
        if config is None:
            return Drafter()
        drafters = [self._one_drafter(one) for one in config.chain]
        drafter = drafters[0] if len(drafters) == 1 else ChainedDrafter(drafters)
        return VariedDrafter(drafter, command.draft_lengths) if command.draft_lengths else drafter

    def _one_drafter(self, options: DrafterSetting) -> Drafter:
        if isinstance(options, NgramDrafter):
            # As with llama-server a chat's turns learn from each other; measurements must not.
            is_chat, chat = self._command.conversation, self._models.conversation
            return chat.ngram_drafter(options) if is_chat else ngram_drafter(options)
        clock = time.perf_counter
        if isinstance(options, DraftMtp):
            mtp = self._models.mtp
            # Where lengths are prescribed, what chains of that length cost is to be measured.
            bounded = bool(self._command.draft_lengths)
            return MtpDrafter(mtp, options, clock, n_layers=mtp.n_layers, bounded=bounded)
        return DraftModelDrafter(self._models.draft, options, clock)

    def run(self) -> events.GenerationResult:
        """Generate to the end, emitting on the way."""
        with self.attached():
            self.begin()
            for _round in self.rounds():
                pass
            result = self.result()
            self._follow_up(result.stop)
        return result

    @contextmanager
    def attached(self) -> Iterator[SamplerChain]:
        """Attach to the target the sampler, snapshots and MTP layers that this generation needs.

        Yields:
            The sampler of its tokens: a copy draws what it would draw next.
        """
        target = self._models.target
        with SamplerChain(self._command.sampling, target.vocabulary) as sampler:
            target.sampler = sampler
            self._attach()
            try:
                yield sampler
            finally:
                target.sampler = None
                target.show_states_to(None)

    def _attach(self) -> None:
        target = self._models.target
        target.show_states_to(self._mtp)
        target.use_snapshots(usable_snapshots(self._command.speculation))

    @contextmanager
    def detached(self, sampler: SamplerChain) -> Iterator[None]:
        """Lend the target to another decoder, which samples with ``sampler``."""
        target = self._models.target
        own, target.sampler = target.sampler, sampler
        target.show_states_to(None)
        try:
            yield
        finally:
            target.sampler = own
            self._attach()

    def begin(self) -> None:
        """Evaluate the prompt, or take it up again, and emit the first token."""
        began = time.perf_counter()
        self._recall_prompt()
        n_reused, n_prompt = self._models.target.n_past, len(self._command.prompt)
        lacking = [context for context in self._contexts if context.n_past < n_prompt]
        readers = self._contexts[1:]
        read_before_s = sum(context.native_s for context in readers)
        self._n_evaluated = n_prompt - n_reused
        self._n_read = n_prompt - min((one.n_past for one in readers), default=n_prompt)
        first = self._decoder.start(self._command.prompt)
        self._prompt_s = time.perf_counter() - began
        # MTP layers may read while the target does, so the seconds come from each context.
        self._prompt_draft_s = sum(context.native_s for context in readers) - read_before_s
        self._keep_prompt(lacking)
        self._emit(
            events.PromptEvaluated(n_tokens=n_prompt, seconds=self._prompt_s, n_reused=n_reused)
        )
        self._emit_token(first, from_draft=False)

    def rounds(self) -> Iterator[Round]:
        """Run rounds until the text ends, or a decode is aborted; each is counted and emitted."""
        try:
            for finished in self._decoder.rounds(self.tokens[-1], self._models.abort.is_set):
                self._rounds.append(finished)
                for position, token in enumerate(finished.tokens):
                    self._emit_token(token, from_draft=position < finished.n_accepted)
                self._emit(events.RoundFinished(round=finished, rejected=self._rejected(finished)))
                yield finished
        except CancelledError:
            # A decode was aborted in mid-round: what was emitted before stands.
            self._decoder.stop = Stop.CANCELLED

    @property
    def stop(self) -> Stop | None:
        """Why it has ended; None while it goes on."""
        return self._decoder.stop

    def result(self) -> events.GenerationResult:
        """Everything so far; one that goes on counts as cancelled."""
        counters = count(self._rounds)
        return events.GenerationResult(
            tokens=tuple(self.tokens),
            text=b"".join(self._pieces).decode(errors="replace"),
            n_prompt_tokens=len(self._command.prompt),
            prompt_s=self._prompt_s,
            decode_s=counters.times.total_s,
            counters=counters,
            stop=self._decoder.stop or Stop.CANCELLED,
            n_evaluated=self._n_evaluated,
            prompt_draft_s=self._prompt_draft_s,
            n_read=self._n_read,
            rounds=tuple(self._rounds),
        )

    def _follow_up(self, stop: Stop) -> None:
        """Let the MTP layers read the rest of the answer, which the chat's next turn begins with.

        The target would have to decode again what they have not read by then.
        """
        if self._mtp is None or not self._command.conversation or stop is Stop.CANCELLED:
            return
        # The answer is complete: what is cancelled here costs the next turn some time.
        with suppress(CancelledError):
            self._mtp.catch_up()

    def _rejected(self, finished: Round) -> tuple[bytes, ...]:
        piece = self._models.target.vocabulary.piece
        return tuple(piece(token) for token in finished.draft[finished.n_accepted :])

    def _emit_token(self, token: int, *, from_draft: bool) -> None:
        piece = self._models.target.vocabulary.piece(token)
        self.tokens.append(token)
        self._pieces.append(piece)
        self._emit(events.TokenEmitted(token=token, piece=piece, from_draft=from_draft))

    def _recall_prompt(self) -> None:
        """Leave in the caches what they hold of the prompt, and nothing else."""
        models, command = self._models, self._command
        if command.conversation:
            self._recall_conversation()
            return
        models.conversation.put_aside(models.contexts)
        for context in self._contexts:
            context.clear()
        if not command.reuse_prompt:
            return
        groups = [self._contexts] if self._mtp else [[one] for one in self._contexts]
        for contexts in groups:
            models.prompts.restore(contexts, command.prompt)

    def _recall_conversation(self) -> None:
        models, prompt = self._models, self._command.prompt
        models.conversation.take_up(models.contexts)
        if self._draft is not None:
            self._draft.keep_prefix(prompt)
        if self._mtp is not None:
            self._mtp.keep_prefix_of_both(prompt)
        else:
            models.target.keep_prefix(prompt)

    def _keep_prompt(self, evaluated: Sequence[Context]) -> None:
        """Keep the prompt; contexts in ``evaluated`` go on as if restored from a kept cache."""
        if not self._command.reuse_prompt or self._command.conversation:
            return
        for context in self._contexts:
            self._models.prompts.keep(context, self._command.prompt)
        for context in evaluated:
            context.settle()


def probe_margin(models: LoadedModels, command: ProbeMargin) -> events.MarginProbed:
    """Compare the target's logits after a text, decoded one by one and in one batch.

    Returns:
        The gap between the two best logits of the token-by-token run, and the largest difference
        between any logit of the two runs: what batching alone moves.
    """
    target = models.target
    models.conversation.put_aside(models.contexts)
    target.clear()
    target.decode(command.prompt, Outputs.LAST)
    for token in command.continuation:
        target.decode((token,), Outputs.LAST)
    single = target.logits(0).copy()
    target.truncate(len(command.prompt) - 1)
    target.decode((command.prompt[-1], *command.continuation), Outputs.LAST)
    batched = target.logits(0)
    second, best = np.partition(single, -2)[-2:]
    return events.MarginProbed(
        margin=float(best - second), noise=float(abs(single - batched).max())
    )
