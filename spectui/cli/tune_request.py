"""What ``spectui tune`` is asked for, and the run that comes of it."""

from dataclasses import dataclass

from spectui.cli.given import Models
from spectui.cli.request import SharedOptions
from spectui.config import ModelOptions
from spectui.engine.commands import LoadTarget
from spectui.engine.events import ModelLoaded
from spectui.engine.fitting import with_n_cpu_moe
from spectui.errors import UsageError
from spectui.monitor.machine import Machine
from spectui.tune.candidates import Candidate
from spectui.tune.loading import MovableTarget
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.study import TuningStudy
from spectui.tune.workload import Workload


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
class TuneRun:
    """A run that is ready to search."""

    shared: SharedOptions
    options: TuneOptions
    models: Models
    machine: Machine
    target: ModelLoaded
    candidates: tuple[Candidate, ...]
    workload: Workload
    study: TuningStudy
    loaded: LoadTarget
    """How the engine has loaded the target."""

    @property
    def space(self) -> SearchSpace:
        """What is searched, with the placements that the study keeps."""
        return self.study.space

    @property
    def movable(self) -> MovableTarget | None:
        """The target, where it moves for a draft."""
        placements = self.space.placements
        if placements is None:
            return None
        return MovableTarget(loaded=self.loaded, placements=placements)

    def target_beside(self, draft: str | None) -> ModelOptions:
        """The target as it lies with a draft, None for none."""
        options, placements = self.loaded.options, self.space.placements
        return options if placements is None else with_n_cpu_moe(options, placements.of(draft))
