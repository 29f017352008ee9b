"""Conditions under which two trials are comparable, and the study name that follows from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectui.engine.events import ModelLoaded
from spectui.llama.devices import buffer_types
from spectui.llama.library import binding_version, library_facts
from spectui.measure.comparable import as_stored, conditions, digest, model_identity, spec_digest
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine, this_machine
from spectui.options.setup import ModelOptions, Setup
from spectui.tune.layouts import Layout
from spectui.tune.setup import TuningSetup


def study_spec(setup: TuningSetup, target: ModelLoaded) -> dict[str, Any]:
    """Conditions that must be equal for two trials of the engine to be comparable.

    Where the target lies otherwise beside each draft, its layout is not of it: free memory differs
    a little from run to run, and the study keeps the layouts. Where it searches the target's place,
    the command's own is, with the parameters that may change it.
    """
    options, workload = setup.off.target, setup.workload
    own = _identity(options, target)
    if setup.space.layouts is not None:
        if options.fit is not None:
            own = _identity(Layout(text="", n_gpu_layers=-1).on(options), target)
        own["placement"]["n_cpu_moe"] = None
    given = [item.given.tokens for item in workload.items if item.given is not None]
    spec = {
        **this_machine().conditions,
        "llama.cpp": [binding_version(), *library_facts().identity, *sorted(buffer_types())],
        "target": own,
        "drafts": {
            candidate.name: _identity(candidate.options, candidate.loaded)
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


def _identity(options: ModelOptions, loaded: ModelLoaded) -> dict[str, Any]:
    file, placement = model_identity(options, loaded.info.size_bytes)
    return {**file, "n_params": loaded.info.n_params, "placement": placement}


def served_spec(
    *,
    machine: Machine,
    server: Mapping[str, object],
    off: Setup,
    drafts: Mapping[str, ModelOptions],
    sizes_bytes: Mapping[Path, int],
    workload: Workload,
) -> dict[str, Any]:
    """The study's conditions where a llama-server measures: no study mixes backends.

    Args:
        machine: machine that the server runs on.
        server: which binary, of which version.
        off: the target alone, with what all servers share.
        drafts: by name.
        sizes_bytes: sizes of all these models, by path.
        workload: prompts to decode.
    """
    spec = {
        **machine.conditions,
        "backend": "server",
        "server": server,
        "target": _served_identity(off.target, sizes_bytes),
        "drafts": {name: _served_identity(one, sizes_bytes) for name, one in drafts.items()},
        "context": conditions(off.context),
        "prompts": digest([item.tokens for item in workload.items]),
        "n_predict": workload.n_predict,
        "sampling": workload.sampling,
        "extra": off.extra,
        **({"n_slots": off.n_slots} if off.n_slots > 1 else {}),
    }
    return as_stored(spec)


def _served_identity(options: ModelOptions, sizes_bytes: Mapping[Path, int]) -> dict[str, Any]:
    file, placement = model_identity(options, sizes_bytes[options.path])
    return {**file, "placement": placement}


def study_name(target: Path, spec: dict[str, Any]) -> str:
    """Name that the same run finds again and another one does not; ``target`` is its file."""
    return f"{target.stem}-{spec_digest(spec)}"
