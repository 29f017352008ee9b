"""Request of ``spectui tune``, and the run that results from it."""

from dataclasses import dataclass

from spectui.cli.given import Models
from spectui.cli.options_backend import BackendKind
from spectui.cli.request import SharedOptions
from spectui.cli.taken import Taken
from spectui.cli.tune_present import PresentArm
from spectui.commands.command import Start
from spectui.commands.launch import ExportSetup
from spectui.engine.commands import LoadTarget
from spectui.engine.events import ModelLoaded
from spectui.engine.fitting import with_n_cpu_moe
from spectui.errors import UsageError
from spectui.monitor.machine import Machine
from spectui.options.setup import ModelOptions
from spectui.served.models import ServedModel
from spectui.server.binary import ServerBinary
from spectui.tune.candidates import Candidate
from spectui.tune.loading import MovableTarget
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.studies.study import TuningStudy
from spectui.tune.trials import Arm
from spectui.tune.workload import Workload

_PLACING = frozenset({"override-tensor", "cpu-moe", "n-cpu-moe"})
"""Options that a searched placement needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The options that only ``tune`` has, by click's parameter names."""

    trials: int
    time_budget: float | None
    study: str | None
    storage: str | None
    resume: bool
    sampler: str
    tuned: str
    min_gain: float
    dialect: str
    repeats: int
    server_bin: str | None
    backend: str
    server_url: str | None
    keeps_both: bool | None
    timeout: float

    @property
    def is_server(self) -> bool:
        """Whether a llama-server measures."""
        return self.backend == BackendKind.SERVER

    def check(self) -> None:
        """Refuse options that no search supports.

        Raises:
            UsageError: such an option was given.
        """
        if self.server_url is not None:
            raise UsageError(
                "--server-url: llama-server takes no speculative parameters per request, so a "
                "server that runs cannot be searched on; give its binary with --backend server "
                "--server-bin PATH, or measure it as it stands with spectui bench"
            )
        if self.keeps_both is not None and not self.is_server:
            raise UsageError(
                "--keep-both and --one-at-a-time are for --backend server; add that, or leave them "
                "out"
            )
        if self.is_server and Parameter.N_CPU_MOE in self.parameters():
            raise UsageError(
                f"--tune {Parameter.N_CPU_MOE} plans with spectui's own engine; leave it out with "
                "--backend server"
            )

    def parameters(self) -> frozenset[Parameter]:
        """Parse ``--tune``.

        Raises:
            UsageError: it names an unknown parameter, or none in some place.
        """
        wanted = [name.strip() for name in self.tuned.split(",")]
        known = [str(parameter) for parameter in Parameter]
        if not any(wanted):
            raise UsageError(f"--tune names nothing; choose among {', '.join(known)}")
        if not all(wanted):
            raise UsageError(
                f"--tune {self.tuned!r} has an empty place; write one or more of "
                f"{', '.join(known)}, with commas between them"
            )
        for name in wanted:
            if name not in known:
                raise UsageError(f"--tune {name}: unknown; choose among {', '.join(known)}")
        return frozenset(Parameter(name) for name in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBackend:
    """A llama-server in the place of the engine."""

    binary: ServerBinary
    keeps_off: bool
    """Whether the server without speculation stays alive beside one that speculates."""
    n_starts: int = 0
    """Number of servers started in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRun:
    """A run that is ready to search."""

    shared: SharedOptions
    options: TuneOptions
    models: Models
    machine: Machine
    target: ModelLoaded | ServedModel
    candidates: tuple[Candidate, ...]
    workload: Workload
    study: TuningStudy
    loaded: LoadTarget
    """Command that loaded the target."""
    served: ServedBackend | None = None
    """The llama-server that measures; None for the engine."""
    extra: tuple[str, ...] = ()
    """The user's own arguments for servers that measure, without sizes left to the server."""
    taken: Taken | None = None
    """The command of ``--from``, to be exported with new drafting options."""
    present: PresentArm | None = None
    """The present drafting setting of that command."""

    @property
    def alteration(self) -> str | None:
        """How the target was altered, in a sentence; None if it was not."""
        target = self.target
        return target.alteration if isinstance(target, ServedModel) else target.info.alteration

    @property
    def space(self) -> SearchSpace:
        """The search space, with the placements that the study stores."""
        return self.study.space

    @property
    def movable(self) -> MovableTarget | None:
        """The target, if its placement may change for a draft."""
        placements = self.space.placements
        if placements is None:
            return None
        return MovableTarget(loaded=self.loaded, placements=placements)

    def target_beside(self, draft: str | None) -> ModelOptions:
        """The target with its placement for a draft; None for no draft."""
        options, placements = self.loaded.options, self.space.placements
        return options if placements is None else with_n_cpu_moe(options, placements.of(draft))

    @property
    def exported_extra(self) -> tuple[str, ...]:
        """The user's own arguments, exported unchanged."""
        return () if self.taken is None else self.taken.extra

    @property
    def given(self) -> frozenset[str] | None:
        """Names of the options that are written into the user's command; None for all."""
        if self.taken is None:
            return None
        return self.taken.given | (_PLACING if self.space.placements is not None else frozenset())

    @property
    def start(self) -> Start:
        """Words before the arguments of the user's command."""
        return Start() if self.taken is None else self.taken.takeover.start

    def setup_of(self, arm: Arm) -> ExportSetup:
        """Setup to export for an arm."""
        drafts = {candidate.name: candidate.options for candidate in self.candidates}
        return ExportSetup(
            target=self.target_beside(arm.draft),
            draft=None if arm.draft is None else drafts[arm.draft],
            context=self.shared.context_options(),
            speculation=arm.speculation,
            extra=self.exported_extra,
            given=self.given,
            start=self.start,
            name=self.models.target.stem,
        )
