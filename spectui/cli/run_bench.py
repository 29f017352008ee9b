"""What ``spectui bench`` does once its options are parsed."""

from typing import Any

from spectui.cli.documents.bench import bench_document
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_result
from spectui.cli.progress import open_progress
from spectui.cli.request import SharedOptions, speculation_config
from spectui.cli.session import find_models, open_engine, read_prompts
from spectui.errors import CancelledError, UsageError
from spectui.monitor.machine import this_machine
from spectui.tune.bench import BenchResult, run_bench
from spectui.tune.measurement import Measurer
from spectui.tune.workload import tokenize

_SUITE_PROMPTS = 8
"""Of the built-in suite: one per category. The user's own prompts are all taken."""


def bench(
    shared: dict[str, Any], draft_max: int, draft_min: int, draft_p_min: float, *, repeats: int
) -> None:
    """Load, measure, print."""
    options = SharedOptions(**shared)
    speculation = speculation_config(draft_max, draft_min, draft_p_min)
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options)
    if options.prompts is None:
        prompts = prompts[:_SUITE_PROMPTS]
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        models = find_models(options, progress)
        if len(models.drafts) > 1 and not options.demo:
            raise UsageError("bench measures one draft; give one -md, or use spectui tune")
        with open_engine(options, progress) as engine:
            target = engine.load_target(
                options.target_options(models.target),
                options.context_options(),
                max_draft=speculation.draft_max,
            )
            draft = engine.load_draft(options.draft_options(next(iter(models.drafts.values()))))
            workload = tokenize(
                engine,
                prompts,
                n_predict=options.n_predict,
                sampling=options.sampling_config(),
                n_ctx=target.n_ctx,
            )
            measurer = Measurer(engine, workload, options.schedule_kind())
            result = run_bench(
                engine,
                workload,
                measurer,
                speculation,
                repeats=repeats,
                on_pair=progress.on_pair,
            )
            interrupts.hold()
    finally:
        progress.close()
    document = bench_document(
        result,
        machine=this_machine(),
        target=target,
        draft=draft,
        workload=workload,
        speculation=speculation,
        schedule=options.schedule_kind(),
    )
    write_result(document, _summary(result), options.json_path)
    if result.interrupted:
        raise CancelledError(
            f"interrupted after {len(result.pairs)} measurements, which are shown above; "
            "run the command again for all"
        )


def _summary(result: BenchResult) -> str:
    counters, speedup = result.counters, result.speedup
    rate, length = counters.acceptance_rate, counters.mean_accepted_length
    acceptance = (
        f"{'–' if rate is None else f'{rate:.1%}'} "
        f"({counters.n_accepted} of {counters.n_drafted}), "
        f"{'–' if length is None else f'{length:.2f}'} tokens per round"
    )
    lines = [
        f"off         {result.baseline_tokens_per_s or 0:.2f} tokens/s",
        f"on          {result.speculative_tokens_per_s or 0:.2f} tokens/s",
        f"speedup     {speedup.estimate:.3f}× {_interval(result)}",
        f"acceptance  {acceptance}",
        f"lossless    {_lossless(result)}",
    ]
    return "\n".join(lines)


def _interval(result: BenchResult) -> str:
    speedup = result.speedup
    if speedup.low is None or speedup.high is None:
        return f"({speedup.interval_reason})"
    return f"(95 % interval {speedup.low:.3f} to {speedup.high:.3f}, {speedup.n_prompts} prompts)"


def _lossless(result: BenchResult) -> str:
    check = result.lossless
    if check is None:
        return "not checked: only complete runs of greedy output are compared"
    if check.divergence is None:
        return "yes, every output equals the target's own"
    d = check.divergence
    where = f"prompt {d.prompt_id}, token {d.position}: margin {d.margin:.2g}, noise {d.noise:.2g}"
    return f"yes, but for rounding ({where})" if check.lossless else f"NO ({where})"
