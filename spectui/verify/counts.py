"""Compares the counts of llama-server with those of the engine. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.engine.events import GenerationResult
from spectui.format import counted
from spectui.measure.lossless import differs, parting
from spectui.measure.measurer import Pair
from spectui.measure.server_backend import remembers
from spectui.measure.workload import WorkItem
from spectui.options.drafters import HiddenStateDrafter
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.verify.builds import Builds

Sample = tuple[tuple[int, ...], int]
"""Key of an answer with one setting: tokens of the prompt, and which sample it is."""

_FEW = 4
"""Near ties are rare: one is likely only if at most one prompt in this many differs."""


class Cause(StrEnum):
    """The likely cause of a difference."""

    BUILD = "build"
    """The binary is a different build of llama.cpp."""
    NEAR_TIE = "near tie"
    """Two choices were closer than the effect of a different batch size."""
    OTHER = "other"


_SAID = {
    Cause.BUILD: "the binary is another llama.cpp than the one that measures in-process",
    Cause.NEAR_TIE: (
        "a near tie, two tokens that are closer than a batch of another size moves them"
    ),
    Cause.OTHER: (
        "something that the server has and the measurement has not, such as its environment, its "
        "own arguments or another build"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A prompt for which engine and server differ."""

    prompt_id: str
    engine: Counters
    server: Counters
    parted_at: int | None
    """Position of the first differing token of the output; None if all are equal."""

    def document(self) -> Json:
        """The prompt in documents."""
        return {
            "id": self.prompt_id,
            **{
                name: {"n_drafted": one.n_drafted, "n_accepted": one.n_accepted}
                for name, one in (("engine", self.engine), ("server", self.server))
            },
            **or_reason("output_parts_at", self.parted_at, "the output is the same"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCheck:
    """Result of a comparison of counts and output."""

    n_compared: int
    """Generations of the server, repeats included."""
    differences: tuple[Difference, ...]
    prompts: frozenset[str]
    """Prompts that the servers have continued."""
    unsteady: frozenset[str]
    """Those whose output on the servers changed with the size of batches."""

    @property
    def n_equal(self) -> int:
        """Generations with the engine's counts and output."""
        return self.n_compared - len(self.differences)

    @property
    def different(self) -> frozenset[str]:
        """Prompts that differ."""
        return frozenset(one.prompt_id for one in self.differences)

    def cause(self, builds: Builds) -> Cause | None:
        """The likely cause of the differences; None if there are none."""
        if not self.differences:
            return None
        if builds.is_same is False:
            return Cause.BUILD
        is_few = len(self.different) * _FEW <= len(self.prompts)
        return Cause.NEAR_TIE if is_few or self.different <= self.unsteady else Cause.OTHER

    def sentence(self, builds: Builds) -> str | None:
        """The differences and their likely cause; None if there are none."""
        cause = self.cause(builds)
        if cause is None:
            return None
        prompts = counted(len(self.prompts), "prompt")
        return (
            f"counts differ on {len(self.different)} of {prompts}; likely reason: {_SAID[cause]}."
        )

    def document(self, builds: Builds) -> Json:
        """The comparison in documents."""
        cause, equal = self.cause(builds), "they are equal"
        return {
            "n_compared": self.n_compared,
            "n_equal": self.n_equal,
            "n_different_prompts": len(self.different),
            **or_reason("verdict", self.sentence(builds), equal),
            **or_reason("likely_reason", None if cause is None else str(cause), equal),
            "different": [one.document() for one in self.differences],
        }


def sample_of(item: WorkItem) -> Sample:
    """Tokens of a prompt, and which sample of its answers it is."""
    return item.tokens, item.sample


def compare_counts(
    served: Sequence[Pair], results: Mapping[Sample, GenerationResult]
) -> CountCheck:
    """Compare what the server did with the engine's results, sample by sample."""
    named = [(sample_of(pair.item), pair) for pair in served]
    known = [(pair, results[sample]) for sample, pair in named if sample in results]
    found = [_difference(pair, result) for pair, result in known]
    return CountCheck(
        n_compared=len(found),
        differences=tuple(one for one in found if one is not None),
        prompts=frozenset(pair.item.id for pair in served),
        unsteady=frozenset(pair.item.id for pair in served if differs(pair)),
    )


def _difference(pair: Pair, result: GenerationResult) -> Difference | None:
    done = pair.speculative
    ours, theirs = result.counters, done.counters
    at = None if result.tokens == done.tokens else parting(result.tokens, done.tokens)
    is_same = (ours.n_drafted, ours.n_accepted) == (theirs.n_drafted, theirs.n_accepted)
    if is_same and at is None:
        return None
    return Difference(prompt_id=pair.item.id, engine=ours, server=theirs, parted_at=at)


def incomparable(speculation: Speculation) -> str | None:
    """Reason why counts need not be equal; None if they must be.

    llama-server's samplers come in the same order, and draw once for each token that is written:
    with the same seed a temperature changes nothing of that.
    """
    if isinstance(speculation.own, HiddenStateDrafter):
        return f"the engine cannot draft as {speculation.own.kind} does"
    if remembers(speculation):
        return "llama-server's n-gram drafters remember earlier requests"
    if speculation.is_mtp:
        return "llama-server's MTP layers begin where the request before ended"
    return None
