"""``spectui bench --backend server``: the user's llama-server without and with the draft."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.cli.bench_report import Benched
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
from spectui.errors import BadInputError
from spectui.format import counted
from spectui.measure.served_models import ServedModel, look_at
from spectui.measure.server_backend import ServerBackend, remembers
from spectui.measure.servers import Fleet, measuring_arguments
from spectui.options.drafters import MODEL_KIND, ModelDrafter, with_kind
from spectui.options.setup import Schedule, Setup
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """Inputs of a measurement through servers."""

    binary: ServerBinary
    target: ServedModel
    draft: ServedModel | None
    speculation: Speculation
    setup: Setup
    keeps_both: bool
    """Whether the server without speculation stays alive beside the one with it."""

    @property
    def n_ctx(self) -> int:
        """Size of the context in tokens."""
        return self.setup.context.ctx_size


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
    check_schedule(wanted.shared)
    ground = _ground(wanted, backend)
    kinds, setup, speculation = wanted.kinds, ground.setup, ground.speculation
    # What the binary has no words for is said before anything is started.
    arguments = {
        "off": measuring_arguments(setup.off, ground.binary),
        "on": measuring_arguments(setup, ground.binary),
    }
    progress.say(_plan(len(wanted.prompts), kinds, keeps_both=ground.keeps_both))
    with open_fleet(
        ground.binary,
        progress,
        keeps_off=ground.keeps_both,
        timeout_s=backend.timeout,
        name=lambda _setup: "the draft" if speculation.needs_draft else speculation.own.kind,
    ) as fleet:
        found, ended = _measured(wanted, ground, fleet, progress)
    return _run(ground, arguments, found, kinds, fleet.n_starts), ended


def _run(
    ground: _Ground,
    arguments: Mapping[str, Sequence[str]],
    found: list[Benched],
    kinds: Kinds,
    n_starts: int,
) -> BenchRun:
    """Return the results with the configuration that they belong to."""
    draft = None if ground.draft is None else served_model(ground.draft, ground.n_ctx)
    return BenchRun(
        speculation=ground.speculation,
        schedule=Schedule.SERVER,
        target=served_model(ground.target, ground.n_ctx),
        draft=draft_document(draft, ground.speculation),
        backend=served_by(
            ground.binary, arguments, keeps_both=ground.keeps_both, n_starts=n_starts
        ),
        alteration=ground.target.alteration,
        found=found,
        is_sweep=kinds.n > 1,
        notes=(REMEMBERS,) if remembers(ground.speculation) else (),
    )


def _ground(wanted: Wanted, backend: BenchOptions) -> _Ground:
    options = wanted.shared
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
    return _Ground(
        binary=binary,
        target=target,
        draft=draft,
        speculation=speculation,
        setup=setup,
        keeps_both=keeps_off(setup.target, (setup.draft,), wanted=backend.keeps_both),
    )


def _measured(
    wanted: Wanted, ground: _Ground, fleet: Fleet, progress: Progress
) -> tuple[list[Benched], BaseException | None]:
    """Measure like ``measure``, through the servers of a fleet."""
    workload = served_workload(
        fleet.of(ground.setup.off), wanted.prompts, wanted.shared, progress, n_ctx=ground.n_ctx
    )
    decoding = ServerBackend(
        fleet,
        ground.setup,
        {},
        keeps_off=ground.keeps_both,
        redoes_rounds=ground.target.redoes_rounds,
    )
    return measure(
        decoding,
        wanted.kinds.of(workload, ground.n_ctx),
        ground.speculation,
        Schedule.SERVER,
        progress,
        repeats=wanted.kinds.repeats,
    )


def with_reader(
    speculation: Speculation, draft: ServedModel | None, *, is_named: bool
) -> Speculation:
    """Return the setting with the kind of the draft's file.

    Raises:
        BadInputError: the file is of another kind than was named.
    """
    own = speculation.own
    kind = MODEL_KIND if draft is None else draft.reader or MODEL_KIND
    if draft is None or not isinstance(own, ModelDrafter) or kind == own.kind:
        return speculation
    if not is_named:
        return Speculation(with_kind(own, kind), speculation.ahead)
    raise BadInputError(
        f"{draft.path} drafts as {kind}, and --spec-type names {own.kind}; name {kind}, or give "
        "another draft"
    )


def _draft(wanted: Wanted) -> ServedModel | None:
    if not wanted.speculation.needs_draft:
        return None
    return look_at(wanted.shared.draft_options(next(iter(wanted.models.drafts.values()))))


def _plan(n_prompts: int, kinds: Kinds, *, keeps_both: bool) -> str:
    """Describe how the servers take turns, and what that costs."""
    n_runs = kinds.n * kinds.repeats
    times = f"{counted(n_prompts, 'prompt')}{f' × {n_runs}' if n_runs > 1 else ''}"
    if keeps_both:
        return f"{times}, two llama-servers that take turns"
    return (
        f"{times}, one llama-server at a time: {2 * n_runs + 1} starts at most, each of which "
        "loads its models anew"
    )
