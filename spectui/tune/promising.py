"""The promise that a search leaves for ``verify``, from the command line and from a screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.llama.library import llama_cpp_commit, llama_cpp_version
from spectui.measure.promise import Case, Promise, lasting, observed_of
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule
from spectui.speculative.mtp import effective_schedule
from spectui.tune.candidates import Candidate
from spectui.tune.result import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms that a search was made with."""

    baseline: ModelOptions
    """The target as off has it."""
    target: ModelOptions
    """Target as it lies beside the best setting's draft."""
    candidates: Sequence[Candidate]
    context: ContextOptions
    """The requested context of a server."""
    sampling: SamplingConfig
    n_predict: int
    schedule: Schedule
    """The requested schedule."""
    mtp_layers: int
    """MTP layers of the target, where they may draft."""
    min_gain: float
    prompts: Path | None = None
    """The user's; None for the built-in suite and for a chat."""
    is_chat: bool = False
    """The prompts are turns of a chat, whose text is kept nowhere beside the study."""
    extra: tuple[str, ...] = ()
    """The user's own arguments."""
    screen_threads: int | None = None
    """Compute threads beside a screen that keeps a core; None where they are the server's."""


def promise_of(result: TuneResult, terms: Terms) -> Promise | None:
    """Gain of the best setting, whether or not it is advised; None if it was not confirmed."""
    arm = result.best
    if arm is None or arm.speculation is None or result.speedup is None:
        return None
    speculation = arm.speculation
    drafts = {candidate.name: candidate.options for candidate in terms.candidates}
    case = Case(
        baseline=terms.baseline,
        target=terms.target,
        draft=drafts[arm.draft] if arm.draft is not None and speculation.needs_draft else None,
        context=terms.context,
        speculation=speculation,
        sampling=terms.sampling,
        n_predict=terms.n_predict,
        extra=terms.extra,
    )
    promise = Promise(
        case=case,
        schedule=effective_schedule(terms.schedule, terms.mtp_layers if speculation.is_mtp else 0),
        prompts=terms.prompts,
        observed=observed_of(result.pairs),
        speedup=result.speedup,
        min_gain=terms.min_gain,
        llama_cpp=llama_cpp_version(),
        llama_cpp_commit=llama_cpp_commit(),
        is_chat=terms.is_chat,
        screen_threads=terms.screen_threads,
    )
    return lasting(promise)
