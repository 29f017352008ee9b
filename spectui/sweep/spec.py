"""Specification of comparable cells, and the sweep name derived from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from spectui.gguf_names import series_of
from spectui.measure.comparable import spec_digest
from spectui.monitor.machine import Machine
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule
from spectui.paths import text_of
from spectui.prompts import Prompt

_OF_CELLS = ("cache_type_k", "cache_type_v")


def sweep_spec(
    *,
    machine: Machine,
    backend: Mapping[str, object],
    target: ModelOptions,
    drafts: Mapping[str, ModelOptions],
    context: ContextOptions,
    sampling: SamplingConfig,
    schedule: Schedule,
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """Everything that must be equal for two cells to be comparable; nothing is loaded.

    What is an axis of a grid is not of it, so that grids share the cells that they have in common.

    Args:
        machine: this one.
        backend: the backend and its versions.
        target: its file and placement.
        drafts: file and placement of each draft, by name.
        context: context of target and draft.
        sampling: sampling of the target.
        schedule: work per round.
        prompts: all prompts.
    """
    spec = {
        "machine": machine.fingerprint,
        "backend": dict(backend),
        "target": {key: value for key, value in _identity(target).items() if key not in _OF_CELLS},
        "drafts": {name: _identity(options) for name, options in drafts.items()},
        "context": {key: value for key, value in asdict(context).items() if key != "threads"},
        "sampling": {key: value for key, value in asdict(sampling).items() if key != "temp"},
        "schedule": schedule,
        "prompts": spec_digest({"prompts": list(prompts)}),
    }
    # Through JSON, as the file will give it back.
    return dict(json.loads(msgspec.json.encode(spec)))


def sweep_name(target: Path, spec: dict[str, Any]) -> str:
    """Name that depends on the specification alone, so that the same run finds its sweep again."""
    return f"{text_of(target.stem)}-{spec_digest(spec)}"


def _identity(options: ModelOptions) -> dict[str, Any]:
    """A model by its files' name and size, and its placement: it may move between folders."""
    placement = asdict(options)
    path: Path = placement.pop("path")
    parts = (path.with_name(name) for name in series_of(path.name).names)
    size_bytes = sum(part.stat().st_size for part in parts if part.exists())
    return {"file": text_of(path.name), "size_bytes": size_bytes, **placement}
