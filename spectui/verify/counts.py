"""Compares the counts of llama-server with those of the engine. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.engine.events import GenerationResult
from spectui.measure.server_backend import remembers
from spectui.measure.workload import WorkItem
from spectui.options.drafters import HiddenStateDrafter
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Draft counts of one generation."""

    n_drafted: int
    n_accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A prompt for which engine and server differ."""

    prompt_id: str
    engine: Counts
    server: Counts
    parted_at: int | None
    """Position of the first differing token of the output; None if all are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCheck:
    """Result of a comparison of counts and output."""

    n_compared: int
    """Generations of the server, repeats included."""
    differences: tuple[Difference, ...]

    @property
    def n_equal(self) -> int:
        """Generations with the engine's counts and output."""
        return self.n_compared - len(self.differences)


Tokens = tuple[int, ...]


def compare_counts(
    served: Sequence[tuple[WorkItem, Completion]], results: Mapping[Tokens, GenerationResult]
) -> CountCheck:
    """Compare what the server did with the engine's results, by the prompts' tokens."""
    known = [(item, done, results[item.tokens]) for item, done in served if item.tokens in results]
    found = [_difference(item, done, result) for item, done, result in known]
    return CountCheck(
        n_compared=len(found), differences=tuple(one for one in found if one is not None)
    )


def _difference(item: WorkItem, done: Completion, result: GenerationResult) -> Difference | None:
    ours = Counts(n_drafted=result.counters.n_drafted, n_accepted=result.counters.n_accepted)
    theirs = Counts(n_drafted=done.n_drafted, n_accepted=done.n_accepted)
    at = parting(result.tokens, done.tokens)
    if ours == theirs and at is None:
        return None
    return Difference(prompt_id=item.id, engine=ours, server=theirs, parted_at=at)


def parting(ours: Tokens, theirs: Tokens) -> int | None:
    """Position of the first difference of two outputs; None if they are equal."""
    if ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    return next((n for n, (one, other) in enumerate(pairs) if one != other), shorter)


def incomparable(speculation: Speculation, sampling: SamplingConfig) -> str | None:
    """Reason why counts need not be equal; None if they must be."""
    if isinstance(speculation.own, HiddenStateDrafter):
        return f"the engine cannot draft as {speculation.own.kind} does"
    if sampling.temp > 0:
        return "only greedy output is compared"
    if remembers(speculation):
        return "llama-server's n-gram drafters remember earlier requests"
    if speculation.is_mtp:
        return "llama-server's MTP layers begin where the request before ended"
    return None
