"""Runs ``spectui tune`` with parsed options."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import (
    open_engine,
    read_prompts,
    with_candidates,
)
from spectui.cli.taken import mind_unmeasured
from spectui.cli.tune_here import run_here
from spectui.cli.tune_report import report
from spectui.cli.tune_request import TuneOptions, TuneRun
from spectui.cli.tune_served import Served, binary_of, failure_of, final, serve
from spectui.cli.tune_server import measuring_binary, run_served
from spectui.cli.tune_study import keep_outcome, open_study, takes_mtp
from spectui.cli.tune_time import with_reserve, with_time
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.format import counted
from spectui.measure.statistics import MIN_PROMPTS
from spectui.options.drafters import ONLY_BY_SERVER
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.tune.result import TuneResult
from spectui.tune.trials import n_measured
from spectui.verify.verification import Verification


def tune(parsed: dict[str, Any]) -> None:
    """Load the models, search, confirm, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
    """
    shared, options = _options(parsed)
    options.check()
    options.parameters()
    measuring = verifying = None
    if options.is_server:
        measuring, options = measuring_binary(options)
    else:
        _check_engine(shared)
        verifying = binary_of(options)
    minded = mind_unmeasured(parsed, through_server=options.is_server)
    budget_s = options.time_budget
    if verifying is not None:
        options = with_reserve(options)
    takes_mtp(shared, options)
    check_writable(shared.json_path, shared.input_files())
    prompts = read_prompts(shared)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    _mind_few(prompts, progress)
    try:
        if measuring is not None:
            run, result, met = run_served(shared, options, prompts, measuring, progress)
        else:
            run, result, met = run_here(shared, options, prompts, progress)
        served = None
        if verifying is not None and result.error is None and not result.interrupted:
            served = _served(run, result, verifying, prompts, progress, budget_s=budget_s)
            result = _preferred(run, result, served, progress)
            result = with_time(result, budget_s, 0.0 if served is None else served.took_s)
    finally:
        progress.close()
    report(result, run, met, served, minded)
    _raise_ended(result, run, served)


def _options(parsed: dict[str, Any]) -> tuple[SharedOptions, TuneOptions]:
    own = {field.name for field in fields(TuneOptions)}
    options = TuneOptions(**{key: value for key, value in parsed.items() if key in own})
    shared = SharedOptions(**{key: value for key, value in parsed.items() if key not in own})
    return with_candidates(shared), options


def _mind_few(prompts: Sequence[Prompt], progress: Progress) -> None:
    """Warn about too few prompts for a verdict."""
    if len(prompts) < MIN_PROMPTS:
        progress.say(
            f"{counted(len(prompts), 'prompt')} will not do for a verdict, which needs "
            f"{MIN_PROMPTS} at least"
        )


def _served(
    run: TuneRun,
    result: TuneResult,
    binary: ServerBinary,
    prompts: Sequence[Prompt],
    progress: Progress,
    *,
    budget_s: float | None,
) -> Served | None:
    """Verify the result on llama-server."""
    # What was found is kept by now: this may be interrupted as well.
    interrupts.install()
    verification = Verification(
        binary=binary,
        open_engine=lambda: open_engine(run.shared, progress),
        say=progress.say,
        on_run=progress.on_run,
        timeout_s=run.options.timeout,
        seed=run.shared.seed,
        counts=False,
    )
    served = serve(run, result, verification, prompts, budget_s=budget_s)
    interrupts.hold()
    return served


def _raise_ended(result: TuneResult, run: TuneRun, served: Served | None) -> None:
    """Raise the error that ended the search, once the findings are printed.

    Raises:
        CancelledError: it was interrupted.
    """
    if served is not None and served.ended is not None:
        raise failure_of(served.ended)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {run.study.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )


def _preferred(
    run: TuneRun, result: TuneResult, served: Served | None, progress: Progress
) -> TuneResult:
    """The result in llama-server's ranking, stored with the study."""
    found, study = final(result, served), run.study
    if found is result:
        return result
    try:
        with open_study(
            run.options, study.name, study.spec, study.space, seed=run.shared.seed
        ) as opened:
            keep_outcome(replace(run, study=opened), found, progress)
    except BadInputError as error:
        progress.say(f"spectui export will not know of llama-server's ranking: {error}")
    return found


def _check_engine(shared: SharedOptions) -> None:
    for kind in shared.readers:
        raise UsageError(
            f"--spec-type {kind}: {ONLY_BY_SERVER}; add --backend server --server-bin PATH"
        )
