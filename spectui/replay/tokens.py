"""Tokens of a trace: those of a vocabulary, or numbers in their place."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from spectui.replay.trace import Chains, Recording, Tail, Trace


def bare(trace: Trace) -> Trace:
    """The same without text."""
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


def check_tokens(trace: Trace) -> None:
    """Raise ``ValueError`` with the recording whose tokens its models do not have.

    Numbers in their place are at most as many as there are tokens.
    """
    sizes = {name: draft.n_vocab for name, draft in trace.drafts.items()}
    if not trace.has_text:
        sizes = dict.fromkeys(sizes, max(trace.target.n_vocab, *sizes.values(), 0))
    for recording in trace.recordings:
        where = f"recording {recording.id}"
        _check_below(trace.target.n_vocab, (*recording.prompt, *recording.output), where)
        for name, chains in recording.chains.items():
            _check_below(sizes[name], drafted(chains), f"{name} on {recording.id}")
        if not trace.has_text and not _is_bare(recording):
            raise ValueError(
                f"{where} has tokens of a vocabulary, and the trace says that it holds no text"
            )


def drafted(chains: Chains) -> Iterable[int]:
    """All tokens of chains."""
    return chain(chains.tokens, *(tail.tokens for tail in chains.tails))


def _check_below(n_vocab: int, tokens: Iterable[int], where: str) -> None:
    for token in tokens:
        if not 0 <= token < n_vocab:
            raise ValueError(
                f"{where} has token {token}, which a vocabulary of {n_vocab} does not have"
            )


def _is_bare(recording: Recording) -> bool:
    """Whether tokens are numbered as they appear; those of drafts in any order, behind the rest."""
    n_seen = 0
    for token in (*recording.prompt, *recording.output):
        if token > n_seen:
            return False
        n_seen = max(n_seen, token + 1)
    behind = {token for chains in recording.chains.values() for token in drafted(chains)}
    new = {token for token in behind if token >= n_seen}
    return len(new) == max(new, default=n_seen - 1) + 1 - n_seen
