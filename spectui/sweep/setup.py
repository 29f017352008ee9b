"""Setup of a sweep, and the conditions under which its cells are comparable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from spectui.documents import Json
from spectui.llama.devices import buffer_types
from spectui.llama.library import binding_version
from spectui.llama.native import library_facts
from spectui.measure.backend import ENGINE
from spectui.measure.comparable import as_stored, conditions, model_identity, spec_digest
from spectui.measure.served_models import size_bytes
from spectui.measure.servers import version_document
from spectui.monitor.machine import Machine
from spectui.options.setup import ModelOptions, SamplingConfig, Setup
from spectui.paths import text_of
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary, identity_of
from spectui.sweep.cells import Place, Task
from spectui.sweep.grid import Axes

_OF_CELLS = ("cache_type_k", "cache_type_v")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSetup:
    """A grid, and what its cells have in common."""

    axes: Axes
    place: Place
    """Values of cells where the axes are silent."""
    task: Task
    """As ``place``."""
    base: Setup
    """The target alone; cells say the types of its cache, and the threads."""
    drafts: Mapping[str, ModelOptions]
    """Drafts by their names in cells."""
    sampling: SamplingConfig
    """Cells say the temperature."""
    prompts: Sequence[Prompt]
    """Prompts of every cell."""
    machine: Machine
    binary: ServerBinary | None = None
    """The llama-server that decodes; None for the engine."""
    repeats: int = 1
    name: str | None = None
    """Name under which it is stored; None for one that follows from the conditions."""
    say: Callable[[str], None] = lambda _text: None
    """Told which prompts are left out."""

    def backend_document(self) -> Json:
        """The backend in documents."""
        if self.binary is None:
            return ENGINE
        return {
            "backend": "server",
            "server": {
                "path": self.binary.path,
                **version_document(self.binary.version),
                "dialect": str(self.binary.dialect),
            },
        }


def sweep_spec(setup: SweepSetup, backend: Mapping[str, object]) -> dict[str, Any]:
    """Everything that must be equal for two cells to be comparable; nothing is loaded.

    What is an axis of a grid is not of it, so that grids share the cells that they have in common.

    Args:
        setup: of the sweep.
        backend: ``backend_identity``.
    """
    target, context, sampling = setup.base.target, setup.base.context, setup.sampling
    spec = {
        **setup.machine.conditions,
        "backend": backend,
        "target": {key: value for key, value in _identity(target).items() if key not in _OF_CELLS},
        "drafts": {name: _identity(options) for name, options in setup.drafts.items()},
        "context": {key: value for key, value in conditions(context).items() if key != "threads"},
        "sampling": {key: value for key, value in asdict(sampling).items() if key != "temp"},
        # llama-server's work per round: once there was another.
        "schedule": "server",
        "prompts": spec_digest({"prompts": list(setup.prompts)}),
    }
    return as_stored(spec)


def sweep_name(target: Path, spec: dict[str, Any]) -> str:
    """Name that depends on the specification alone, so that the same run finds its sweep again."""
    return f"{text_of(target.stem)}-{spec_digest(spec)}"


def backend_identity(setup: SweepSetup) -> dict[str, object]:
    """Identity of the backend: numbers of different identities are not comparable."""
    binary, extra = setup.binary, setup.base.extra
    if binary is None:
        versions = [binding_version(), *library_facts().identity, *sorted(buffer_types())]
        return {"name": "engine", "llama.cpp": versions}
    return {
        "name": "server",
        "path": binary.path,
        "version": None if binary.version is None else binary.version.text,
        # It may be built anew under the same version, for another machine.
        "build": msgspec.to_builtins(identity_of(Path(binary.path))),
        **({"extra": list(extra)} if extra else {}),
    }


def _identity(options: ModelOptions) -> dict[str, Any]:
    file, placement = model_identity(options, size_bytes(options.path))
    return {**file, **placement}
