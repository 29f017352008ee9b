"""What ``spectui tune`` keeps with its study for ``spectui verify``."""

from spectui.cli.tune_request import TuneRun
from spectui.llama.library import llama_cpp_version
from spectui.speculative.mtp import effective_schedule
from spectui.tune.promise import Case, Promise, lasting, observed_of
from spectui.tune.search import TuneResult
from spectui.tune.stored import to_plain


def keep_promise(run: TuneRun, result: TuneResult) -> None:
    """Store what the best setting gained, if it was confirmed."""
    promise = promise_of(run, result)
    if promise is not None:
        run.study.keep_promise(to_plain(promise))


def promise_of(run: TuneRun, result: TuneResult) -> Promise | None:
    """What the best setting gained, whether or not it is advised; None if it was not confirmed."""
    arm, shared = result.best, run.shared
    if arm is None or arm.speculation is None or result.speedup is None:
        return None
    drafts = {candidate.name: candidate.options for candidate in run.candidates}
    speculation = arm.speculation
    n_layers = run.target.mtp_layers if speculation.mtp else 0
    case = Case(
        baseline=run.target_beside(None),
        target=run.target_beside(arm.draft),
        draft=drafts[arm.draft] if arm.draft is not None and speculation.has_model else None,
        context=shared.context_options(),
        speculation=speculation,
        sampling=shared.sampling_config(),
        n_predict=shared.n_predict,
    )
    promise = Promise(
        case=case,
        schedule=effective_schedule(shared.schedule_kind(), n_layers),
        prompts=shared.prompts,
        observed=observed_of(result.pairs),
        speedup=result.speedup,
        min_gain=run.options.min_gain,
        llama_cpp=llama_cpp_version(),
    )
    return lasting(promise)
