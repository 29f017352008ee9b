"""Recording the chains of drafts along an output."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from spectui.speculative.decoder import draft_cap
from spectui.speculative.models import BatchedDraft, DraftModel, Outputs, Row, SequenceModel
from spectui.speculative.mtp import longest_draft
from spectui.trace.record import Chains, Tail, mismatches


def record_chains(
    model: DraftModel,
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """Ask a draft for its chain at every position of an output.

    Where its top token is right, the chain goes on as the next position's does; so only an error
    costs the decodes of a chain. With acceptance α that is 1 + (1 - α)(depth - 1) decodes of one
    token per token of output.

    Args:
        model: its cache holds a beginning of ``prompt``, possibly nothing. Afterwards it holds
            prompt and output.
        prompt: tokens that the output continues.
        output: output of the target.
        depth: longest draft that the chains shall answer for.
        floor: as of the chains.
        cancelled: asked after every position; True ends the recording.

    Returns:
        The chains, None if cancelled.
    """
    if lacking := prompt[model.n_past :]:
        model.decode(lacking, Outputs.LAST)
    tops: list[tuple[int, float]] = []
    tails: list[Tail] = []
    for position, token in enumerate(output):
        if cancelled():
            return None
        # What the target's cache holds when a round begins here: all but the last token.
        n_past = model.n_past
        model.decode((token,), Outputs.LAST)
        tops.append(model.top())
        if position + 1 == len(output) or tops[-1][0] != output[position + 1]:
            cap = draft_cap(n_ctx=model.n_ctx, n_past=n_past, n_remaining=0)
            model.mark()
            tails.append(_tail(model, tops[-1], min(depth, cap) - 1, floor))
            model.truncate(n_past + 1)
    whole = _of_tops(tops)
    return Chains(
        depth=depth,
        floor=floor,
        tokens=whole.tokens,
        probabilities=whole.probabilities,
        tails=tuple(tails),
    )


def can_read(model: BatchedDraft, n_text: int, depth: int) -> bool:
    """Whether ``read_chains`` has sequences and cells enough for a text of ``n_text`` tokens."""
    return model.n_sequences > 1 and n_text + depth <= model.n_cells


def read_chains(
    model: BatchedDraft,
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """``record_chains`` in batches, of a draft for which ``can_read``.

    It reads the output as it would a prompt, and then goes on from several errors at once.
    """
    if lacking := prompt[model.n_past :]:
        model.decode(lacking, Outputs.LAST)
    tops: list[tuple[int, float]] = []
    of_output: list[float] = []
    for piece in _in_pieces(output, model.max_outputs):
        if cancelled():
            return None
        model.decode(piece, Outputs.ALL)
        tops += model.tops()
        coming = output[len(tops) - len(piece) + 1 :]
        of_output += map(_short, model.chances(coming[: len(piece)]))
    whole = _of_tops(tops)
    n_free = model.n_cells - model.n_past
    wrong = list(mismatches(output, whole.tokens))
    tails = _Tails(
        model,
        begins={len(prompt) + position: tops[position] for position in wrong},
        depth=depth,
        floor=floor,
        n_at_once=min(model.n_sequences - 1, n_free // max(depth - 1, 1)),
    )
    while tails.is_open:
        if cancelled():
            tails.close()
            return None
        tails.step()
    return Chains(
        depth=depth,
        floor=floor,
        tokens=whole.tokens,
        probabilities=whole.probabilities,
        tails=tails.found,
        of_output=(*of_output, 0.0) if len(of_output) == len(output) - 1 else (),
    )


class _Tails:
    """Continues a draft's own tokens, several at once, each in a sequence of its own."""

    def __init__(
        self,
        model: BatchedDraft,
        *,
        begins: Mapping[int, tuple[int, float]],
        depth: int,
        floor: float,
        n_at_once: int,
    ) -> None:
        """Begin nothing yet.

        Args:
            model: holds the text.
            begins: by number of tokens before the last one of the text so far, the draft's next
                token and its probability.
            depth: as of the chains.
            floor: as of the chains.
            n_at_once: sequences that there is room for.
        """
        self._model = model
        self._floor = floor
        self._chains = [[begin] for begin in begins.values()]
        self._places = [n_past + 1 for n_past in begins]
        self._lengths = [
            min(depth, draft_cap(n_ctx=model.n_ctx, n_past=n_past, n_remaining=0))
            for n_past in begins
        ]
        self._waiting = [index for index in range(len(begins)) if self._goes_on(index)][::-1]
        self._free = list(range(n_at_once, 0, -1))
        self._going: dict[int, int] = {}
        """Tails that are continued, by sequence."""

    @property
    def is_open(self) -> bool:
        """Whether any goes on."""
        return bool(self._waiting or self._going)

    @property
    def found(self) -> tuple[Tail, ...]:
        """The tails, in order."""
        return tuple(_of_tops(chain[1:]) for chain in self._chains)

    def step(self) -> None:
        """Continue as many as there is room for by a token each."""
        while self._waiting and self._free:
            sequence = self._free.pop()
            self._going[sequence] = self._waiting.pop()
            self._model.copy_to(sequence, self._places[self._going[sequence]])
        going = list(self._going.items())
        self._model.decode_each([self._next_row(*one) for one in going])
        for (sequence, index), top in zip(going, self._model.tops(), strict=True):
            self._chains[index].append(top)
            if not self._goes_on(index):
                self._end(sequence)

    def close(self) -> None:
        """Let go of all sequences."""
        for sequence in list(self._going):
            self._end(sequence)

    def _goes_on(self, index: int) -> bool:
        chain = self._chains[index]
        return len(chain) < self._lengths[index] and chain[-1][1] >= self._floor

    def _next_row(self, sequence: int, index: int) -> Row:
        chain = self._chains[index]
        return Row(sequence, self._places[index] + len(chain) - 1, chain[-1][0])

    def _end(self, sequence: int) -> None:
        del self._going[sequence]
        self._model.drop(sequence)
        self._free.append(sequence)


