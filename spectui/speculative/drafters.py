"""Drafters: they propose tokens, and must learn enough to stay in step with the target.

The methods are those of llama.cpp's ``common_speculative_impl``: begin, draft, process (here
``verified``) and accept, which is two here: the drafter of the round's draft is ``judged``, and
all drafters ``accept``.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from spectui.options.drafters import ModelDrafter
from spectui.speculative.models import DraftModel, Outputs

Clock = Callable[[], float]
"""Seconds from an arbitrary origin, such as ``time.perf_counter``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A proposal: ``tokens`` and their probabilities, and what the chain cost."""

    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    n_steps: int = 0
    chain_s: float = 0.0


class Drafter:
    """Proposes the continuation of a sequence that the target extends; by itself nothing.

    So it is speculation switched off as well: every round is one target token.
    """

    def begin(self, prompt: Sequence[int]) -> None:
        """Take ``prompt`` as the sequence, once and before all else.

        A cache holds it or a beginning of it already.
        """

    def draft(self, last: int, n_max: int) -> Draft:  # noqa: ARG002 - names for those that draft
        """Propose at most ``n_max`` tokens after ``last``, which the target has just emitted."""
        return Draft()

    def verified(self, batch: Sequence[int]) -> None:
        """Learn that the target has decoded ``batch``: the last token and the draft."""

    def rolled_back(self, n_accepted: int) -> None:
        """Learn that the target goes back to before the batch that it has just decoded.

        Its last token and its first ``n_accepted`` drafted ones count; the target decodes them
        again with its own next token behind them, and ``verified`` follows.
        """

    def judged(self, n_accepted: int) -> None:
        """Learn how many tokens of this drafter's own draft were accepted; not of an empty one.

        Of a round that was redone the token that the target wanted counts, too.
        """

    def accept(self, n_accepted: int) -> None:
        """Keep the last token and the first ``n_accepted`` of the draft; forget the rest."""


class TextDrafter(Drafter):
    """Base of drafters without a model: they follow the text alone."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        """The sequence without its last token, as the target's cache has it."""
        self._batch: tuple[int, ...] = ()

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far."""
        self._tokens = list(prompt)

    def verified(self, batch: Sequence[int]) -> None:
        """Remember the batch until it is known what of it counts."""
        self._batch = tuple(batch)

    def accept(self, n_accepted: int) -> None:
        """The text grows by what was accepted; rejected tokens never were part of it."""
        self._tokens += self._batch[: 1 + n_accepted]


def float32(value: float) -> float:
    """``value`` rounded to single precision, as llama.cpp holds its thresholds."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


def draft_chain(
    model: DraftModel, last: int, config: ModelDrafter, n_max: int, clock: Clock
) -> Draft:
    """Draft token by token, as ``common_speculative_impl_draft_simple::draft`` does.

    Args:
        model: the draft, in step with the target but for ``last``.
        last: the last emitted token, decoded first.
        config: bounds; the floor ``draft_p_min`` holds for each token alone.
        n_max: bound of this round from context and budget, at least 1.
        clock: times the chain's single-token decodes.

    Returns:
        The draft, empty if it stayed shorter than ``draft_min``. The model has decoded
        ``last`` and every drafted token but the last, or the last as well if the chain
        ended at the floor.
    """
    floor = float32(config.draft_p_min)
    longest = min(config.draft_max, n_max)
    tokens: list[int] = []
    probabilities: list[float] = []
    started = clock()
    model.mark()
    model.decode((last,), Outputs.LAST)
    n_steps = 1
    while True:
        token, probability = model.top()
        if probability < floor:
            break
        tokens.append(token)
        probabilities.append(probability)
        if len(tokens) >= longest:
            break
        model.decode((token,), Outputs.LAST)
        n_steps += 1
    chain_s = clock() - started
    if len(tokens) < config.draft_min:
        return Draft(n_steps=n_steps, chain_s=chain_s)
    return Draft(
        tokens=tuple(tokens), probabilities=tuple(probabilities), n_steps=n_steps, chain_s=chain_s
    )


