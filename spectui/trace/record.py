"""Contents of a trace: outputs of a target, and the chains of its drafts along them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from spectui.options.setup import SamplingConfig
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback, n_common
from spectui.speculative.mtp import longest_draft
from spectui.trace.costs import MAX_DEPTH, MAX_INT, Costs

Probability = Annotated[float, Meta(ge=0, le=1 + 1e-6)]
"""Single precision: a softmax may exceed 1 by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Continuation of a draft after its first wrong token, most probable token by token."""

    tokens: tuple[int, ...]
    probabilities: tuple[Probability, ...]
    """Probability of each token under the draft's top-10 softmax; single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Proposals of one draft after every token of an output.

    A chain whose first token is right goes on as the next position's chain does, so only the
    positions where the draft errs need a tail: together they answer for every setting that drafts
    at most ``depth`` tokens.
    """

    depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH)]
    """Longest draft that the chains can answer for."""
    tokens: tuple[int, ...]
    """[n_output]: the draft's top token after output token i."""
    probabilities: tuple[Probability, ...]
    """[n_output]: of that token."""
    tails: tuple[Tail, ...]
    """Tails of positions whose token is not the output's next one, in order; the last position,
    which has no next one, always has a tail. Shorter than ``depth`` - 1 only where the context
    ends, where MTP layers do, or where a token is below ``floor``."""
    of_output: tuple[Probability, ...] = ()
    """[n_output]: probability of drafting output token i + 1 after token i where the draft samples
    as the target does, 0 behind the last; empty where that was not recorded."""
    floor: Annotated[float, Meta(ge=0, le=2)] = 0.0
    """Least ``draft_p_min`` above 0 that the chains answer for; all of them answer for 0 itself. A
    tail ends with its first token that is less probable: what a draft adds behind an error is never
    accepted, and with ``draft_p_min`` 0 its length is known. Above 1 there are no tails."""
    mtp_layers: Annotated[int, Meta(ge=0, le=MAX_DEPTH)] = 0
    """MTP layers of the target that draft, 0 for a draft model. A chain of theirs goes on from
    hidden states of their own, where the next position's begins with the target's; so none is part
    of another, and every position has a tail."""

    @property
    def unknown(self) -> float:
        """Probability that is taken for tokens behind the end of a chain.

        Those that were left out are below every ``draft_p_min`` but 0. Where none was, the context
        or the MTP layers end the chain.
        """
        return 0.0 if self.floor else -1.0

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
    output: Annotated[tuple[int, ...], Meta(min_length=1)]
    """The first token comes from the prompt's logits; every other one from a round."""
    probabilities: tuple[Probability, ...] = ()
    """[n_output]: of each token of the output, among those that the target's samplers had left;
    empty where that is not known."""
    stop: Stop
    n_predict: Annotated[int, Meta(ge=-1)]
    """Tokens that were wanted, -1 for no bound."""
    n_ctx: Annotated[int, Meta(ge=1, le=MAX_INT)]
    chains: dict[str, Chains]
    """Chains by the name of the draft."""
    rollback: Rollback
    """Rollback of the target: rounds that it has to redo emit one token more."""

    @property
    def n_decoded(self) -> int:
        """Tokens that rounds emit: all but the first."""
        return len(self.output) - 1

    @property
    def n_wanted(self) -> int:
        """Tokens that a replay predicts: of an output that was cut off, no more than there are."""
        return len(self.output) if self.stop is Stop.CANCELLED else self.n_predict


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """A model by its content's outline: it may move to another folder."""

    file: str
    arch: str
    n_params: int
    size_bytes: int
    """Bytes of the weights."""
    n_vocab: Annotated[int, Meta(ge=1, le=MAX_INT)]


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
    recordings: Annotated[tuple[Recording, ...], Meta(min_length=1)]


def mismatches(output: Sequence[int], tokens: Sequence[int]) -> Iterator[int]:
    """Positions where the draft's top token is not the output's next one, the last included."""
    for position, token in enumerate(tokens):
        if position + 1 == len(output) or token != output[position + 1]:
            yield position


def spread_out(output: Sequence[int], chains: Chains) -> tuple[tuple[int, ...], tuple[Tail, ...]]:
    """Spread the chains of one draft out.

    Returns:
        [n_output]: tokens in a row, up to the longest draft, that the draft has right after output
        token i; and the chain after it.

    Raises:
        ValueError: the numbers of tokens and tails do not fit the output.
    """
    is_whole = len(chains.tokens) == len(output)
    alone = range(len(output)) if chains.mtp_layers else mismatches(output, chains.tokens)
    ends = list(alone) if is_whole else []
    if not is_whole or len(ends) != len(chains.tails):
        raise ValueError("these chains belong to another output")
    tails = dict(zip(ends, chains.tails, strict=True))
    runs: list[int] = []
    rows: list[Tail] = []
    ahead = Tail(tokens=(), probabilities=())
    for position in reversed(range(len(output))):
        ahead = tails.get(position, ahead)
        ahead = Tail(
            tokens=(chains.tokens[position], *ahead.tokens)[: chains.depth],
            probabilities=(chains.probabilities[position], *ahead.probabilities)[: chains.depth],
        )
        runs.append(n_common(ahead.tokens, output[position + 1 : position + 1 + chains.depth]))
        rows.append(ahead)
    return tuple(reversed(runs)), tuple(reversed(rows))


def complete(recordings: Sequence[Recording]) -> tuple[Recording, ...]:
    """Even out recordings after an interrupt: keep the drafts that were recorded on every output.

    Before the first draft was complete, the prompts that it was recorded on; before it began, the
    outputs alone, which suffice for n-gram drafters.
    """
    names = set.intersection(*(set(r.chains) for r in recordings)) if recordings else set()
    if not names:
        begun = tuple(recording for recording in recordings if recording.chains)
        return begun or tuple(recordings)
    return tuple(
        replace(r, chains={name: one for name, one in r.chains.items() if name in names})
        for r in recordings
    )


def bare(trace: Trace) -> Trace:
    """A copy of the trace without text."""
    return replace(trace, recordings=tuple(map(without_text, trace.recordings)), has_text=False)


def without_text(recording: Recording) -> Recording:
    """Number the tokens by first appearance: equal ones stay equal, and no text can be read.

    The number of a token does not show its word.
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
