"""The gain that a search measured, kept so that llama-server can be held against it."""

from dataclasses import dataclass, replace
from pathlib import Path

from spectui.llama.facts import LibraryFacts
from spectui.measure.observed import Observed
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Basis
from spectui.options.setup import ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation


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
    case, prompts = promise.case, promise.prompts
    moved = replace(
        case,
        baseline=case.baseline.absolute(),
        target=case.target.absolute(),
        draft=None if case.draft is None else case.draft.absolute(),
    )
    return replace(promise, case=moved, prompts=None if prompts is None else prompts.absolute())
