"""The promise that ``spectui tune`` stores with its study for ``spectui verify``."""

from dataclasses import replace

from spectui.cli.tune_request import TuneRun
from spectui.measure.promise import Promise
from spectui.tune.promising import Terms
from spectui.tune.promising import promise_of as promise_by
from spectui.tune.result import TuneResult
from spectui.tune.stored import to_plain


def keep_promise(run: TuneRun, result: TuneResult) -> None:
    """Store the best setting's gain, if it was confirmed."""
    promise = promise_of(run, result)
    if promise is not None:
        run.study.keep_promise(to_plain(promise))


def promise_of(run: TuneRun, result: TuneResult) -> Promise | None:
    """The best setting's gain, whether or not it is advised; None if it was not confirmed."""
    shared, best = run.shared, result.best
    terms = Terms(
        baseline=run.target_beside(None),
        target=run.target_beside(None if best is None else best.draft),
        candidates=run.candidates,
        context=shared.context_options(),
        sampling=shared.sampling_config(),
        n_predict=shared.n_predict,
        schedule=shared.schedule_kind(),
        mtp_layers=run.target.mtp_layers,
        min_gain=run.options.min_gain,
        prompts=shared.prompts,
        extra=run.extra,
    )
    promise = promise_by(result, terms)
    if promise is None or run.served is None:
        return promise
    version = run.served.binary.version
    return replace(
        promise,
        llama_cpp="unknown" if version is None else version.text,
        llama_cpp_commit=None if version is None else version.commit,
    )
