"""``spectui bench --server-url``: llama-servers that run already, as they stand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from spectui.cli.bench_report import Telling
from spectui.cli.bench_request import BenchOptions
from spectui.cli.bench_run import BenchRun, Kinds, measure, raise_ended, report
from spectui.cli.bench_running_checks import check_servers, check_typed
from spectui.cli.bench_running_report import AloneRun, report_alone
from spectui.cli.documents.running import (
    UNKNOWN_SETTING,
    running_by,
    running_draft,
    running_model,
)
from spectui.cli.drafting import take_drafting
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.running_server import api_key_from_environment, questioned
from spectui.cli.served_session import served_workload
from spectui.cli.session import SUITE_PROMPTS, read_prompts
from spectui.errors import CancelledError, ServerError
from spectui.format import counted, percent_text, rate_text
from spectui.measure.comparison import AloneResult, Done, run_alone
from spectui.measure.measurer import Measurer
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import RunningServers
from spectui.measure.workload import Workload
from spectui.options.setup import ContextOptions, ModelOptions, Schedule, Setup
from spectui.options.speculation import Speculation
from spectui.server import LlamaClient
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment
from spectui.server.watch.sample import ServerFacts
from spectui.speculative.counters import Counters

_REMEDY = "start the server with a larger context, lower -n"
_ANY_LENGTH = 1 << 31
"""Context size for servers that do not report theirs: they refuse what does not fit."""


def bench_running(
    ctx: click.Context, backend: BenchOptions, parsed: dict[str, Any], kinds: Kinds
) -> None:
    """Send prompts to a server, and to another one to compare with if there is one.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: a server cannot be reached, or failed; what was measured has been printed.
        UsageError: options that a running server cannot be given.
    """
    check_typed(ctx)
    check_servers(ctx, backend)
    _speculation, rest = take_drafting(parsed)
    options = SharedOptions(**rest, temp=kinds.temps[0])
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options, of_suite=SUITE_PROMPTS)
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        client, facts = _connected(str(backend.server_url), backend.timeout)
        baseline = None
        if backend.baseline_url is not None:
            baseline, _facts = _connected(backend.baseline_url, backend.timeout)
        with RunningServers(client, baseline) as servers:
            n_ctx = facts.n_ctx or _ANY_LENGTH
            workload = served_workload(
                client, prompts, options, progress, n_ctx=n_ctx, remedy=_REMEDY
            )
            workloads = kinds.of(workload, n_ctx, remedy=_REMEDY)
            run = _Running(servers, facts, progress, kinds)
            if baseline is not None:
                progress.say(
                    f"{counted(len(prompts), 'prompt')}, two llama-servers that take turns"
                )
                pairs, ended = run.compared(workloads, backend)
                interrupts.hold()
            else:
                alone = run.alone(workloads, backend)
                interrupts.hold()
    finally:
        progress.close()
    if baseline is not None:
        report(pairs, options.json_path)
        raise_ended(pairs.found, ended)
    else:
        report_alone(alone, options.json_path)
        _raise_ended(alone)


class _Running:
    """Measures on servers that run."""

    def __init__(
        self, servers: RunningServers, facts: ServerFacts, progress: Progress, kinds: Kinds
    ) -> None:
        self._servers = servers
        self._facts = facts
        self._progress = progress
        self._kinds = kinds
        # They are told apart by whether they speculate; nothing is started.
        nothing = Setup(
            target=ModelOptions(path=Path()),
            draft=None,
            context=ContextOptions(),
            speculation=None,
        )
        self._decoding = ServerBackend(servers, nothing, {}, keeps_off=True, redoes_rounds=True)

    def compared(
        self, workloads: Sequence[Workload], backend: BenchOptions
    ) -> tuple[BenchRun, BaseException | None]:
        """Measure both servers in alternation."""
        setting = Speculation()
        found, ended = measure(
            self._decoding,
            workloads,
            setting,
            Schedule.SERVER,
            self._progress,
            repeats=self._kinds.repeats,
        )
        run = BenchRun(
            speculation=setting,
            schedule=Schedule.SERVER,
            target=running_model(self._facts),
            draft=running_draft(),
            backend=running_by(str(backend.server_url), backend.baseline_url, self._facts),
            config=UNKNOWN_SETTING,
            alteration=None,
            found=found,
            is_sweep=self._kinds.n > 1,
            telling=Telling(
                cause="the machine's noise, or what else the servers differ in",
                untold=self._untold([one.result.counters for one in found]),
            ),
        )
        return run, ended

    def alone(self, workloads: Sequence[Workload], backend: BenchOptions) -> AloneRun:
        """Measure one server, with nothing to compare it with."""
        found: list[tuple[Workload, AloneResult]] = []
        for workload in workloads:
            try:
                result = run_alone(
                    workload,
                    Measurer(self._decoding, workload, Schedule.SERVER),
                    repeats=self._kinds.repeats,
                    on_done=self._tell,
                )
            except (KeyboardInterrupt, ServerError) as error:
                if not found:
                    raise
                found.append((workload, AloneResult(done=(), ended=error)))
                break
            found.append((workload, result))
            if result.ended is not None:
                break
        return AloneRun(
            facts=self._facts,
            backend=running_by(str(backend.server_url), None, self._facts),
            found=tuple(found),
            is_sweep=self._kinds.n > 1,
            untold=self._untold([result.counters for _, result in found]),
        )

    def _untold(self, found: Sequence[Counters]) -> str | None:
        return self._servers.untold(sum(one.n_drafted for one in found))

    def _tell(self, done: Done) -> None:
        rate = done.result.counters.acceptance_rate
        self._progress.say(
            f"{done.item.id}: {rate_text(done.result.tokens_per_s)} tokens/s, acceptance "
            f"{percent_text(rate)}"
        )


def _connected(address: str, timeout_s: float) -> tuple[LlamaClient, ServerFacts]:
    """Return a client of a server that has answered, and the facts that the server reports.

    Raises:
        ServerError: it does not answer, or is a router.
        UsageError: the address is none.
    """
    wanted = Attachment(address=parse_address(address), api_key=api_key_from_environment())
    attachment, sample = questioned(wanted)
    url, facts = wanted.address.url, sample.facts.value
    if facts is None:
        raise ServerError(f"{url} does not tell about its model: {sample.facts.reason}")
    if facts.is_router:
        raise ServerError(
            f"{url} is a router, which hands requests on; give the address of a server that runs "
            "the model itself"
        )
    client = LlamaClient(url, api_key=attachment.api_key, request_timeout_s=timeout_s)
    return client, facts


def _raise_ended(run: AloneRun) -> None:
    ended = run.ended
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        raise CancelledError(
            "interrupted; what was measured is shown above, and the command run again measures all"
        )
    if ended is not None:
        raise ended
