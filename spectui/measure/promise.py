"""Prompts decoded without and with speculation as they are stored, and the gain of a search.

That gain is kept so that llama-server can be held against it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.documents import Json, fields_of
from spectui.llama.facts import LibraryFacts
from spectui.measure.comparable import digest
from spectui.measure.measurer import NOTHING_DRAFTED, Pair
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.verdict import Basis
from spectui.options.setup import ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One prompt decoded without and with speculation, by spectui's own engine or by a server."""

    measurement: PairedMeasurement
    n_drafted: int
    n_accepted: int
    digest: str
    """Digest of the prompt's tokens: prompts of one name may change."""


def digest_of(tokens: Sequence[int]) -> str:
    """Sixteen characters that stand for a prompt, and do not reveal its text."""
    return digest(list(tokens))[:16]


def observed_of(pairs: Iterable[Pair]) -> tuple[Observed, ...]:
    """The pairs that decoded something."""
    return tuple(
        Observed(
            measurement=measurement,
            n_drafted=pair.speculative.counters.n_drafted,
            n_accepted=pair.speculative.counters.n_accepted,
            digest=digest_of(pair.item.tokens),
        )
        for pair in pairs
        if (measurement := pair.measurement) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Tally):
    """Sums over prompts, each decoded without and with speculation."""

    baseline_tokens: int
    baseline_s: float
    speculative_tokens: int
    speculative_s: float

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Decode throughput without speculation; None if nothing was decoded."""
        return self.baseline_tokens / self.baseline_s if self.baseline_s else None

    @property
    def tokens_per_s(self) -> float | None:
        """Decode throughput with it; None if nothing was decoded."""
        return self.speculative_tokens / self.speculative_s if self.speculative_s else None

    def document(self) -> Json:
        """The sums in documents."""
        return {
            "baseline": {
                "tokens_per_s": self.baseline_tokens_per_s,
                "n_tokens": self.baseline_tokens,
                "decode_s": self.baseline_s,
            },
            "speculative": {
                "tokens_per_s": self.tokens_per_s,
                "n_tokens": self.speculative_tokens,
                "decode_s": self.speculative_s,
                **fields_of(self, NOTHING_DRAFTED, "n_drafted", "n_accepted", "acceptance_rate"),
            },
        }


def totals(observed: Iterable[Observed]) -> Totals:
    """Sum up prompts, and repeats of them."""
    found = tuple(observed)
    measured = [one.measurement for one in found]
    return Totals(
        baseline_tokens=sum(one.baseline_tokens for one in measured),
        baseline_s=sum(one.baseline_s for one in measured),
        speculative_tokens=sum(one.speculative_tokens for one in measured),
        speculative_s=sum(one.speculative_s for one in measured),
        n_drafted=sum(one.n_drafted for one in found),
        n_accepted=sum(one.n_accepted for one in found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Setup):
    """A setup beside off, and how prompts are continued with both."""

    baseline: ModelOptions
    """The target as off has it."""
    speculation: Speculation
    sampling: SamplingConfig
    n_predict: int

    @property
    def off(self) -> Setup:
        """The target alone, as ``baseline`` has it."""
        return self.converted(Setup, target=self.baseline, draft=None, speculation=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Measured gain of a case, and how it was measured."""

    case: Case
    prompts: Path | None
    """The user's; None for the built-in suite."""
    observed: tuple[Observed, ...]
    speedup: Speedup
    min_gain: float
    """Least gain with which speculation is worth it."""
    llama_cpp: str
    """Version of the engine."""
    library: LibraryFacts | None = None
    """The engine's library; None of a llama-server, and in older promises."""
    is_chat: bool = False
    """The prompts were turns of a chat, whose text is kept nowhere beside the study."""
    basis: Basis | None = None
    """Text that it was measured on; None where nothing was chosen, and in older promises."""

    @property
    def prompt_ids(self) -> tuple[str, ...]:
        """Prompts in the order in which they were first measured."""
        return tuple(dict.fromkeys(one.measurement.prompt_id for one in self.observed))


def lasting(promise: Promise) -> Promise:
    """A copy with absolute paths, valid from any folder."""
    case = replace(promise.case.absolute(), baseline=promise.case.baseline.absolute())
    prompts = None if promise.prompts is None else promise.prompts.absolute()
    return replace(promise, case=case, prompts=prompts)
