"""A sweep that is ready to begin: models, prompts, cells and their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from spectui.cli.given import Models, find_models
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress
from spectui.cli.served_session import check_schedule, wanted_binary
from spectui.cli.session import read_prompts
from spectui.cli.sweep_request import SweepRequest
from spectui.errors import UsageError
from spectui.llama.library import binding_version, buffer_types, llama_cpp_version
from spectui.measure.served_models import look_at
from spectui.monitor.machine import Machine, this_machine
from spectui.options.drafters import MODEL_KIND
from spectui.options.setup import ModelOptions
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary, identity_of
from spectui.sweep.expand import Expansion, expand
from spectui.sweep.order import Visit, ordered
from spectui.sweep.spec import sweep_name, sweep_spec
from spectui.sweep.store import sweep_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """A sweep that is ready to run, with its models, prompts and cells."""

    request: SweepRequest
    machine: Machine
    binary: ServerBinary | None
    """The llama-server that decodes; None for the engine."""
    target: ModelOptions
    drafts: Mapping[str, ModelOptions]
    prompts: Sequence[Prompt]
    expansion: Expansion
    visits: tuple[Visit, ...]
    spec: dict[str, Any]
    name: str

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences on parts of the grid that cannot run here."""
        return (*self.request.left_out, *self.expansion.left_out)

    @property
    def is_stored(self) -> bool:
        """Whether a sweep is stored under its name."""
        return (sweep_folder(self.name) / "cells.jsonl").exists()

    @property
    def longest(self) -> int:
        """Longest draft of all cells."""
        speculations = [visit.cell.speculation for visit in self.visits]
        return max((one.longest for one in speculations if one is not None), default=1)


def prepare(request: SweepRequest, progress: Progress) -> SweepRun:
    """Prepare a sweep. Nothing is loaded.

    Raises:
        BadInputError: a file is missing or malformed.
        ServerError: the binary is no llama-server.
        UsageError: options that contradict each other, or nothing would draft.
    """
    if request.is_server:
        check_schedule(request.shared)
    binary = wanted_binary(request.server_bin) if request.is_server else None
    shared = with_preset_models(request.shared, most_drafts=None if request.takes_models else 0)
    if shared.model_draft and not request.takes_models:
        raise UsageError(
            f"-md names a draft, and no cell drafts with one: add --spec-type {MODEL_KIND}, or "
            "leave out -md"
        )
    models = find_models(
        shared, progress, needs_draft=request.takes_models, reads_headers=binary is None
    )
    for refused in models.refused:
        progress.say(f"left out {refused.name}: {refused.reason}")
    target = shared.target_options(models.target)
    drafts = _drafts(request, models)
    prompts = read_prompts(shared)[: request.n_prompts]
    expansion = _expanded(request, drafts, is_served=binary is not None)
    machine = this_machine()
    spec = sweep_spec(
        machine=machine,
        backend=_identity(binary, request.extra),
        target=target,
        drafts=drafts,
        context=shared.context_options(),
        sampling=shared.sampling_config(),
        schedule=shared.schedule_kind(),
        prompts=prompts,
    )
    cells = [one.cell for one in expansion.cells]
    return SweepRun(
        request=request,
        machine=machine,
        binary=binary,
        target=target,
        drafts=drafts,
        prompts=prompts,
        expansion=expansion,
        visits=ordered(cells, request.repeats, shared.seed),
        spec=spec,
        name=request.name or sweep_name(models.target, spec),
    )


def _drafts(request: SweepRequest, models: Models) -> dict[str, ModelOptions]:
    if not request.takes_models:
        return {}
    return {name: request.shared.draft_options(path) for name, path in models.drafts.items()}


def _expanded(
    request: SweepRequest, drafts: Mapping[str, ModelOptions], *, is_served: bool
) -> Expansion:
    defaults = request.defaults
    if is_served:
        readers = {name: look_at(options).reader for name, options in drafts.items()}
        defaults = replace(defaults, readers=readers)
    expansion = expand(request.grid.cells, tuple(drafts), defaults)
    if all(one.cell.arm.is_off for one in expansion.cells):
        why = f" ({'; '.join(expansion.left_out)})" if expansion.left_out else ""
        raise UsageError(f"nobody would draft in any cell{why}; give other axes")
    return expansion


def _identity(binary: ServerBinary | None, extra: Sequence[str]) -> dict[str, object]:
    """Identity of the backend: numbers of different identities are not comparable."""
    if binary is None:
        versions = [binding_version(), llama_cpp_version(), *sorted(buffer_types())]
        return {"name": "engine", "llama.cpp": versions}
    version = binary.version
    return {
        "name": "server",
        "path": binary.path,
        "version": None if version is None else version.text,
        # It may be built anew under the same version, for another machine.
        "build": msgspec.to_builtins(identity_of(Path(binary.path))),
        **({"extra": list(extra)} if extra else {}),
    }
