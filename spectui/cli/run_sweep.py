"""Runs ``spectui sweep`` with parsed options."""

from collections.abc import Callable, Collection
from typing import Any

from spectui.cli.documents.sweep import grids_document, plan_document, sweep_document
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_all, write_result
from spectui.cli.progress import Progress, open_progress
from spectui.cli.sweep_backend import backend_document, open_backend
from spectui.cli.sweep_files import check_folder, write_folder
from spectui.cli.sweep_report import (
    Plan,
    SweepResult,
    first_clause,
    grid_list,
    plan_text,
    progress_line,
    summary,
    whole_plan,
)
from spectui.cli.sweep_request import SweepRequest, read_request
from spectui.cli.sweep_run import SweepRun, prepare
from spectui.cli.taken import mind_unmeasured
from spectui.errors import (
    BadInputError,
    CancelledError,
    HopelessError,
    ServerError,
    SpectuiError,
)
from spectui.models.gguf import weights_bytes
from spectui.options.setup import ModelOptions
from spectui.sweep.grid_file import shipped_grids
from spectui.sweep.order import Visit
from spectui.sweep.pace import Pace
from spectui.sweep.runner import Runner, SweepEnd, pending
from spectui.sweep.store import SweepStore
from spectui.sweep.summary import summarise


def list_all(json_path: str | None) -> None:
    """Print the named grids."""
    grids = shipped_grids()
    write_result(grids_document(grids), grid_list(grids), json_path)


def sweep(
    parsed: dict[str, Any], *, typed: Collection[str], set_by_preset: Collection[str]
) -> None:
    """Measure the cells that are left, and print all results.

    Raises:
        BadInputError: a file is missing or malformed, or no cell could be measured.
        CancelledError: it was interrupted; what was measured has been printed and is kept.
        ServerError: the user's llama-server cannot be used at all.
        UsageError: options that contradict each other.
    """
    request = read_request(parsed, typed=typed, set_by_preset=set_by_preset)
    minded = mind_unmeasured(parsed, through_server=request.is_server)
    shared = request.shared
    check_writable(shared.json_path, shared.input_files())
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    try:
        run = prepare(request, progress)
        for sentence in run.left_out:
            progress.announce(f"left out: {sentence}")
        if request.dry_run:
            _show_plan(run)
            return
        check_folder(request.out)
        with SweepStore(run.name, run.spec, restart=request.restart, say=progress.say) as store:
            end = _measure(run, store, progress)
            interrupts.hold()
            records = store.records
    finally:
        progress.close()
    result = SweepResult(
        name=run.name,
        grid=request.grid,
        machine=run.machine,
        backend=backend_document(run),
        spec=run.spec,
        weights_bytes=_weights_bytes(run),
        cells=run.expansion.cells,
        summaries=summarise(run.expansion.cells, records),
        records=records,
        n_prompts=len(run.prompts),
        left_out=run.left_out,
        notes=minded,
    )
    _report(run, result, end)


def _weights_bytes(run: SweepRun) -> dict[str | None, int | None]:
    models: list[tuple[str | None, ModelOptions]] = [(None, run.target), *run.drafts.items()]
    return {name: weights_bytes(options.path) for name, options in models}


def _show_plan(run: SweepRun) -> None:
    """Print the plan."""
    left, pace = run.visits, Pace(len(run.prompts))
    if run.is_stored and not run.request.restart:
        with SweepStore(run.name, run.spec) as store:
            left = pending(store, run.visits, retry_failed=run.request.retry_failed)
            _learn(pace, store)
    plan = _plan(run, left, pace.left_s(left))
    write_result(plan_document(plan), whole_plan(plan), run.request.shared.json_path)


def _plan(run: SweepRun, left: tuple[Visit, ...], left_s: float | None) -> Plan:
    return Plan(
        grid=run.request.grid,
        name=run.name,
        machine=run.machine,
        cells=run.expansion.cells,
        visits=run.visits,
        left=left,
        n_prompts=len(run.prompts),
        left_s=left_s,
        left_out=run.left_out,
    )


def _learn(pace: Pace, store: SweepStore) -> None:
    for record in store.records:
        pace.learn(record)


def _measure(run: SweepRun, store: SweepStore, progress: Progress) -> SweepEnd:
    left = pending(store, run.visits, retry_failed=run.request.retry_failed)
    if not left:
        progress.say(f"the sweep {run.name} is complete: nothing is left to measure")
        return SweepEnd()
    names, pace = {one.cell: one.name for one in run.expansion.cells}, Pace(len(run.prompts))
    _learn(pace, store)
    try:
        with open_backend(run, progress) as backend:
            runner = Runner(
                backend,
                store,
                run.visits,
                pace=pace,
                on_event=lambda event: progress.say(progress_line(event, names)),
                retry_failed=run.request.retry_failed,
            )
            progress.announce(plan_text(_plan(run, left, runner.estimate_s())))
            return runner.run()
    except HopelessError as error:
        return SweepEnd(error=error)
    except (KeyboardInterrupt, CancelledError):
        return SweepEnd(interrupted=True)


def _report(run: SweepRun, result: SweepResult, end: SweepEnd) -> None:
    document = sweep_document(result, interrupted=end.interrupted)
    if result.summaries:
        _write(run.request, result, document)
    if end.error is not None:
        raise end.error
    if end.interrupted:
        n_done = len({record.visit for record in result.records} & set(run.visits))
        raise CancelledError(
            f"interrupted; the sweep {run.name} keeps {n_done} of {len(run.visits)} measurements, "
            "and the same command goes on from there"
        )
    if not any(one.is_measured for one in result.summaries):
        raise _nothing_measured(result)


def _write(request: SweepRequest, result: SweepResult, document: dict[str, Any]) -> None:
    writers: list[Callable[[], None]] = [
        lambda: write_result(document, summary(result), request.shared.json_path)
    ]
    if (out := request.out) is not None:
        writers.append(lambda: write_folder(out, result, document, png=request.png))
    write_all(writers)


def _nothing_measured(result: SweepResult) -> SpectuiError:
    """The error of a sweep in which no cell could be measured."""
    failed = [one for one in result.records if one.error is not None]
    by_server = bool(failed) and all(one.of_server for one in failed)
    reason = first_clause(failed[0].error or "") if failed else "nothing was decoded"
    kind = ServerError if by_server else BadInputError
    return kind(f"no cell could be measured ({reason})")
