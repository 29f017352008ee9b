"""Records the chains that a draft proposes at every position of an output."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from spectui.speculative.decoder import draft_cap
from spectui.speculative.models import BatchedDraft, DraftModel, Outputs, Row, SequenceModel
from spectui.speculative.mtp import longest_draft
from spectui.trace.record import Chains, Tail, mismatches

Top = tuple[int, float]
"""A draft's most probable token, and its probability."""


def record_chains(
    model: DraftModel,
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Chains:
    """Ask a draft for its chain at every position of an output.

    Where its top token is right, the chain goes on as the next position's does; so only an error
    costs the decodes of a chain. With acceptance α that is 1 + (1 - α)(depth - 1) decodes of one
    token per token of output.

    Args:
        model: holds the prompt. Afterwards it holds the output as well.
        output: output of the target.
        depth: longest draft that the chains must cover, in tokens.
        floor: as ``Chains.floor``.
        check: called before every position; what it raises ends the recording.
    """
    tops: list[Top] = []
    tails: list[_Tail] = []
    for position, token in enumerate(output):
        check()
        # What the target's cache holds when a round begins here: all but the last token.
        n_past = model.n_past
        model.decode((token,), Outputs.LAST)
        tops.append(top := model.top())
        if tuple(output[position + 1 : position + 2]) != top[:1]:
            model.mark()
            tails.append(tail := _Tail(model.n_ctx, n_past, top, depth, floor))
            while tail.goes_on:
                model.decode((tail.tops[-1][0],), Outputs.LAST)
                tail.tops.append(model.top())
            model.truncate(n_past + 1)
    return _chains(tops, [one.tops for one in tails], depth=depth, floor=floor)


def can_read(model: BatchedDraft, n_text: int, depth: int) -> bool:
    """Whether ``read_chains`` has sequences and cells enough for a text of ``n_text`` tokens."""
    return model.n_sequences > 1 and n_text + depth <= model.n_cells


def read_chains(
    model: BatchedDraft,
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Chains:
    """``record_chains`` in batches, for a draft for which ``can_read`` holds.

    It reads the output as it would a prompt, and then goes on from several errors at once.
    """
    n_prompt = model.n_past
    tops: list[Top] = []
    of_output: list[float] = []
    for start in range(0, len(output), model.max_outputs):
        check()
        end = start + model.max_outputs
        model.decode(output[start:end], Outputs.ALL)
        tops += model.tops()
        of_output += map(_short, model.chances(output[start + 1 : end + 1]))
    wrong = mismatches(output, [token for token, _probability in tops])
    n_free = model.n_cells - model.n_past
    tails = [_Tail(model.n_ctx, n_prompt + at, tops[at], depth, floor) for at in wrong]
    n_at_once = min(model.n_sequences - 1, n_free // max(depth - 1, 1))
    _continue(model, tails, n_at_once, check)
    found = _chains(tops, [one.tops for one in tails], depth=depth, floor=floor)
    is_sampled = len(of_output) >= len(output) - 1
    return replace(found, of_output=(*of_output, 0.0)) if is_sampled else found


class _Tail:
    """The continuation of a draft's chain from its first wrong token on."""

    def __init__(self, n_ctx: int, n_past: int, begin: Top, depth: int, floor: float) -> None:
        """Begin with a token behind ``n_past + 1`` tokens of the text, and its probability."""
        self.tops = [begin]
        self._longest = min(depth, draft_cap(n_ctx=n_ctx, n_past=n_past, n_remaining=0))
        self._floor = floor
        self.n_text = n_past + 1

    @property
    def goes_on(self) -> bool:
        """Whether the chain needs more tokens."""
        return len(self.tops) < self._longest and self.tops[-1][1] >= self._floor

    def last(self, sequence: int) -> Row:
        """The row of its last token, to be decoded in a sequence that holds all before it."""
        return Row(sequence, self.n_text + len(self.tops) - 1, self.tops[-1][0])


def _continue(
    model: BatchedDraft, tails: Sequence[_Tail], n_at_once: int, check: Callable[[], None]
) -> None:
    """Continue tails of the text that the model holds, several at once, each in its sequence."""
    waiting = [one for one in reversed(tails) if one.goes_on]
    free = list(range(n_at_once, 0, -1))
    going: dict[int, _Tail] = {}
    try:
        while waiting or going:
            check()
            while waiting and free:
                sequence, tail = free.pop(), waiting.pop()
                going[sequence] = tail
                model.copy_to(sequence, tail.n_text)
            model.decode_each([tail.last(sequence) for sequence, tail in going.items()])
            for (sequence, tail), top in zip(list(going.items()), model.tops(), strict=True):
                tail.tops.append(top)
                if not tail.goes_on:
                    del going[sequence]
                    model.drop(sequence)
                    free.append(sequence)
    finally:
        for sequence in going:
            model.drop(sequence)


def record_own_chains(
    target: SequenceModel,
    model: DraftModel,
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    n_layers: int,
    check: Callable[[], None] = lambda: None,
) -> Chains:
    """Ask a target's MTP layers for their chain at every position of an output.

    What they draft depends on the text alone, by way of the target's hidden states, so it is
    exactly what they draft in a generation. It takes one pass of the target, and a chain per token.

    Args:
        target: holds the prompt, and shows its states to ``model``.
        model: holds the prompt. Afterwards both hold the output as well, but for its last token.
        output: output of the target.
        depth: longest draft that the chains must cover, in tokens.
        floor: as ``Chains.floor``.
        n_layers: MTP layers that draft.
        check: called before every position; what it raises ends the recording.
    """
    chains: list[list[Top]] = []
    longest = longest_draft(depth, n_layers)
    for position, token in enumerate(output):
        check()
        n_past = model.n_past
        model.mark()
        room = min(longest, model.n_ctx - n_past)
        chains.append(_own_chain(model, token, output[position + 1 :], room, floor))
        model.truncate(n_past)
        if position + 1 < len(output):
            target.decode((token,), Outputs.NONE)
            model.decode((token,), Outputs.NONE)
    firsts = [chain[0] for chain in chains]
    return _chains(firsts, chains, depth=depth, floor=floor, mtp_layers=n_layers)


def _own_chain(
    model: DraftModel, token: int, coming: Sequence[int], length: int, floor: float
) -> list[Top]:
    """Continue a token of the text: until the chain is wrong, and then while it is probable."""
    tops: list[Top] = []
    is_right, least = True, 1.0
    while len(tops) < length and (is_right or least >= floor):
        model.decode((token,), Outputs.LAST)
        token, probability = model.top()
        is_right = is_right and tuple(coming[len(tops) : len(tops) + 1]) == (token,)
        least = min(least, probability)
        tops.append((token, probability))
    return tops


def _chains(
    tops: Sequence[Top],
    ends: Sequence[Sequence[Top]],
    *,
    depth: int,
    floor: float,
    mtp_layers: int = 0,
) -> Chains:
    """The chains of all positions, from their first tokens and those chains that have a tail."""
    firsts = _of_tops(tops)
    return Chains(
        depth=depth,
        floor=floor,
        tokens=firsts.tokens,
        probabilities=firsts.probabilities,
        tails=tuple(_of_tops(chain[1:]) for chain in ends),
        mtp_layers=mtp_layers,
    )


def _of_tops(tops: Sequence[Top]) -> Tail:
    return Tail(
        tokens=tuple(token for token, _probability in tops),
        probabilities=tuple(_short(probability) for _token, probability in tops),
    )


def _short(probability: float) -> float:
    """The probability with nine digits, which identify a number of single precision."""
    return float(f"{probability:.9g}")
