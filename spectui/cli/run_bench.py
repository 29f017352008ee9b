"""Runs ``spectui bench`` with given options."""

from collections.abc import Sequence
from dataclasses import replace

from spectui.cli.bench import Bench
from spectui.cli.from_command import warn_of_unmeasured
from spectui.cli.named_models import find_setup, with_preset_models
from spectui.cli.output import check_writable
from spectui.cli.page import next_lines, write_result
from spectui.cli.request import RunOptions, check_engine, take_drafting
from spectui.cli.session import (
    SUITE_PROMPTS,
    open_engine,
    open_servers,
    read_chats,
    read_prompts,
    served_workload,
    tokenized,
    wanted_binary,
    wanted_slots,
    with_backend,
    with_slot_context,
)
from spectui.documents import Json, or_reason
from spectui.engine.planning import left_open, placed
from spectui.interrupts import interrupts, raise_ended
from spectui.llama.facts import price_note
from spectui.llama.native import known_library
from spectui.measure.backend import ENGINE, Backend, load_setup
from spectui.measure.chats import MOST_ANSWERS
from spectui.measure.comparison import NO_MODEL, BenchRun, Comparison, compare
from spectui.measure.server_backend import REMEMBERS, ServerBackend, measurer_of, remembers
from spectui.measure.servers import look_at, measuring_arguments
from spectui.measure.workload import Workload, lengthened
from spectui.models.facts import unmeasured_sentences
from spectui.monitor.watch import MachineWatch
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.prompts.chats import reasons_text
from spectui.speculative.models import unserved


def bench(request: Bench) -> None:
    """Load the models, measure, and print.

    Raises:
        BadInputError: a file is missing or malformed, or there is nothing to measure.
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: a llama-server that measures failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    request = replace(request, given=with_backend(request.given))
    given = request.given
    speculation, options = take_drafting(given)
    check_engine(given, {speculation.own.kind})
    unmeasured = warn_of_unmeasured(given, through_server=given.is_server)
    options = with_preset_models(options, most_drafts=int(speculation.needs_draft))
    check_writable(options.json_path, options.input_files())
    read, chats = read_prompts(options, n_suite=SUITE_PROMPTS), read_chats(options)
    prompts = (*read.prompts, *(chats.prompts[:MOST_ANSWERS] if chats else ()))
    with options.shown() as shown:
        several = "bench measures one draft; give one -md, or use spectui tune"
        setup = find_setup(shown, speculation, several=several)
        measure = _through_server if given.is_server else _through_engine
        run = measure(request, shown, prompts, setup)
        interrupts.hold()
    left_out = [run.found.workload.note]
    if chats is not None and chats.left_out:
        left_out.append(f"chats: {reasons_text(chats.left_out)} left out")
    notes = (*run.notes, *filter(None, left_out))
    _report(request, replace(run, said=(*unmeasured, *read.notes), notes=notes))


def _report(request: Bench, run: BenchRun) -> None:
    """Print the result; raise what has ended the measurement early."""
    page, ended, given = [*run.page()], run.found.ended, request.given
    if ended is None:
        page += ["", *next_lines("find the fastest setting", given.words_for("tune"))]
    write_result(run.document(), page, given["json_path"], quiet=given["quiet"])
    raise_ended(
        ended,
        f"interrupted after {len(run.found.pairs)} measurements, which are shown above; run the "
        "command again for all",
    )


def _through_engine(
    request: Bench, options: RunOptions, prompts: Sequence[Prompt], setup: Setup
) -> BenchRun:
    """Measure with spectui's own engine."""
    setup = placed(setup, options.fit, options.progress.announce)
    with open_engine(options) as engine:
        target, draft = load_setup(engine, setup)
        if draft is not None and (why := unserved(target.rollback, draft.rollback)):
            name = draft.info.path.name
            options.progress.say(f"note: llama-server cannot run {name} here: {why}")
        workload = tokenized(engine, prompts, options, target)
        workload = lengthened(workload, request.prompt_length, n_ctx=target.n_ctx)
        found = _compared(request, options, engine, workload, setup)
    note = price_note(known_library().value)
    return BenchRun(
        found=found,
        target=target.document(),
        draft=_draft(None if draft is None else draft.document(), found.speculation),
        backend=ENGINE,
        alteration=target.info.alteration,
        notes=(*filter(None, [note]), *unmeasured_sentences(setup.target.path)),
        shapes=request.requests,
    )


def _through_server(
    request: Bench, options: RunOptions, prompts: Sequence[Prompt], setup: Setup
) -> BenchRun:
    """Start llama-servers, measure, end them."""
    setup = replace(setup, target=left_open(setup.target, options.fit))
    setup = with_slot_context(setup, wanted_slots(request.given), request.given)
    binary = wanted_binary(request.given["server_bin"])
    target = look_at(setup.target)
    draft = None if setup.draft is None else look_at(setup.draft)
    # What the binary has no words for is said before anything is started.
    sides = {"off": setup.off, "on": setup}
    arguments = {name: measuring_arguments(one, binary) for name, one in sides.items()}
    n_ctx = setup.context.ctx_size
    with open_servers(options, binary, setup) as fleet:
        workload = served_workload(fleet.of(setup.off), prompts, options, setup)
        workload = lengthened(workload, request.prompt_length, n_ctx=n_ctx)
        backend = ServerBackend(fleet, setup, {}, redoes_rounds=target.redoes_rounds)
        found = _compared(request, options, backend, workload, setup)
    notes = unmeasured_sentences(setup.target.path)
    return BenchRun(
        found=found,
        n_slots=setup.n_slots,
        target=target.document(n_ctx),
        draft=_draft(None if draft is None else draft.document(n_ctx), found.speculation),
        backend=fleet.document(arguments),
        alteration=target.alteration,
        notes=(*notes, *((REMEMBERS,) if remembers(found.speculation) else ())),
        shapes=request.requests,
    )


def _compared(
    request: Bench, options: RunOptions, backend: Backend, workload: Workload, setup: Setup
) -> Comparison:
    """The setting against the target alone."""
    return compare(
        measurer_of(backend, workload),
        setup.speculation or Speculation(),
        repeats=request.repeats,
        on_pair=options.progress.on_pair,
        watch=MachineWatch(rpc=setup.target.devices.rpc),
    )


def _draft(draft: Json | None, speculation: Speculation) -> Json:
    """The drafter in documents; of several, the one asked last. ``draft`` is a draft model."""
    if draft is not None:
        return {"kind": speculation.own.label, **draft}
    if speculation.is_mtp:
        return {"kind": "mtp", **or_reason("path", None, "the target's own MTP layers draft")}
    return {"kind": speculation.own.label, **or_reason("path", None, NO_MODEL)}
