"""``spectui bench --backend server``: the user's llama-server without and with the draft."""

from dataclasses import replace

from spectui.cli.bench_request import BenchOptions, Wanted
from spectui.cli.bench_run import REMEMBERS, BenchRun, Kinds, measure
from spectui.cli.documents.bench import draft_document
from spectui.cli.documents.served import served_by, served_model
from spectui.cli.progress import Progress
from spectui.cli.served_session import (
    check_schedule,
    keeps_off,
    open_fleet,
    served_workload,
    wanted_binary,
)
from spectui.config import MODEL_KIND, Schedule, SpeculationConfig
from spectui.errors import BadInputError
from spectui.models.sizes import counted
from spectui.served import Setup
from spectui.served.decoding import ServerDecoding
from spectui.served.memory import remembers
from spectui.served.models import ServedModel, look_at


def bench_served(
    wanted: Wanted, backend: BenchOptions, progress: Progress
) -> tuple[BenchRun, BaseException | None]:
    """Start the servers, measure every temperature and length, end them.

    Returns:
        What was measured, and what ended it early.

    Raises:
        ServerError: the binary is no llama-server, or failed before anything was measured.
        UsageError: options that contradict each other.
    """
    options, kinds = wanted.shared, wanted.kinds
    check_schedule(options)
    binary = wanted_binary(backend.server_bin)
    target = look_at(options.target_options(wanted.models.target))
    draft = _draft(wanted)
    speculation = with_reader(wanted.speculation, draft, is_named=wanted.names_kind)
    setup = Setup(
        target=target.options,
        draft=None if draft is None else draft.options,
        context=options.context_options(),
        speculation=speculation,
        extra=wanted.extra,
    )
    # What the binary has no words for is said before anything is started.
    arguments = {"off": setup.off.arguments(binary), "on": setup.arguments(binary)}
    keeps_both = keeps_off(setup.target, (setup.draft,), wanted=backend.keeps_both)
    progress.say(_plan(len(wanted.prompts), kinds, keeps_both=keeps_both))
    with open_fleet(
        binary,
        progress,
        keeps_off=keeps_both,
        timeout_s=backend.timeout,
        name=lambda _setup: "the draft" if speculation.has_model else speculation.kind,
    ) as fleet:
        n_ctx = setup.context.ctx_size
        workload = served_workload(
            fleet.of(setup.off), wanted.prompts, options, progress, n_ctx=n_ctx
        )
        decoding = ServerDecoding(
            fleet, setup, {}, keeps_off=keeps_both, redoes_rounds=target.redoes_rounds
        )
        found, ended = measure(
            decoding,
            kinds.of(workload, n_ctx),
            speculation,
            Schedule.SERVER,
            progress,
            repeats=kinds.repeats,
        )
    run = BenchRun(
        speculation=speculation,
        schedule=Schedule.SERVER,
        target=served_model(target, n_ctx),
        draft=draft_document(None if draft is None else served_model(draft, n_ctx), speculation),
        backend=served_by(binary, arguments, keeps_both=keeps_both, n_starts=fleet.n_starts),
        alteration=target.alteration,
        found=found,
        is_sweep=kinds.n > 1,
        notes=(REMEMBERS,) if remembers(speculation) else (),
    )
    return run, ended


def with_reader(
    speculation: SpeculationConfig, draft: ServedModel | None, *, is_named: bool
) -> SpeculationConfig:
    """The setting with the kind that the draft's file is.

    Raises:
        BadInputError: the file is of another kind than was named.
    """
    if draft is None or draft.reader == speculation.reader:
        return speculation
    if not is_named:
        return replace(speculation, reader=draft.reader)
    kind, named = draft.reader or MODEL_KIND, speculation.reader or MODEL_KIND
    raise BadInputError(
        f"{draft.path} drafts as {kind}, and --spec-type names {named}; name {kind}, or give "
        "another draft"
    )


def _draft(wanted: Wanted) -> ServedModel | None:
    if not wanted.speculation.has_model:
        return None
    return look_at(wanted.shared.draft_options(next(iter(wanted.models.drafts.values()))))


def _plan(n_prompts: int, kinds: Kinds, *, keeps_both: bool) -> str:
    """How the servers take turns, and what that costs."""
    n_runs = kinds.n * kinds.repeats
    times = f"{counted(n_prompts, 'prompt')}{f' × {n_runs}' if n_runs > 1 else ''}"
    if keeps_both:
        return f"{times}, two llama-servers that take turns"
    return (
        f"{times}, one llama-server at a time: {2 * n_runs + 1} starts at most, each of which "
        "loads its models anew"
    )
