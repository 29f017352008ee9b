"""Compares the counts of llama-server with those of the engine. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.documents import Json, encoded, or_reason
from spectui.engine.events import GenerationResult
from spectui.measure.lossless import parting
from spectui.measure.measurer import Run
from spectui.measure.server_backend import remembers
from spectui.options.drafters import HiddenStateDrafter
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation


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

    def document(self) -> Json:
        """The prompt in documents."""
        return {
            "id": self.prompt_id,
            "engine": encoded(self.engine),
            "server": encoded(self.server),
            **or_reason("output_parts_at", self.parted_at, "the output is the same"),
        }


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


def compare_counts(
    served: Sequence[Run], results: Mapping[tuple[int, ...], GenerationResult]
) -> CountCheck:
    """Compare what the server did with the engine's results, by the prompts' tokens."""
    known = [(run, results[run.item.tokens]) for run in served if run.item.tokens in results]
    found = [_difference(run, result) for run, result in known]
    return CountCheck(
        n_compared=len(found), differences=tuple(one for one in found if one is not None)
    )


def _difference(run: Run, result: GenerationResult) -> Difference | None:
    done = run.speculative
    ours, theirs = _counts(result), _counts(done)
    at = None if result.tokens == done.tokens else parting(result.tokens, done.tokens)
    if ours == theirs and at is None:
        return None
    return Difference(prompt_id=run.item.id, engine=ours, server=theirs, parted_at=at)


def _counts(result: GenerationResult) -> Counts:
    return Counts(n_drafted=result.counters.n_drafted, n_accepted=result.counters.n_accepted)


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