def _of_tops(tops: Sequence[tuple[int, float]]) -> Tail:
    return Tail(
        tokens=tuple(token for token, _probability in tops),
        probabilities=tuple(_short(probability) for _token, probability in tops),
    )


def _in_pieces(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def record_own_chains(
    target: SequenceModel,
    model: DraftModel,
    output: Sequence[int],
    *,
    depth: int,
    floor: float = 0.0,
    n_layers: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """Ask a target's MTP layers for their chain at every position of an output.

    What they draft depends on the text alone, by way of the target's hidden states, so it is
    exactly what they draft in a generation. It takes one pass of the target, and a chain per token.

    Args:
        target: holds the prompt, and shows its states to ``model``.
        model: holds the prompt. Afterwards both hold the output as well, but for its last token.
        output: output of the target.
        depth: longest draft that the chains shall answer for.
        floor: as of the chains.
        n_layers: MTP layers that draft.
        cancelled: asked after every position; True ends the recording.

    Returns:
        The chains, None if cancelled.
    """
    chains: list[Tail] = []
    longest = longest_draft(depth, n_layers)
    for position, token in enumerate(output):
        if cancelled():
            return None
        n_past = model.n_past
        model.mark()
        room = min(longest, model.n_ctx - n_past)
        chains.append(_own_tail(model, token, output[position + 1 :], room, floor))
        model.truncate(n_past)
        if position + 1 < len(output):
            target.decode((token,), Outputs.NONE)
            model.decode((token,), Outputs.NONE)
    return Chains(
        depth=depth,
        tokens=tuple(chain.tokens[0] for chain in chains),
        probabilities=tuple(chain.probabilities[0] for chain in chains),
        tails=tuple(
            Tail(tokens=chain.tokens[1:], probabilities=chain.probabilities[1:]) for chain in chains
        ),
        floor=floor,
        mtp_layers=n_layers,
    )


def _tail(model: DraftModel, begin: tuple[int, float], length: int, floor: float) -> Tail:
    """Continue a token of some probability by ``length`` at most, while none is below ``floor``."""
    tops = [begin]
    while len(tops) <= length and tops[-1][1] >= floor:
        model.decode((tops[-1][0],), Outputs.LAST)
        tops.append(model.top())
    return _of_tops(tops[1:])


def _own_tail(
    model: DraftModel, token: int, coming: Sequence[int], length: int, floor: float
) -> Tail:
    """Continue a token of the text: until the chain is wrong, and from there on as ``_tail``."""
    tops: list[tuple[int, float]] = []
    is_right, least = True, 1.0
    while len(tops) < length and (is_right or least >= floor):
        model.decode((token,), Outputs.LAST)
        token, probability = model.top()
        is_right = is_right and tuple(coming[len(tops) : len(tops) + 1]) == (token,)
        least = min(least, probability)
        tops.append((token, probability))
    return _of_tops(tops)


def _short(probability: float) -> float:
    """Nine digits name a number of single precision, and no two of them are named alike."""
    return float(f"{probability:.9g}")
