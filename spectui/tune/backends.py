"""Backends of a search: spectui's own engine, or llama-servers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from spectui.documents import Json
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.llama.devices import buffer_types
from spectui.llama.facts import LibraryFacts
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.llama.native import library_facts
from spectui.measure.arm import Arm
from spectui.measure.backend import ENGINE
from spectui.measure.comparable import as_stored, conditions, digest, model_identity, spec_digest
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import ServedModel, measuring_arguments
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine, this_machine
from spectui.options.setup import ModelOptions, Setup
from spectui.server.binary import ServerBinary
from spectui.tune.candidates import Candidate, Loader, Loading
from spectui.tune.forecaster import Forecaster
from spectui.tune.layouts import Layout, at_least
from spectui.tune.places import Parameter, Placing, moved
from spectui.tune.placing import PlaceSearch
from spectui.tune.served_forecast import ServedForecaster
from spectui.tune.setup import TuningSetup, mixed
from spectui.tune.studies.records import KeptTrace, study_trace
from spectui.tune.studies.study import TuningStudy
from spectui.tune.tracing import identities, identity

_PLACES_SHARE = 0.3
"""Share of the time budget in which the target's place is searched."""


def served_spec(
    *,
    machine: Machine,
    server: Mapping[str, object],
    off: Setup,
    target: ServedModel,
    drafts: Mapping[str, ServedModel],
    workload: Workload,
) -> dict[str, Any]:
    """The study's conditions where a llama-server measures: no study mixes backends.

    Args:
        machine: machine that the server runs on.
        server: which binary, of which version.
        off: the target alone, with what all servers share.
        target: model of ``off``.
        drafts: by name.
        workload: prompts to decode.
    """
    spec = {
        **machine.conditions,
        "backend": "server",
        "server": server,
        "target": _identity(off.target, target.file_bytes),
        "drafts": {name: _identity(one.options, one.file_bytes) for name, one in drafts.items()},
        "context": conditions(off.context),
        "prompts": digest([item.tokens for item in workload.items]),
        "n_predict": workload.n_predict,
        "sampling": workload.sampling,
        "extra": off.extra,
        **({"n_slots": off.n_slots} if off.n_slots > 1 else {}),
    }
    return as_stored(spec)


def _identity(options: ModelOptions, size_bytes: int, **facts: int) -> dict[str, Any]:
    file, placement = model_identity(options, size_bytes)
    return {**file, **facts, "placement": placement}


def _loaded_identity(options: ModelOptions, loaded: ModelLoaded) -> dict[str, Any]:
    return _identity(options, loaded.info.size_bytes, n_params=loaded.info.n_params)


def study_name(target: Path, spec: dict[str, Any]) -> str:
    """Name that the same run finds again and another one does not; ``target`` is its file."""
    return f"{target.stem}-{spec_digest(spec)}"


