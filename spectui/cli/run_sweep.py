"""Runs ``spectui sweep``: from given options to a sweep, and on to its results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from spectui.cli.given import Given
from spectui.cli.named_models import Models, find_models, warn_of_sampling, with_preset_models
from spectui.cli.options import BackendKind, check_no_servers, check_one_stream
from spectui.cli.output import check_writable, write_all, write_result
from spectui.cli.page import page_text
from spectui.cli.request import RunOptions, check_engine
from spectui.cli.session import (
    SUITE_PROMPTS,
    open_engine,
    open_servers,
    place_target,
    read_prompts,
    wanted_binary,
    wanted_slots,
    with_backend,
    with_slot_context,
)
from spectui.cli.sweep import Sweep as Request
from spectui.cli.taken import warn_of_unmeasured
from spectui.documents import head
from spectui.engine.placing import left_open
from spectui.errors import BadInputError, CancelledError, ServerError, SpectuiError, UsageError
from spectui.interrupts import interrupts
from spectui.measure.arm import Arm
from spectui.measure.backend import header
from spectui.models.sampling import unmeasured_sentences
from spectui.monitor.machine import this_machine
from spectui.options.drafters import MODEL_KIND, MTP_KIND, DraftSimple, numbers_of
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.sweep.cells import Cell, Place, Task
from spectui.sweep.grid import MODEL_KINDS, Axes, Grid, given_grid, shipped_grids
from spectui.sweep.measuring import CellMeasurer, EngineMeasurer, ServedMeasurer, drafter_of
from spectui.sweep.report import (
    check_folder,
    first_clause,
    grids_page,
    plan_page,
    plan_text,
    progress_line,
    summary_page,
    write_folder,
)
from spectui.sweep.setup import SweepSetup
from spectui.sweep.sweep import Sweep
from spectui.tune.space import MAX_DRAFT

_PLACEMENT_AXES = ("cache_type_k", "cache_type_v")
_AXES = tuple(
    field.name
    for field in msgspec.structs.fields(Axes)
    if field.name not in {"name", "draft", "n_predict_factor", "rerun", *_PLACEMENT_AXES}
)
"""Axes that are options of the command line."""


def _list_all(json_path: str | None) -> None:
    """Print the named grids."""
    grids = shipped_grids()
    document = {**head("sweep-grids"), "grids": [grid.document() for grid in grids]}
    write_result(document, page_text(grids_page(grids)), json_path)


def run(request: Request) -> None:
    """Measure the cells that are left, and print all results.

    Raises:
        BadInputError: a file is missing or malformed, or no cell could be measured.
        CancelledError: it was interrupted; what was measured has been printed and is kept.
        ServerError: the user's llama-server cannot be used at all.
        UsageError: options that contradict each other, or no grid.
    """
    given = request.given
    if request.list_grids or request.grid == "list":
        _list_all(given["json_path"])
        return
    # Of --spec-type each value is a list itself.
    axes = {
        name: tuple(",".join(one) if name == "spec_type" else one for one in given[name] or ())
        for name in _AXES
    }
    replaced = {name: values for name, values in axes.items() if name in given.typed}
    if request.grid is not None:
        replaced |= {name: (given[name],) for name in _PLACEMENT_AXES if name in given.typed}
    grid = given_grid(request.grid, replaced)
    if grid.n_predict is not None and "n_predict" not in given.chosen:
        given = given.changed(n_predict=grid.n_predict)
    given = with_backend(given)
    request = replace(request, given=given)
    shared = _shared(given, axes)
    is_server = given["backend"] == BackendKind.SERVER
    _check(given, grid, is_server=is_server)
    notes = warn_of_unmeasured(given, through_server=is_server)
    check_writable(shared.json_path, shared.input_files())
    read = read_prompts(shared)
    with shared.shown() as shown:
        progress = shown.progress
        default = _default(axes, shared, given)
        setup = _setup(request, grid, default, shown, read.prompts)
        sweep = Sweep(setup)
        for sentence in sweep.left_out:
            progress.announce(f"left out: {sentence}")
        if request.dry_run:
            _show_plan(sweep, request)
            return
        check_folder(request.out)
        with sweep.open(restart=request.restart, say=progress.say):
            ended = _measure(sweep, shown)
            interrupts.hold()
    asked = unmeasured_sentences(setup.base.target.path)
    _report(sweep, request, (*notes, *read.notes, *asked), ended)


def _shared(given: Given, axes: Mapping[str, tuple[Any, ...]]) -> RunOptions:
    defaults = {"temp": SamplingConfig().temp, "threads": 0}
    of_axes = {name: (axes[name] or (default,))[0] for name, default in defaults.items()}
    # Who drafts is an axis.
    return RunOptions.of(given.changed(**of_axes, spec_type=()))


def _default(axes: Mapping[str, tuple[Any, ...]], shared: RunOptions, given: Given) -> Cell:
    """Values for cells where a grid is silent: a preset's first values, else the shared options."""
    is_server = given["backend"] == BackendKind.SERVER
    numbers = {
        one.name: (axes[one.parameter] or (one.default,))[0] for one in numbers_of(DraftSimple)
    }
    return Cell(
        arm=Arm(draft=None, speculation=Speculation(DraftSimple(**numbers))),
        place=Place(
            threads=shared.context.threads,
            cache_type_k=shared.placement["cache_type_k"],
            cache_type_v=shared.placement["cache_type_v"],
            n_slots=wanted_slots(given)[0] if is_server else 1,
        ),
        task=Task(
            prompt_length=(axes["prompt_length"] or (None,))[0],
            temp=shared.sampling.temp,
            n_predict=shared.n_predict,
        ),
    )


