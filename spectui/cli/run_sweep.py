"""Runs ``spectui sweep``: from given options to a sweep, and on to its results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

from spectui.cli.from_command import warn_of_unmeasured
from spectui.cli.given import Given
from spectui.cli.named_models import find_models, warn_of_sampling, with_preset_models
from spectui.cli.output import check_writable, complain, write_all
from spectui.cli.page import next_lines, write_result
from spectui.cli.request import RunOptions, check_engine, check_typed
from spectui.cli.session import (
    SUITE_PROMPTS,
    open_engine,
    open_servers,
    place_target,
    read_prompts,
    slots_of_command,
    wanted_binary,
    with_backend,
    with_slot_context,
)
from spectui.cli.sweep import Sweep as Request
from spectui.documents import Json
from spectui.engine.planning import left_open
from spectui.errors import BadInputError, CancelledError, SpectuiError
from spectui.interrupts import interrupts, raise_ended
from spectui.measure.backend import header
from spectui.models.facts import unmeasured_sentences
from spectui.monitor.machine import this_machine
from spectui.options.drafters import DRAFTERS, FILE_KINDS, MTP_KIND, numbers_of
from spectui.options.setup import SamplingConfig
from spectui.prompts import Prompt
from spectui.sweep.cells import Place, Task
from spectui.sweep.grid import Axes, SweepSetup
from spectui.sweep.measuring import CellMeasurer, EngineMeasurer, ServedMeasurer
from spectui.sweep.report import (
    begun_line,
    check_folder,
    ended_line,
    first_clause,
    plan_text,
    summary_page,
    write_folder,
)
from spectui.sweep.summary import CellSummary
from spectui.sweep.sweep import Sweep
from spectui.tune.space import MAX_DRAFT


def run(request: Request) -> None:
    """Measure the cells that are left, and print all results.

    Raises:
        BadInputError: a file is missing or malformed, or no cell could be measured.
        CancelledError: it was interrupted; what was measured has been printed and is kept.
        ServerError: the user's llama-server cannot be used at all.
        UsageError: options that contradict each other.
    """
    request = replace(request, given=with_backend(request.given))
    given, axes = request.given, _axes(request.given)
    shared = _shared(given)
    check_engine(given, sorted(axes.kinds))
    check_typed(given.changed(spec_type=tuple(chain(*given["spec_type"]))))
    notes = warn_of_unmeasured(given, through_server=given.is_server)
    check_writable(shared.json_path, shared.input_files())
    read = read_prompts(shared)
    with shared.shown() as shown:
        setup = _setup(request, axes, shown, read.prompts)
        sweep = Sweep(setup)
        for sentence in sweep.left_out:
            shown.progress.announce(f"left out: {sentence}")
        check_folder(request.out)
        with sweep.open(restart=request.restart):
            ended = _measure(sweep, shown)
            interrupts.hold()
    asked = unmeasured_sentences(setup.base.target.path)
    _report(sweep, request, (*notes, *read.notes, *asked), ended)


def _axes(given: Mapping[str, Any]) -> Axes:
    numbers = {one.parameter: one.default for kind in DRAFTERS for one in numbers_of(kind)}
    return Axes(
        drafters=given["spec_type"],
        numbers={name: given[name] or (default,) for name, default in numbers.items()},
        threads=given["threads"],
        n_slots=given["parallel"],
        prompt_length=given["prompt_length"],
        temp=given["temp"],
    )


def _shared(given: Given) -> RunOptions:
    """The part that cells have in common; of axes, the first values."""
    defaults = {"temp": SamplingConfig().temp, "threads": 0}
    first = {name: (given[name] or (default,))[0] for name, default in defaults.items()}
    return RunOptions.of(given.changed(**first, spec_type=()))


def _setup(
    request: Request, axes: Axes, shared: RunOptions, prompts: Sequence[Prompt]
) -> SweepSetup:
    """Find models; nothing is loaded."""
    given = request.given
    binary = wanted_binary(given["server_bin"]) if given.is_server else None
    needs_models = not axes.kinds.isdisjoint(FILE_KINDS)
    shared = with_preset_models(shared, most_drafts=None if needs_models else 0)
    takes_models = needs_models or (MTP_KIND in axes.kinds and bool(shared.model_draft))
    shared.check_drafts(are_asked=takes_models)
    path, found = find_models(shared, needs_draft=needs_models, reads_headers=binary is None)
    warn_of_sampling(path, shared.progress)
    sampling = shared.sampling_for(path)
    n_suite = None if shared.prompts is not None else SUITE_PROMPTS
    drafts = found if takes_models else {}
    if given.is_server:
        target = left_open(shared.target_options(path), shared.fit)
    else:
        shared, target = place_target(shared, path, found, max_draft=MAX_DRAFT)
    base = shared.alone(target, given.served_extra)
    n_slots = (slots_of_command(given) if given.is_server else None) or 1
    return SweepSetup(
        axes=axes,
        place=Place(
            threads=shared.context.threads,
            cache_type_k=shared.placement["cache_type_k"],
            cache_type_v=shared.placement["cache_type_v"],
            n_slots=n_slots,
        ),
        task=Task(temp=sampling.temp, n_predict=shared.n_predict),
        base=with_slot_context(base, 1, given) if given.is_server else base,
        drafts={name: shared.draft_options(one) for name, one in drafts.items()},
        sampling=sampling,
        prompts=prompts[: request.n_prompts or n_suite],
        machine=this_machine(),
        binary=binary,
        repeats=request.repeats,
        name=request.name,
        say=shared.progress.say,
    )


def _measure(sweep: Sweep, shared: RunOptions) -> BaseException | None:
    """Measure what is pending; return the reason for an early end."""
    progress = shared.progress
    if not sweep.pending:
        progress.say(f"the sweep {sweep.name} is complete: nothing is left to measure")
        return None
    try:
        with _opened(sweep, shared) as measurer:
            progress.announce(plan_text(sweep))
            sweep.run(
                measurer,
                on_begun=lambda visit: progress.say(begun_line(visit, sweep)),
                on_ended=lambda record: progress.say(ended_line(record)),
            )
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
    off = replace(setup.base, n_slots=max(cell.place.n_slots for cell in sweep.cells))
    drafts = setup.drafts.values()
    with open_servers(shared, setup.binary, off, drafts) as fleet:
        yield ServedMeasurer(fleet, setup)


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
        page, given = [*summary_page(sweep, summaries)], request.given
        if ended is None and any(one.runs for one in summaries):
            page += ["", *next_lines("search for the fastest setting", given.words_for("tune"))]
        write_all(
            [
                lambda: write_result(document, page, given["json_path"], quiet=given["quiet"]),
                lambda: _write_out(request, sweep, summaries, document),
            ]
        )
    n_done = len({record.visit for record in sweep.records} & set(sweep.visits))
    raise_ended(
        ended,
        f"interrupted; the sweep {sweep.name} keeps {n_done} of {len(sweep.visits)} "
        "measurements, and the same command goes on from there",
    )
    if not any(one.runs for one in summaries):
        failed = [one.error for one in summaries if one.error is not None]
        reason = first_clause(failed[0]) if failed else "nothing was decoded"
        raise BadInputError(f"no cell could be measured ({reason})")


def _write_out(
    request: Request, sweep: Sweep, summaries: Sequence[CellSummary], document: Json
) -> None:
    """Write the folder of ``--out``, and say so unless the run is quiet."""
    if request.out is None:
        return
    written = write_folder(request.out, sweep, summaries, document)
    if not request.given["quiet"]:
        complain(written)
