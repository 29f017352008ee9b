"""The speculative loop over one sequence: prefill, then rounds until something stops it."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from spectui.speculative.counters import Round, RoundEnd, RoundTimes
from spectui.speculative.drafters import Clock, Draft, Drafter
from spectui.speculative.models import Outputs, TargetModel


def accept(target: TargetModel, draft: Sequence[int]) -> tuple[tuple[int, ...], int, RoundEnd]:
    """Sample the verified batch and compare it with the draft.

    As ``common_sampler_sample_and_accept_n``: the target's own sample is emitted whether it
    matches or not, which is why the output cannot depend on the draft. A drafted end of text is
    counted as accepted only in the last place of the draft, since llama-server counts so;
    nothing is emitted after it.

    Args:
        target: has just decoded the last token and the draft, with logits for all.
        draft: the drafted tokens, possibly none.

    Returns:
        The emitted tokens, which are the accepted ones and then the bonus token unless the text has
        ended; how many were accepted; and why no more.
    """
    emitted: list[int] = []
    for position, drafted in enumerate(draft):
        token = target.sample(position)
        emitted.append(token)
        if token != drafted:
            return tuple(emitted), position, RoundEnd.MISMATCH
        if target.is_eog(token):
            n_accepted = position + 1 if position + 1 == len(draft) else position
            return tuple(emitted), n_accepted, RoundEnd.END_OF_GENERATION
    emitted.append(target.sample(len(draft)))
    return tuple(emitted), len(draft), RoundEnd.EXHAUSTED


class Stop(StrEnum):
    """Why a generation ended."""

    END_OF_GENERATION = "eog"
    LENGTH = "length"
    """The requested number of tokens was reached."""
    CONTEXT = "context"
    """The context is full."""
    CANCELLED = "cancelled"


def stop_reason(
    target: TargetModel, last: int, *, n_emitted: int, n_predict: int, n_past: int
) -> Stop | None:
    """Why a generation ends with its ``last`` token, which the cache lacks; None if it goes on."""
    if target.is_eog(last):
        return Stop.END_OF_GENERATION
    if 0 <= n_predict <= n_emitted:
        return Stop.LENGTH
    # llama-server's process_token: without context shift one place stays free.
    return Stop.CONTEXT if n_past + 1 >= target.n_ctx else None


def draft_cap(*, n_ctx: int, n_past: int, n_remaining: int) -> int:
    """Longest draft that context and budget leave room for, possibly below 1.

    llama-server's ``server_slot::get_n_draft_max``: two tokens of the context stay free, and the
    bonus token takes one of the tokens still wanted. ``n_past`` does not count the last emitted
    token, which is not in the cache yet; ``n_remaining`` at or below 0 means no bound.
    """
    cap = n_ctx - n_past - 2
    return min(cap, n_remaining - 1) if n_remaining > 0 else cap


class Decoder:
    """Generates one sequence with one target and one drafter.

    After every round the caches of target and drafter agree on a prefix that lacks only the last
    emitted token.
    """

    def __init__(
        self,
        target: TargetModel,
        drafter: Drafter,
        *,
        n_predict: int,
        clock: Clock,
        bounded: bool = True,
    ) -> None:
        """Both models' caches hold the prompt or a beginning of it, possibly nothing.

        Args:
            target: the model whose output counts.
            drafter: the proposer.
            n_predict: tokens to emit, -1 for as many as fit.
            clock: source of all times.
            bounded: whether no draft is longer than what is left to emit, as with llama-server;
                otherwise the last round may emit more.
        """
        self._target = target
        self._drafter = drafter
        self._n_predict = n_predict
        self._bounded = bounded
        self._clock = clock
        self._n_emitted = 0
        self.stop: Stop | None = None
        """Why the generation has ended, None while it goes on."""

    def start(self, prompt: Sequence[int]) -> int:
        """Evaluate ``prompt`` where the caches lack it; return the first token, from its logits."""
        lacking = prompt[self._target.n_past :]
        if lacking:
            self._target.decode(lacking, Outputs.LAST)
        self._drafter.begin(prompt)
        first = self._target.sample(0)
        self._emitted((first,))
        return first

    def rounds(self, first: int, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Round]:
        """Run rounds after the ``first`` token until text, budget or context ends.

        What the consumer does between two rounds counts as the next round's ``other_s``.
        """
        last = first
        ended = self._clock()
        while self.stop is None:
            if cancelled():
                self.stop = Stop.CANCELLED
                return
            finished, ended = self._round(last, ended)
            last = finished.tokens[-1]
            self._emitted(finished.tokens)
            yield finished

    def _round(self, last: int, previous_ended: float) -> tuple[Round, float]:
        clock, target, drafter = self._clock, self._target, self._drafter
        n_past = target.n_past
        t_draft = clock()
        draft = self._draft(last)
        t_verify = clock()
        t_marked = t_verify
        batch = (last, *draft.tokens)
        if not target.can_forget(len(draft.tokens)):
            target.mark()
            t_marked = clock()
        target.decode(batch, Outputs.ALL)
        t_verified = clock()
        drafter.verified(batch)
        t_sample = clock()
        tokens, n_accepted, end = accept(target, draft.tokens)
        t_rollback = clock()
        # The emitted tokens but the last, even where an accepted end of text is the last.
        n_kept = len(tokens) - 1
        n_rejected = len(draft.tokens) - n_kept
        is_redone = not (target.can_forget(n_rejected) or target.is_eog(tokens[-1]))
        if is_redone:
            n_kept = len(tokens)
            tokens = (*tokens, self._redo(last, tokens, n_past))
        else:
            target.truncate(n_past + 1 + n_kept)
        if draft.tokens:
            drafter.judged(n_kept)
        drafter.accept(n_kept)
        t_end = clock()
        times = RoundTimes(
            draft_s=(t_verify - t_draft) + (t_sample - t_verified),
            verify_s=t_verified - t_marked,
            sample_s=t_rollback - t_sample,
            rollback_s=(t_marked - t_verify) + (t_end - t_rollback),
            other_s=t_draft - previous_ended,
        )
        return Round(
            draft=draft.tokens,
            probabilities=draft.probabilities,
            tokens=tokens,
            n_accepted=n_accepted,
            is_redone=is_redone,
            end=end,
            n_steps=draft.n_steps,
            chain_s=draft.chain_s,
            mark_s=t_marked - t_verify,
            times=times,
        ), t_end

    def _redo(self, last: int, emitted: Sequence[int], n_past: int) -> int:
        """Decode again what counts, from before the round on; return the token that follows.

        As llama-server does where a context cannot forget: it takes what it has emitted for the
        next draft, which is right, and so wins one token more.
        """
        target, drafter = self._target, self._drafter
        target.truncate(n_past)
        drafter.rolled_back(len(emitted) - 1)
        batch = (last, *emitted)
        target.decode(batch, Outputs.ALL)
        drafter.verified(batch)
        return target.sample(len(emitted))

    def _draft(self, last: int) -> Draft:
        cap = draft_cap(
            n_ctx=self._target.n_ctx,
            n_past=self._target.n_past,
            n_remaining=self._n_predict - self._n_emitted if self._bounded else 0,
        )
        return self._drafter.draft(last, cap) if cap > 0 else Draft()

    def _emitted(self, tokens: Sequence[int]) -> None:
        self._n_emitted += len(tokens)
        self.stop = stop_reason(
            self._target,
            tokens[-1],
            n_emitted=self._n_emitted,
            n_predict=self._n_predict,
            n_past=self._target.n_past,
        )
