"""Contents of a trace and their recording: outputs of a target, chains of its drafts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from spectui.options.setup import SamplingConfig
from spectui.speculative.decoder import Stop, draft_cap
from spectui.speculative.models import (
    BatchedDraft,
    DraftModel,
    Outputs,
    Rollback,
    Row,
    SequenceModel,
)
from spectui.speculative.mtp import longest_draft
from spectui.trace.costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Continuation of a draft after its first wrong token, most probable token by token."""

    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    """Probability of each token under the draft's top-10 softmax; single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Proposals of one draft after every token of an output.

    A chain whose first token is right goes on as the next position's chain does, so only the
    positions where the draft errs need a tail: together they answer for every setting that drafts
    at most ``depth`` tokens.
    """

    depth: int
    """Longest draft that the chains can answer for."""
    tokens: tuple[int, ...]
    """[n_output]: the draft's top token after output token i."""
    probabilities: tuple[float, ...]
    """[n_output]: of that token."""
    tails: tuple[Tail, ...]
    """Tails of positions whose token is not the output's next one, in order; the last position,
    which has no next one, always has a tail. Shorter than ``depth`` - 1 only where the context
    ends, or where MTP layers do."""
    mtp_layers: int = 0
    """Those of the target's own that draft, 0 for a draft model. A chain of theirs goes on from
    hidden states of their own, where the next position's begins with the target's; so none is part
    of another, and every position has a tail."""

    @property
    def longest(self) -> int:
        """``draft_max`` from which on nothing changes, or what the chains can answer for."""
        return longest_draft(self.depth, self.mtp_layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One prompt's output, and the bounds under which it was made."""

    id: str
    category: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    """The first token comes from the prompt's logits; every other one from a round."""
    stop: Stop
    n_predict: int
    """Tokens that were asked for, -1 for no bound."""
    n_ctx: int
    chains: dict[str, Chains]
    """Chains by the name of the draft."""
    rollback: Rollback
    """Rollback of the target: rounds that it has to redo emit one token more."""

    @property
    def n_decoded(self) -> int:
        """Tokens that rounds emit: all but the first."""
        return max(0, len(self.output) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """A model by its content's outline: it may move to another folder."""

    file: str
    arch: str
    n_params: int
    size_bytes: int
    """Bytes of the weights."""
    n_vocab: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Recordings of one target with its drafts."""

    spectui: str
    """Version that recorded it."""
    recorded: str
    """When, ISO 8601 in UTC."""
    machine: str
    """Fingerprint."""
    llama_cpp: tuple[str, ...]
    """Versions of the binding and of llama.cpp."""
    target: ModelIdentity
    drafts: dict[str, ModelIdentity]
    sampling: SamplingConfig
    costs: dict[str, Costs]
    """Costs of rounds by draft; without those that were not measured."""
    has_text: bool
    """Whether tokens are those of the vocabulary. If not, each recording numbers its own by first
    appearance: enough for a replay, which only compares tokens."""
    recordings: tuple[Recording, ...]


def mismatches(output: Sequence[int], tokens: Sequence[int]) -> Iterator[int]:
    """Positions where the draft's top token is not the output's next one, the last included."""
    for position, token in enumerate(tokens):
        if position + 1 == len(output) or token != output[position + 1]:
            yield position


Proposals = tuple[tuple[int, ...], tuple[Tail, ...]]
"""Chains of one draft, spread out: [n_output] how many tokens in a row the draft has right after
output token i, and the chain after it."""


def spread_out(output: Sequence[int], chains: Chains) -> Proposals:
    """Spread chains out.

    Raises:
        ValueError: the numbers of tokens and tails do not fit the output.
    """
    is_whole = len(chains.tokens) == len(output)
    if chains.mtp_layers:
        if not is_whole or len(chains.tails) != len(output):
            raise ValueError("these chains belong to another output")
        return _each_alone(output, chains)
    wrong = list(mismatches(output, chains.tokens)) if is_whole else []
    if len(wrong) != len(chains.tails):
        raise ValueError("these chains belong to another output")
    runs: list[int] = []
    rows: list[Tail] = []
    tails = dict(zip(wrong, chains.tails, strict=True))
    ahead = Tail(tokens=(), probabilities=())
    run = 0
    for position in reversed(range(len(output))):
        if position in tails:
            run, ahead = 0, tails[position]
        else:
            run += 1
        ahead = Tail(
            tokens=(chains.tokens[position], *ahead.tokens)[: chains.depth],
            probabilities=(chains.probabilities[position], *ahead.probabilities)[: chains.depth],
        )
        runs.append(run)
        rows.append(ahead)
    return tuple(reversed(runs)), tuple(reversed(rows))


def _each_alone(output: Sequence[int], chains: Chains) -> Proposals:
    """Chains that are not part of each other."""
    rows = tuple(
        Tail(tokens=(token, *tail.tokens), probabilities=(probability, *tail.probabilities))
        for token, probability, tail in zip(
            chains.tokens, chains.probabilities, chains.tails, strict=True
        )
    )
    return tuple(_n_right(row.tokens, output[at + 1 :]) for at, row in enumerate(rows)), rows


def _n_right(chain: Sequence[int], coming: Sequence[int]) -> int:
    pairs = zip(chain, coming, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def record_chains(
    model: DraftModel,
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    depth: int,
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
        cancelled: asked after every position; True ends the recording.

    Returns:
        The chains, None if cancelled.
    """
    if lacking := prompt[model.n_past :]:
        model.decode(lacking, Outputs.LAST)
    tokens: list[int] = []
    probabilities: list[float] = []
    tails: list[Tail] = []
    for position, token in enumerate(output):
        if cancelled():
            return None
        # What the target's cache holds when a round begins here: all but the last token.
        n_past = model.n_past
        model.decode((token,), Outputs.LAST)
        top, probability = model.top()
        tokens.append(top)
        probabilities.append(_short(probability))
        if position + 1 == len(output) or top != output[position + 1]:
            cap = draft_cap(n_ctx=model.n_ctx, n_past=n_past, n_remaining=0)
            model.mark()
            tails.append(_tail(model, top, min(depth, cap) - 1))
            model.truncate(n_past + 1)
    return Chains(
        depth=depth,
        tokens=tuple(tokens),
        probabilities=tuple(probabilities),
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
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """``record_chains`` in batches, of a draft for which ``can_read``.

    It reads the output as it would a prompt, and then goes on from several errors at once.
    """
    if lacking := prompt[model.n_past :]:
        model.decode(lacking, Outputs.LAST)
    tops: list[tuple[int, float]] = []
    for piece in _in_pieces(output, model.max_outputs):
        if cancelled():
            return None
        model.decode(piece, Outputs.ALL)
        tops += model.tops()
    whole = _of_tops(tops)
    n_free = model.n_cells - model.n_past
    n_at_once = min(model.n_sequences - 1, n_free // max(depth - 1, 1))
    tails: list[Tail] = []
    for positions in _in_pieces(tuple(mismatches(output, whole.tokens)), n_at_once):
        if cancelled():
            return None
        begins = {len(prompt) + position: whole.tokens[position] for position in positions}
        tails += _tails_at_once(model, begins, depth)
    return Chains(
        depth=depth,
        tokens=whole.tokens,
        probabilities=whole.probabilities,
        tails=tuple(tails),
    )


def _tails_at_once(model: BatchedDraft, begins: Mapping[int, int], depth: int) -> list[Tail]:
    """Continue the draft's own tokens, each in a sequence of its own.

    Args:
        model: holds the text.
        begins: by number of tokens before the last one of the text so far, the draft's next token.
        depth: as of the chains.
    """
    chains = [[(token, 1.0)] for token in begins.values()]
    places = [n_past + 1 for n_past in begins]
    lengths = [
        min(depth, draft_cap(n_ctx=model.n_ctx, n_past=n_past, n_remaining=0)) - 1
        for n_past in begins
    ]
    for index, place in enumerate(places):
        model.copy_to(index + 1, place)
    for step in range(max(lengths)):
        going = [index for index, length in enumerate(lengths) if step < length]
        model.decode_each(
            [Row(index + 1, places[index] + step, chains[index][-1][0]) for index in going]
        )
        for index, top in zip(going, model.tops(), strict=True):
            chains[index].append(top)
    for index in range(len(places)):
        model.drop(index + 1)
    return [_of_tops(chain[1:]) for chain in chains]


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
        chains.append(_tail(model, token, min(longest, model.n_ctx - n_past)))
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
        mtp_layers=n_layers,
    )


def _tail(model: DraftModel, token: int, length: int) -> Tail:
    tops: list[tuple[int, float]] = []
    for _ in range(length):
        model.decode((token,), Outputs.LAST)
        tops.append(model.top())
        token = tops[-1][0]
    return _of_tops(tops)


def _short(probability: float) -> float:
    """Nine digits name a number of single precision, and no two of them are named alike."""
    return float(f"{probability:.9g}")


def bare(trace: Trace) -> Trace:
    """A copy of the trace without text."""
    return replace(trace, recordings=tuple(map(without_text, trace.recordings)), has_text=False)


def without_text(recording: Recording) -> Recording:
    """Number the tokens by first appearance: what was equal stays equal, and nothing can be read.

    A token that stands for a word becomes a number that stands for nothing but itself.
    """
    numbers: dict[int, int] = {}

    def number(tokens: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(token, len(numbers)) for token in tokens)

    def renumber(chains: Chains) -> Chains:
        tails = tuple(
            Tail(tokens=number(tail.tokens), probabilities=tail.probabilities)
            for tail in chains.tails
        )
        return replace(chains, tokens=number(chains.tokens), tails=tails)

    return replace(
        recording,
        prompt=number(recording.prompt),
        output=number(recording.output),
        chains={name: renumber(chains) for name, chains in recording.chains.items()},
    )
