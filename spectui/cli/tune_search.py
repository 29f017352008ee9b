"""The search of ``spectui tune``: with spectui's own engine, or through llama-server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.cli.from_command import setup_of
from spectui.cli.named_models import Drafts, mtp_files, with_kind_of_file
from spectui.cli.request import RunOptions
from spectui.cli.session import (
    find_candidates,
    load_models,
    open_engine,
    open_servers,
    place_target,
    served_workload,
    tokenized,
    wanted_slots,
    with_slot_context,
    with_slots,
)
from spectui.cli.tune import Tune
from spectui.commands.takeover import Takeover
from spectui.cores import usable_processors
from spectui.engine.commands import LoadTarget
from spectui.engine.planning import has_devices, left_open
from spectui.errors import UsageError
from spectui.llama.buffers import HOST
from spectui.llama.planned import PlanRequest
from spectui.measure.chats import MOST_ANSWERS
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import ServedModel, look_at, measuring_arguments
from spectui.measure.workload import Workload
from spectui.models.gguf import read_gguf
from spectui.options.drafters import MTP_KIND, NGRAM_KINDS
from spectui.options.option import NGRAM_DIALECTS, Dialect
from spectui.options.request import check_lengths
from spectui.options.setup import ModelOptions, Setup
from spectui.prompts import Prompt
from spectui.prompts.chats import Chats
from spectui.server.binary import ServerBinary
from spectui.server.client import LlamaClient
from spectui.tune.backends import OwnEngine, Served
from spectui.tune.candidates import Candidate
from spectui.tune.layouts import LayoutPlan, Layouts, fit_layouts, plan_caches, plan_experts
from spectui.tune.places import Parameter, knobs_of
from spectui.tune.served_forecast import why_unforecast
from spectui.tune.setup import CommandOptions, Limits, Present, TuningSetup
from spectui.tune.space import SearchSpace, longest_draft
from spectui.tune.studies.study import StudyOptions
from spectui.tune.tuning import Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search on prompts, before its models are found."""

    shared: RunOptions
    options: Tune
    prompts: Sequence[Prompt]
    chats: Chats | None
    binary: ServerBinary | None
    """The llama-server that measures; None for spectui's own engine."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the printed command."""
        return Dialect.LLAMA_CPP if self.binary is None else self.binary.dialect

    @property
    def takes_mtp(self) -> bool:
        """Whether the target's MTP layers may draft.

        Raises:
            UsageError: they were asked for together with what does not go with them.
        """
        is_named, has_flags = self.shared.names(MTP_KIND), self.dialect in NGRAM_DIALECTS
        if is_named and not has_flags:
            raise UsageError(
                f"this llama-server ({self.dialect}) has no flags for {MTP_KIND} that spectui "
                "knows; leave it out of --spec-type"
            )
        if is_named and Parameter.N_CPU_MOE in self.options.parameters:
            raise UsageError(
                f"--tune {Parameter.N_CPU_MOE} plans for draft models alone; leave it out, or "
                f"{MTP_KIND} of --spec-type"
            )
        return has_flags and self.shared.takes(MTP_KIND)

    @contextmanager
    def here(self) -> Iterator[Tuning]:
        """The search with spectui's own engine, which has loaded the models."""
        shared, (path, drafts) = self.shared, find_candidates(self.shared)
        asked = _present_of(shared.given.takeover)
        longest = 0 if asked is None else asked.longest
        shared, refused, plan, command = self._placed(path, drafts, longest)
        n_expert_layers = 0 if plan is None else plan.n_expert_layers
        caches_mib = self._moe_caches_mib(command, moves_experts=n_expert_layers > 0)
        with_mtp = self.takes_mtp and not n_expert_layers
        with open_engine(shared) as engine:
            target, candidates = load_models(
                engine, shared, drafts, command, refused=refused, takes_mtp=with_mtp
            )
            self._check_lengths(target.n_ctx, target.remedy)
            space = self._space(
                target.mtp_layers, candidates, layouts=None if plan is None else plan.needed
            )
            setup = self._setup(
                shared.alone(command.options, shared.given.extra),
                candidates,
                space,
                tokenized(engine, self.prompts, shared, target, self.chats),
            )
            given = self._given_place(command, plan)
            knobs = knobs_of(
                self.options.parameters,
                given,
                n_processors=usable_processors(),
                n_devices=len({one.memory for one in target.memory.buffers} - {HOST}),
                least_n_cpu_moe=0 if plan is None else plan.layouts.alone.n_cpu_moe,
                n_layers=n_expert_layers,
                moe_caches_mib=caches_mib,
            )
            setup = replace(setup, knobs=knobs, given=given)
            yield Tuning(setup, OwnEngine(engine, target, command))

    def _placed(
        self, path: Path, found: Drafts, longest: int
    ) -> tuple[RunOptions, tuple[Candidate, ...], LayoutPlan | None, LoadTarget]:
        """Plan how the target lies beside each draft.

        Args:
            path: the target.
            found: drafts of the run.
            longest: longest draft of the present setting.

        Returns:
            Options of whatever drafts, drafts that cannot, the plan, and how to load the target.
        """
        shared, context = self.shared, self.shared.context
        max_draft = longest_draft(context)
        request = PlanRequest(
            target=shared.target_options(path), context=context, max_draft=max_draft
        )
        drafts = {name: shared.draft_options(one) for name, one in found.items()}
        plan: LayoutPlan | None = None
        refused: tuple[Candidate, ...] = ()
        if Parameter.N_CPU_MOE in self.options.parameters:
            plan, errors = plan_experts(request, drafts, self.shared.progress.say, shared.margins)
            refused = tuple(
                Candidate(name=name, options=drafts[name], loaded=None, error=error)
                for name, error in errors.items()
            )
            target = request.target if plan is None else plan.loaded
        elif drafts and self._may_move(request.target) and shared.fit is not None:
            plan = fit_layouts(request, drafts, shared.fit, self.shared.progress.say)
            target = request.target if plan is None else plan.loaded
        else:
            shared, target = place_target(shared, path, found, max_draft=max_draft)
        command = LoadTarget(
            options=target,
            context=context,
            max_draft=max(max_draft, longest),
            mtp_file=not mtp_files(found) <= {one.name for one in refused},
        )
        return shared, refused, plan, command

    def _moe_caches_mib(self, command: LoadTarget, *, moves_experts: bool) -> tuple[int, ...]:
        """Caches of experts to try, planned before anything is loaded."""
        if Parameter.MOE_CACHE_MIB not in self.options.parameters:
            return ()
        request = PlanRequest(
            target=command.options, context=command.context, max_draft=command.max_draft
        )
        return plan_caches(request, self.shared.margins, moves_experts=moves_experts)

    def _may_move(self, target: ModelOptions) -> bool:
        """Whether the target may lie otherwise beside each draft.

        Not without a device, nor where its own MTP layers may draft: those are loaded with it once.
        """
        has_own_mtp = self.takes_mtp and read_gguf(target.path).mtp_layers > 0
        return has_devices(target) and not has_own_mtp

    def _given_place(self, command: LoadTarget, plan: LayoutPlan | None) -> LoadTarget:
        """The load of the target as the user's command has it; what does not fit is moved."""
        if plan is None:
            return command
        if plan.fits_as_given:
            return replace(command, options=self.shared.target_options(command.options.path))
        return replace(command, options=plan.layouts.alone.on(command.options))

    @contextmanager
    def served(self, binary: ServerBinary) -> Iterator[Tuning]:
        """The search through llama-server.

        Raises:
            ServerError: the server without speculation does not start.
            UsageError: there is nothing to search.
        """
        shared = self.shared
        path, found = find_candidates(shared)
        target = look_at(left_open(shared.target_options(path), shared.fit))
        drafts = {name: look_at(shared.draft_options(one)) for name, one in found.items()}
        alone = shared.alone(target.options, shared.given.served_extra)
        off = with_slot_context(alone, wanted_slots(shared.given), shared.given)
        # What the binary has no words for is said before anything is started.
        measuring_arguments(off, binary)
        candidates, space = self._served_space(binary, target, drafts)
        placed = {name: one.options for name, one in drafts.items()}
        why_not = why_unforecast(
            space, binary, n_slots=off.n_slots, redoes_rounds=target.redoes_rounds
        )
        with open_servers(shared, binary, off, placed.values()) as fleet:
            n_ctx = off.context.ctx_size
            self._check_lengths(n_ctx, "raise -c")
            backend = ServerBackend(fleet, off, placed, redoes_rounds=target.redoes_rounds)
            workload = self._workload(fleet.of(off), off)
            setup = self._setup(off, candidates, space, workload)
            yield Tuning(setup, Served(backend, binary, target, drafts, why_unforecast=why_not))

    def _served_space(
        self, binary: ServerBinary, target: ServedModel, drafts: Mapping[str, ServedModel]
    ) -> tuple[tuple[Candidate, ...], SearchSpace]:
        """Candidates, and what is searched of them.

        Raises:
            UsageError: there is nothing to search.
        """
        mtp_layers = target.mtp_layers if self.takes_mtp else 0
        candidates = [
            Candidate(name=name, options=one.options, loaded=None) for name, one in drafts.items()
        ]
        if mtp_layers:
            candidates.insert(0, Candidate(name=MTP_KIND, options=target.options, loaded=None))
        known = binary.reader.drafters
        space = self._space(
            mtp_layers,
            candidates,
            with_ngrams=self.dialect in NGRAM_DIALECTS
            and (not known or known.issuperset(NGRAM_KINDS)),
            readers=tuple((name, one.reader) for name, one in drafts.items() if one.reader),
        )
        return tuple(candidates), space

    def _space(
        self,
        mtp_layers: int,
        candidates: Sequence[Candidate],
        *,
        layouts: Layouts | None = None,
        with_ngrams: bool = True,
        readers: tuple[tuple[str, str], ...] = (),
    ) -> SearchSpace:
        """Build the search space.

        Raises:
            UsageError: there is nothing to search.
        """
        usable = tuple(c.name for c in candidates if c.reason is None)
        if not usable and not with_ngrams:
            raise UsageError(
                "there is nothing to try: no draft can be used, and this llama-server has no "
                "n-gram drafters; give -md"
            )
        return SearchSpace(
            drafts=usable,
            mtp_layers={**{c.name: c.mtp_layers for c in candidates}, MTP_KIND: mtp_layers},
            with_ngrams=with_ngrams,
            max_draft=longest_draft(self.shared.context),
            layouts=layouts,
            readers=readers,
        )

    def _workload(self, server: LlamaClient, off: Setup) -> Workload:
        """The prompts as tokens of a server, each text once."""
        answers = self.chats.prompts[:MOST_ANSWERS] if self.chats else ()
        return served_workload(server, (*self.prompts, *answers), self.shared, off)

    def _setup(
        self,
        off: Setup,
        candidates: tuple[Candidate, ...],
        space: SearchSpace,
        workload: Workload,
    ) -> TuningSetup:
        """Setup of the search for the best setting beside ``off``."""
        shared, options = self.shared, self.options
        form, budget_s = CommandOptions.of(shared.given.takeover), options.time_budget
        asked = _present_of(shared.given.takeover)
        present = None if asked is None else asked.arm(candidates, shared.context, space)
        return TuningSetup(
            off=off,
            candidates=candidates,
            workload=workload,
            space=space if present is None else replace(space, present=present.value),
            limits=Limits(
                n_trials=options.trials,
                time_budget_s=budget_s,
                until_precise=options.until == "precise",
                min_gain=options.min_gain,
            ),
            study=StudyOptions(
                name=options.study,
                storage=options.storage,
                seed=shared.sampling.seed,
            ),
            command=replace(
                form,
                dialect=self.dialect,
                extra=with_slots(form.extra, shared.given["parallel"]),
            ),
            present=present,
            prompts=shared.prompts,
            is_chat=bool(shared.chats),
            requests=options.requests,
        )

    def _check_lengths(self, n_ctx: int, remedy: str) -> None:
        check_lengths(
            self.options.requests, n_predict=self.shared.n_predict, n_ctx=n_ctx, remedy=remedy
        )


def _present_of(takeover: Takeover | None) -> Present | None:
    """Drafting setting of the ``--from`` command; None without one."""
    if takeover is None:
        return None
    if takeover.elsewhere:
        return Present(speculation=None, draft=None, elsewhere=takeover.elsewhere)
    setup = setup_of(takeover)
    speculation = setup.speculation
    if speculation is None or not speculation.takes_draft:
        return Present(speculation=speculation, draft=None)
    if setup.draft is None:
        return Present(speculation=None if speculation.needs_draft else speculation, draft=None)
    own = with_kind_of_file(speculation, setup.draft.path)
    return Present(speculation=own, draft=setup.draft.path)