@dataclass(eq=False)
class OwnEngine:
    """The engine, which records and replays as well."""

    measuring: Engine
    """Has loaded the target."""
    target: ModelLoaded
    """As it was loaded."""
    command: LoadTarget
    """Loads it, in its first place."""
    _: KW_ONLY
    draft: str | None = None
    """Candidate that is loaded already."""
    keeps_trace: bool = True
    """Whether the recording is kept beside the study, without text."""
    why_unforecast = None
    """Settings are always forecast."""

    @property
    def llama_cpp(self) -> str:
        """Version of the library."""
        return llama_cpp_version()

    @property
    def library(self) -> LibraryFacts:
        """The library that measures."""
        return library_facts()

    @property
    def alteration(self) -> str | None:
        """How the target was altered, in a sentence; None if it was not."""
        return self.target.info.alteration

    def target_document(self) -> Json:
        """The target in documents."""
        return self.target.document()

    def document(self, _best: Arm | None) -> Json:
        """The engine in documents."""
        return ENGINE

    def spec(self, setup: TuningSetup) -> dict[str, Any]:
        """Conditions that must be equal for two trials to be comparable.

        Where the target has a layout for each draft, its layout is no condition: free memory
        differs a little from run to run, and the study keeps the layouts. Where it searches the
        target's place, the command's own is, with the parameters that may change it.
        """
        options, workload = setup.off.target, setup.workload
        moves = setup.space.layouts is not None
        if moves and options.fit is not None:
            options = Layout(text="", n_gpu_layers=-1).on(options)
        own = _loaded_identity(options, self.target)
        if moves:
            own["placement"]["n_cpu_moe"] = None
        given = [item.given.tokens for item in workload.items if item.given is not None]
        spec = {
            **this_machine().conditions,
            "llama.cpp": [binding_version(), *library_facts().identity, *sorted(buffer_types())],
            "target": own,
            "drafts": {
                candidate.name: _loaded_identity(candidate.options, candidate.loaded)
                for candidate in setup.candidates
                if candidate.loaded is not None
            },
            "context": conditions(setup.off.context),
            # llama-server's work per round: once there was another.
            "schedule": "server",
            "prompts": digest([item.tokens for item in workload.items]),
            **({"answers": digest(given)} if given else {}),
            "n_predict": workload.n_predict,
            "sampling": workload.sampling,
            **({"knobs": sorted(one.name for one in setup.knobs)} if setup.knobs else {}),
        }
        return as_stored(spec)

    def settle(
        self, setup: TuningSetup, study: TuningStudy, say: Callable[[str], None]
    ) -> tuple[TuningSetup, Placing | None]:
        """Find the place in which the target is fastest, and load it there."""
        if not setup.knobs:
            return setup, None
        target = replace(
            setup.given or self.command,
            mtp=bool(self.target.mtp_layers) and not self.command.mtp_file,
            draft=None if study.space.layouts else _largest_draft(setup.candidates),
        )
        placing, budget_s = study.kept("placing", Placing), setup.limits.time_budget_s
        if placing is None:
            ends_s = math.inf if budget_s is None else self._now_s() + _PLACES_SHARE * budget_s
            search = PlaceSearch(
                self.measuring,
                target,
                study.places(setup.knobs),
                workload=setup.workload,
                shape=setup.shapes[0],
                min_gain=setup.limits.min_gain,
                say=say,
                is_over=lambda: self._now_s() >= ends_s,
            )
            placing = search.run()
            study.keep(placing=placing)
        n_cpu_moe, layouts = placing.values.get(Parameter.N_CPU_MOE), study.space.layouts
        if n_cpu_moe is not None and layouts is not None:
            # With the user's own ``-ot`` it has one layout beside every draft.
            is_number, own = isinstance(n_cpu_moe, int), setup.off.target
            layouts = at_least(layouts, own, int(n_cpu_moe)) if is_number else None
            study.space = replace(study.space, layouts=layouts)
        self.command = place = moved(target, setup.knobs, placing.values)
        self.measuring.load_target(place)
        self.draft = None
        off = replace(setup.off, target=place.options, context=place.context)
        return replace(setup, off=off), placing

    def _now_s(self) -> float:
        """Clock that stands still while others have the engine."""
        return time.monotonic() - self.measuring.waited_s

    def prepare(self, setup: TuningSetup, study: TuningStudy) -> tuple[Loading, Forecaster]:
        """Loader of the drafts, and the forecaster, which records all prompts."""
        layouts = study.space.layouts
        loader = Loader(
            self.measuring,
            setup.candidates,
            loaded=self.draft,
            movable=None if layouts is None else (self.command, layouts),
        )
        kept = KeptTrace(
            study_trace(study.name, study.spec),
            identity(self.target),
            identities(setup.candidates),
            study.recordings,
        )
        forecaster = Forecaster(
            replace(setup.workload, items=mixed(setup.workload.items)),
            loader,
            study.space,
            target=self.target,
            kept=kept if self.keeps_trace else None,
        )
        return loader, forecaster


def _largest_draft(candidates: Sequence[Candidate]) -> ModelOptions | None:
    """The draft in a file of its own that takes most memory; None without one."""
    sizes = {
        one.options: one.loaded.info.size_bytes
        for one in candidates
        if one.loaded is not None and not one.is_mtp
    }
    return max(sizes, key=sizes.__getitem__, default=None)


@dataclass(eq=False)
class Served:
    """Llama-servers."""

    measuring: ServerBackend
    binary: ServerBinary
    target: ServedModel
    drafts: Mapping[str, ServedModel]
    _: KW_ONLY
    why_unforecast: str | None
    """Why no setting is forecast; None where all are."""
    library = None
    """The binary is known by its version."""

    @property
    def llama_cpp(self) -> str:
        """Version of the binary."""
        version = self.binary.version
        return "unknown" if version is None else version.text

    @property
    def alteration(self) -> str | None:
        """How the target was altered, in a sentence; None if it was not."""
        return self.target.alteration

    def target_document(self) -> Json:
        """The target in documents."""
        return self.target.document(self.measuring.base.context.ctx_size)

    def document(self, best: Arm | None) -> Json:
        """The server in documents, with its arguments without speculation and with ``best``."""
        setups = {"off": self.measuring.setup(None)}
        if best is not None and best.speculation is not None:
            self.measuring.load(best.draft)
            setups["on"] = self.measuring.setup(best.speculation)
        return self.measuring.servers.document(
            {name: measuring_arguments(one, self.binary) for name, one in setups.items()}
        )

    def settle(
        self, setup: TuningSetup, _study: TuningStudy, _say: Callable[[str], None]
    ) -> tuple[TuningSetup, None]:
        """The target stays where the command has it."""
        return setup, None

    def spec(self, setup: TuningSetup) -> dict[str, Any]:
        """Conditions that must be equal for two trials to be comparable."""
        version = self.binary.version
        return served_spec(
            machine=this_machine(),
            server={
                "path": self.binary.path,
                "version": None if version is None else version.text,
                "build": None if version is None else version.build,
                "commit": None if version is None else version.commit,
            },
            off=setup.off,
            target=self.target,
            drafts=self.drafts,
            workload=setup.workload,
        )

    def prepare(
        self, setup: TuningSetup, study: TuningStudy
    ) -> tuple[Loading, ServedForecaster | None]:
        """The servers, which load their own drafts, and the forecaster, which answers all."""
        if self.why_unforecast is not None or setup.limits.n_trials is not None:
            return self.measuring, None
        workload = replace(setup.workload, items=mixed(setup.workload.items))
        return self.measuring, ServedForecaster(workload, self.measuring, study.space)
