"""Runs ``spectui bench`` with given options."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import or_
from pathlib import Path

from spectui.cli.bench import Bench, check_backend
from spectui.cli.given import Given
from spectui.cli.named_models import find_setup, with_preset_models
from spectui.cli.options import BackendKind
from spectui.cli.output import check_writable, write_result
from spectui.cli.page import next_lines, page_text, tune_words
from spectui.cli.request import RunOptions, check_drafting, check_engine, check_typed, take_drafting
from spectui.cli.running_server import api_key_from_environment, questioned
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
from spectui.cli.taken import warn_of_unmeasured
from spectui.documents import Json, Known, fields_of, or_reason
from spectui.engine.placing import left_open, placed
from spectui.errors import HopelessError, ServerError, SpectuiError
from spectui.interrupts import interrupts, raise_ended
from spectui.llama.facts import price_note
from spectui.llama.native import known_library
from spectui.measure.backend import ENGINE, Backend, load_setup
from spectui.measure.bench import BenchRun, bench_document, bench_page
from spectui.measure.chats import MOST_ANSWERS
from spectui.measure.comparison import NO_MODEL, Comparison, compare
from spectui.measure.device_locks import server_devices_held
from spectui.measure.served_models import NOT_LOADED, look_at
from spectui.measure.server_backend import REMEMBERS, ServerBackend, measurer_of, remembers
from spectui.measure.servers import (
    RunningServers,
    measuring_arguments,
    plan,
    served_by,
)
from spectui.measure.workload import Workload, variations
from spectui.models.sampling import unmeasured_sentences
from spectui.monitor.watch import MachineWatch
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.options.reading import endpoints
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.prompts.chats import reasons_text
from spectui.server.address import parse_address
from spectui.server.client import LlamaClient
from spectui.server.watch.poller import Attachment
from spectui.server.watch.sample import HostState, ProcessSample, ServerFacts
from spectui.speculative.models import unserved

_REMEDY = "start the server with a larger context, lower -n"
_ANY_LENGTH = 1 << 31
"""Context size for servers that do not report theirs: they refuse what does not fit."""


def bench(request: Bench) -> None:
    """Load the models, measure every temperature and length, and print.

    Raises:
        BadInputError: a file is missing or malformed, or there is nothing to measure; what was
            measured before that has been printed.
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: a llama-server that measures failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    given = with_backend(request.given)
    request = replace(request, given=given)
    check_backend(given)
    is_running = request.server_url is not None
    is_server = given["backend"] == BackendKind.SERVER
    if not is_running:
        check_typed(given)
    speculation, shared = take_drafting(given)
    options = RunOptions.of(shared.changed(temp=given["temp"][0]))
    unmeasured: tuple[str, ...] = ()
    if not is_running:
        check_drafting(options.context, speculation)
        if not is_server:
            check_engine({speculation.own.kind})
        unmeasured = warn_of_unmeasured(given, through_server=is_server)
        options = with_preset_models(options, most_drafts=int(speculation.needs_draft))
    check_writable(options.json_path, options.input_files())
    read, chats = read_prompts(options, of_suite=SUITE_PROMPTS), read_chats(options)
    prompts = (*read.prompts, *(chats.prompts[:MOST_ANSWERS] if chats else ()))
    with options.shown() as shown:
        job = _Bench(request, shown, prompts)
        run = job.measured(speculation)
        interrupts.hold()
    left_out = dict.fromkeys(filter(None, (one.workload.note for one in run.comparisons)))
    if chats is not None and chats.left_out:
        left_out[f"chats: {reasons_text(chats.left_out)} left out"] = None
    said, notes = (*unmeasured, *read.notes), (*run.notes, *left_out)
    run = replace(run, said=said, notes=notes, requests=request.requests)
    is_sweep = job.n_kinds > 1
    page = [*bench_page(run, is_sweep=is_sweep)]
    if not is_running and run.ended is None:
        page += ["", *next_lines("search for the fastest setting", tune_words(given.words))]
    write_result(bench_document(run, is_sweep=is_sweep), page_text(page), options.json_path)
    raise_ended(
        run.ended,
        f"interrupted after {run.n_runs} measurements, which are shown above; run the command "
        "again for all",
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    """Measures prompts with every temperature and length, by whoever decodes."""

    request: Bench
    options: RunOptions
    prompts: Sequence[Prompt]

    @property
    def given(self) -> Given:
        """The options as they were given."""
        return self.request.given

    def measured(self, speculation: Speculation) -> BenchRun:
        """Measure where the options say."""
        if self.request.server_url is not None:
            return self.through_running(self.request.server_url)
        if self.given["backend"] == BackendKind.SERVER:
            return self.through_server(speculation)
        return self.through_engine(speculation)

    def through_engine(self, speculation: Speculation) -> BenchRun:
        """Measure with spectui's own engine."""
        options, asked = self.options, self._setup(speculation)
        setup = placed(asked, options.fit, options.progress.announce)
        speculation = setup.speculation or speculation
        with open_engine(options) as engine:
            target, draft = load_setup(engine, setup)
            if draft is not None and (why := unserved(target.rollback, draft.rollback)):
                name = draft.info.path.name
                options.progress.say(f"note: llama-server cannot run {name} here: {why}")
            workload = tokenized(engine, self.prompts, options, target)
            workloads = self._varied(workload, target.n_ctx)
            found, ended = self._measure(list(product([engine], workloads)), speculation)
        note = price_note(known_library().value)
        return BenchRun(
            found=found,
            ended=ended,
            target=target.document(),
            draft=_draft(None if draft is None else draft.document(), speculation),
            setting=speculation.document(),
            backend=ENGINE,
            alteration=target.info.alteration,
            notes=(*filter(None, [note]), *unmeasured_sentences(setup.target.path)),
        )

    def through_server(self, speculation: Speculation) -> BenchRun:
        """Start llama-servers, measure, end them."""
        setup, slots = self._setup(speculation), wanted_slots(self.given)
        setup = replace(setup, target=left_open(setup.target, self.options.fit))
        speculation = setup.speculation or speculation
        binary = wanted_binary(self.given["server_bin"])
        target = look_at(setup.target)
        draft = None if setup.draft is None else look_at(setup.draft)
        setup = with_slot_context(setup, slots[0], self.given)
        # What the binary has no words for is said before anything is started.
        arguments = {
            "off": measuring_arguments(setup.off, binary),
            "on": measuring_arguments(setup, binary),
        }
        n_ctx, (n_prompts, n_runs) = setup.context.ctx_size, self._plan
        widest = replace(setup, n_slots=max(slots))
        with open_servers(
            self.options,
            binary,
            widest,
            costs=lambda stays: plan(n_prompts, n_runs * len(slots), keeps_off=stays),
            name=lambda _: speculation.own.kind if draft is None else "the draft",
        ) as fleet:
            sampling = self.options.sampling_for(setup.target.path)
            workloads = self._served_workloads(fleet.of(setup.off), n_ctx, sampling)
            backend = ServerBackend(fleet, setup, {}, redoes_rounds=target.redoes_rounds)
            backends = map(backend.with_slots, slots)
            found, ended = self._measure(list(product(backends, workloads)), speculation)
        n = len(workloads)
        groups = [found[at : at + n] for at in range(0, len(found), n)]
        return BenchRun(
            found=groups[0],
            by_slots=() if slots == (1,) else tuple(zip(slots, groups, strict=False)),
            ended=ended,
            target=target.document(n_ctx),
            draft=_draft(None if draft is None else draft.document(n_ctx), speculation),
            setting=speculation.document(),
            backend=served_by(
                binary, arguments, keeps_both=fleet.keeps_off, n_starts=fleet.n_starts
            ),
            alteration=target.alteration,
            notes=(
                *unmeasured_sentences(setup.target.path),
                *((REMEMBERS,) if remembers(speculation) else ()),
            ),
        )

    def through_running(self, url: str) -> BenchRun:
        """Measure a llama-server as it stands, beside another one if there is one."""
        client, facts, where = self._connected(url)
        baseline, running = None, [where]
        if self.request.baseline_url is not None:
            baseline, _facts, where = self._connected(self.request.baseline_url)
            running.append(where)
        with RunningServers(client, baseline) as servers, server_devices_held(running):
            n_ctx = facts.n_ctx or _ANY_LENGTH
            workloads = self._served_workloads(client, n_ctx, self.options.sampling, remedy=_REMEDY)
            if baseline is not None:
                self.options.progress.say(plan(*self._plan, keeps_off=True))
            backend = ServerBackend(servers, _ANY_SETUP, {}, redoes_rounds=True)
            found, ended = self._measure(
                list(product([backend], workloads)),
                None if baseline is None else Speculation(),
                running=[one.process for one in running],
            )
            untold = servers.untold(sum(one.counters.n_drafted for one in found))
        return BenchRun(
            found=found,
            ended=ended,
            target=_running_model(facts),
            draft={**or_reason("kind", None, _OWN), **or_reason("path", None, _OWN)},
            setting=_UNKNOWN_SETTING,
            backend=_running_by(url, self.request.baseline_url, facts),
            alteration=None,
            cause="the machine's noise, or what else the servers differ in",
            untold=untold,
        )

    def _setup(self, speculation: Speculation) -> Setup:
        several = "bench measures one draft; give one -md, or use spectui tune"
        return find_setup(self.options, speculation, several=several)

    @property
    def n_kinds(self) -> int:
        """Number of combinations of temperature and length."""
        return len(self.given["temp"]) * max(1, len(self.request.lengths))

    @property
    def _plan(self) -> tuple[int, int]:
        """Number of prompts, and of the times that all of them are measured."""
        return len(self.prompts), self.n_kinds * self.request.repeats

    def _served_workloads(
        self,
        server: LlamaClient,
        n_ctx: int,
        sampling: SamplingConfig,
        *,
        remedy: str = "raise -c",
    ) -> list[Workload]:
        workload = served_workload(
            server, self.prompts, self.options, n_ctx=n_ctx, sampling=sampling, remedy=remedy
        )
        return self._varied(workload, n_ctx, remedy=remedy)

    def _varied(
        self, workload: Workload, n_ctx: int, *, remedy: str = "raise -c"
    ) -> list[Workload]:
        temps, lengths = self.given["temp"], self.request.lengths
        if "temp" not in self.options.chosen_sampling:
            temps = (workload.sampling.temp,)
        return variations(workload, temps, lengths, n_ctx=n_ctx, remedy=remedy)

    def _measure(
        self,
        work: Sequence[tuple[Backend, Workload]],
        speculation: Speculation | None,
        *,
        running: Sequence[Known[ProcessSample]] = (),
    ) -> tuple[list[Comparison], BaseException | None]:
        """Return the measurements, and the error that ended them early if there are any by then.

        Args:
            work: who decodes which workload.
            speculation: as ``compare``.
            running: processes of the servers that decode, where spectui has not started them.
        """
        found: list[Comparison] = []
        for backend, workload in work:
            try:
                one = compare(
                    measurer_of(backend, workload),
                    speculation,
                    repeats=self.request.repeats,
                    on_run=self.options.progress.on_run,
                    watch=_watch(running, endpoints(self.given["rpc"])),
                )
            except (KeyboardInterrupt, SpectuiError) as error:
                if not found or isinstance(error, HopelessError):
                    raise
                return found, error
            found.append(one)
            if one.ended is not None:
                return found, one.ended
        return found, None

    def _connected(self, address: str) -> tuple[LlamaClient, ServerFacts, HostState]:
        """Return a client of a server that has answered, what that reports, and where it runs.

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
                f"{url} is a router, which hands requests on; give the address of a server that "
                "runs the model itself"
            )
        timeout_s = self.given["timeout"]
        client = LlamaClient(url, api_key=attachment.api_key, request_timeout_s=timeout_s)
        return client, facts, sample.host


def _watch(running: Sequence[Known[ProcessSample]], rpc: Sequence[str]) -> Known[MachineWatch]:
    """A watch over the machine that decodes, if it is this one and the servers are known."""
    hidden = next((one.reason for one in running if one.value is None), None)
    if hidden is not None:
        return Known(None, hidden)
    pids = [one.value.pid for one in running if one.value is not None]
    return Known(MachineWatch(others=lambda: pids, rpc=rpc))


_ANY_SETUP = Setup(
    target=ModelOptions(path=Path()), draft=None, context=ContextOptions(), speculation=None
)
"""Servers that run are told apart by whether they speculate; nothing is started."""


def _draft(draft: Json | None, speculation: Speculation) -> Json:
    """The drafter in documents; of several, the one asked last. ``draft`` is a draft model."""
    if draft is not None:
        return {"kind": speculation.own.label, **draft}
    if speculation.is_mtp:
        return {"kind": "mtp", **or_reason("path", None, "the target's own MTP layers draft")}
    return {"kind": speculation.own.label, **or_reason("path", None, NO_MODEL)}


_UNTOLD = "the server does not tell"
_OWN = "the server drafts as it was started, and does not tell how"
_UNKNOWN_SETTING: Json = reduce(
    or_, (or_reason(number.name, None, _OWN) for number in numbers_of(DraftSimple))
)


def _running_model(facts: ServerFacts) -> Json:
    """The target in documents, as far as the server reports it."""
    return {
        **or_reason("path", facts.model_path, _UNTOLD),
        **or_reason("name", facts.alias, _UNTOLD),
        **fields_of(facts, _UNTOLD, "n_params", "size_bytes", "n_ctx"),
        **or_reason("arch", None, NOT_LOADED),
        **or_reason("rollback", None, NOT_LOADED),
    }


def _running_by(url: str, baseline: str | None, facts: ServerFacts) -> Json:
    """The servers that have measured, in documents."""
    return {
        "backend": "server",
        "server": {
            "url": url,
            **or_reason("baseline_url", baseline, "none was given"),
            **or_reason("build", facts.build, _UNTOLD),
        },
    }