class DraftModelDrafter(Drafter):
    """A draft model driven as llama-server does: the verified batch is evaluated a second time."""

    _follows_with = Outputs.LAST
    """Logits of what is evaluated only to follow the target; llama-server asks for them, too."""
    _is_marked = False
    """Whether it is cheap to go back to where the round began."""

    def __init__(self, model: DraftModel, config: ModelDrafter, clock: Clock) -> None:
        """Draft with ``model``, whose cache holds the prompt or a beginning of it."""
        self._model = model
        self._config = config
        self._clock = clock
        self._n_past = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Evaluate what the model's cache lacks of the prompt."""
        lacking = prompt[self._model.n_past :]
        if lacking:
            self._model.decode(lacking, self._follows_with)
        self._n_past = len(prompt)

    def draft(self, last: int, n_max: int) -> Draft:
        """Draft from ``last``, then forget the chain: ``verified`` evaluates it again."""
        draft = draft_chain(self._model, last, self._config, n_max, self._clock)
        # Where it was marked: the mark serves the batch as well.
        self._model.truncate(self._n_past)
        self._is_marked = True
        return draft

    def verified(self, batch: Sequence[int]) -> None:
        """Evaluate ``batch`` on the draft, as llama-server does after every target decode."""
        if len(batch) > 1 and not self._is_marked:
            # Another drafter's proposal: what is rejected of it must not cost the whole text.
            self._model.mark()
        self._is_marked = False
        self._model.decode(batch, self._follows_with)

    def rolled_back(self, n_accepted: int) -> None:  # noqa: ARG002 - the protocol's
        """Forget the batch, all of which is evaluated again."""
        self._model.truncate(self._n_past)
        self._is_marked = True

    def accept(self, n_accepted: int) -> None:
        """Forget the rejected tokens."""
        self._n_past += 1 + n_accepted
        self._model.truncate(self._n_past)


class ChainedDrafter(Drafter):
    """Several drafters, of whom the first that proposes anything is taken in each round.

    As llama-server does with several ``--spec-type``: all of them follow the text, and only the one
    whose draft was used learns how many tokens were accepted (``common_speculative_draft``,
    ``_accept``).
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        """Ask ``drafters`` in this order; at least one."""
        self._drafters = tuple(drafters)
        self._used = self._drafters[-1]

    def begin(self, prompt: Sequence[int]) -> None:
        """Begin all drafters."""
        for drafter in self._drafters:
            drafter.begin(prompt)

    def draft(self, last: int, n_max: int) -> Draft:
        """Return the first draft that is not empty; later drafters do not draft."""
        draft = Draft()
        for drafter in self._drafters:
            self._used = drafter
            draft = drafter.draft(last, n_max)
            if draft.tokens:
                break
        return draft

    def verified(self, batch: Sequence[int]) -> None:
        """Pass the batch to all drafters."""
        for drafter in self._drafters:
            drafter.verified(batch)

    def rolled_back(self, n_accepted: int) -> None:
        """Pass on to all drafters that the batch was rolled back."""
        for drafter in self._drafters:
            drafter.rolled_back(n_accepted)

    def judged(self, n_accepted: int) -> None:
        """Pass the number on to the drafter whose draft was used."""
        self._used.judged(n_accepted)

    def accept(self, n_accepted: int) -> None:
        """Pass the number of accepted tokens on to all drafters."""
        for drafter in self._drafters:
            drafter.accept(n_accepted)


class VariedDrafter(ChainedDrafter):
    """A drafter whose longest draft changes from round to round.

    For measuring what rounds of every length cost, one beside the other in a real generation. The
    output is the target's own, as always.
    """

    def __init__(self, drafter: Drafter, lengths: Sequence[int]) -> None:
        """Let ``drafter`` draft at most ``lengths``, one per round and over again; 0 is none."""
        super().__init__([drafter])
        self._lengths = cycle(lengths)

    def draft(self, last: int, n_max: int) -> Draft:
        """Draft at most this round's length."""
        length = min(next(self._lengths), n_max)
        return super().draft(last, length) if length > 0 else Draft()