def _check(given: Given, grid: Grid, *, is_server: bool) -> None:
    """Refuse options that are for llama-servers only."""
    if is_server:
        return
    check_no_servers(given)
    check_one_stream(is_one=not grid.has_slots)
    check_engine(sorted(grid.kinds))


def _setup(
    request: Request,
    grid: Grid,
    default: Cell,
    shared: RunOptions,
    prompts: Sequence[Prompt],
) -> SweepSetup:
    """Find models; nothing is loaded."""
    given = request.given
    is_server = given["backend"] == BackendKind.SERVER
    binary = wanted_binary(given["server_bin"]) if is_server else None
    needs_models = not grid.kinds.isdisjoint(MODEL_KINDS)
    shared = with_preset_models(shared, most_drafts=None if needs_models else 0)
    takes_models = needs_models or (MTP_KIND in grid.kinds and bool(shared.model_draft))
    if shared.model_draft and not takes_models:
        raise UsageError(
            f"-md names a draft, and no cell drafts with one: add --spec-type {MODEL_KIND}, or "
            "leave out -md"
        )
    models = find_models(shared, needs_draft=needs_models, reads_headers=binary is None)
    for refused in models.refused:
        shared.progress.say(f"left out {refused.name}: {refused.reason}")
    warn_of_sampling(models.target, shared.progress)
    sampling = shared.sampling_for(models.target)
    of_suite = None if shared.prompts is not None else grid.n_prompts or SUITE_PROMPTS
    drafts = models.drafts if takes_models else {}
    shared, target = _placed(shared, models, is_server=is_server)
    base = shared.alone(target, given.served_extra)
    return SweepSetup(
        grid=grid,
        default=replace(default, task=replace(default.task, temp=sampling.temp)),
        base=with_slot_context(base, 1, given) if is_server else base,
        drafts={name: shared.draft_options(path) for name, path in drafts.items()},
        sampling=sampling,
        prompts=prompts[: request.n_prompts or of_suite],
        machine=this_machine(),
        binary=binary,
        repeats=request.repeats or grid.repeats or 1,
        name=request.name,
        retry_failed=request.retry_failed,
    )


def _placed(
    shared: RunOptions, models: Models, *, is_server: bool
) -> tuple[RunOptions, ModelOptions]:
    """Options of drafts, and the target where it is loaded; open where a server fits it."""
    if is_server:
        return shared, left_open(shared.target_options(models.target), shared.fit)
    return place_target(shared, models, max_draft=MAX_DRAFT)


def _show_plan(sweep: Sweep, request: Request) -> None:
    """Print the plan."""
    if sweep.is_stored and not request.restart:
        with sweep.open():
            pass
    document = {**header("sweep-plan", sweep.setup.machine), **sweep.plan_document()}
    write_result(document, page_text(plan_page(sweep)), request.given["json_path"])


def _measure(sweep: Sweep, shared: RunOptions) -> BaseException | None:
    """Measure what is pending; return the reason for an early end."""
    if not sweep.pending:
        shared.progress.say(f"the sweep {sweep.name} is complete: nothing is left to measure")
        return None
    try:
        with _opened(sweep, shared) as measurer:
            shared.progress.announce(plan_text(sweep))
            sweep.run(measurer, lambda record: shared.progress.say(progress_line(record, sweep)))
    except (KeyboardInterrupt, SpectuiError) as error:
        return error
    return None


@contextmanager
def _opened(sweep: Sweep, shared: RunOptions) -> Iterator[CellMeasurer]:
    """Yield what measures; free its models or end its servers on exit."""
    setup = sweep.setup
    if setup.binary is None:
        with open_engine(shared) as engine:
            yield EngineMeasurer(engine, setup, longest=sweep.longest)
        return
    most_slots = max((n for axes in setup.grid.cells for n in axes.parallel), default=1)
    off = replace(setup.base, n_slots=most_slots)
    drafts = setup.drafts.values()
    with open_servers(shared, setup.binary, off, drafts, costs=_costs, name=drafter_of) as fleet:
        yield ServedMeasurer(fleet, setup)


def _costs(keeps_off: bool) -> str:  # noqa: FBT001 - passed by position
    how = "takes turns with it" if keeps_off else "waits until the other has ended"
    return f"two llama-servers: the target alone, and each setting, which {how}"


def _report(
    sweep: Sweep, request: Request, notes: tuple[str, ...], ended: BaseException | None
) -> None:
    """Write the results; raise what has ended the sweep early."""
    is_interrupted = isinstance(ended, KeyboardInterrupt | CancelledError)
    summaries = sweep.summaries()
    if summaries:
        document = {
            **header("sweep", sweep.setup.machine),
            **sweep.document(summaries, notes, interrupted=is_interrupted),
        }
        text, out = page_text(summary_page(sweep, summaries)), request.out
        writers = [lambda: write_result(document, text, request.given["json_path"])]
        if out is not None:
            writers.append(lambda: write_folder(out, sweep, summaries, document))
        write_all(writers)
    if is_interrupted:
        n_done = len({record.visit for record in sweep.records} & set(sweep.visits))
        raise CancelledError(
            f"interrupted; the sweep {sweep.name} keeps {n_done} of {len(sweep.visits)} "
            "measurements, and the same command goes on from there"
        )
    if ended is not None:
        raise ended
    if not any(one.is_measured for one in summaries):
        raise _nothing_measured(sweep)


def _nothing_measured(sweep: Sweep) -> SpectuiError:
    """The error of a sweep in which no cell could be measured."""
    failed = [one for one in sweep.records if one.error is not None]
    by_server = bool(failed) and all(one.of_server for one in failed)
    reason = first_clause(failed[0].error or "") if failed else "nothing was decoded"
    kind = ServerError if by_server else BadInputError
    return kind(f"no cell could be measured ({reason})")
