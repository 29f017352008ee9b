"""The grid of a sweep: its cells, the order of measuring them, and when they are comparable."""

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from spectui.documents import Json
from spectui.errors import UsageError
from spectui.llama.devices import buffer_types
from spectui.llama.library import binding_version
from spectui.llama.native import library_facts
from spectui.measure.arm import Arm
from spectui.measure.backend import ENGINE
from spectui.measure.comparable import as_stored, conditions, model_identity, spec_digest
from spectui.measure.servers import size_bytes, version_document
from spectui.monitor.machine import Machine
from spectui.options.drafters import FILE_KINDS, MODEL_KIND, MTP_KIND, drafter_class, numbers_of
from spectui.options.setup import ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import speculation_of
from spectui.paths import text_of
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary, identity_of
from spectui.sweep.cells import Cell, Place, Task, Visit, coordinates

_IN_CELLS = ("cache_type_k", "cache_type_v")
"""Fields of the target that every cell sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Lists of values; an empty one leaves what the cells have in common."""

    drafters: tuple[tuple[str, ...], ...] = ()
    """Alternatives, each the kinds that are asked in turn; empty for each draft as its file is."""
    numbers: Mapping[str, tuple[float, ...]]
    """Values of every drafter's numbers, by ``Number.parameter``."""
    threads: tuple[int, ...] = ()
    n_slots: tuple[int, ...] = ()
    prompt_length: tuple[int, ...] = ()
    temp: tuple[float, ...] = ()

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """The drafters of each alternative."""
        return self.drafters or ((MODEL_KIND,),)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of all drafters."""
        return frozenset(kind for kinds in self.alternatives for kind in kinds)


def expand(
    axes: Axes, drafts: Mapping[str, str], place: Place, task: Task
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """List every combination.

    Args:
        axes: lists of values.
        drafts: kinds of the given drafts by name, in their order.
        place: values of cells for axes without a list.
        task: as ``place``.

    Returns:
        The cells, and a sentence for every impossible combination.
    """
    left_out: dict[str, None] = {}
    arms = [arm for kinds in axes.alternatives for arm in _arms(axes, kinds, drafts, left_out)]
    places = product(axes.threads or (place.threads,), axes.n_slots or (place.n_slots,))
    lengths = axes.prompt_length or (task.prompt_length,)
    tasks = product(lengths, axes.temp or (task.temp,))
    cells = (
        Cell(
            arm=arm,
            place=replace(place, threads=threads, n_slots=n_slots),
            task=replace(task, prompt_length=length, temp=temp),
        )
        for (threads, n_slots), (length, temp), arm in product(list(places), list(tasks), arms)
    )
    return tuple(dict.fromkeys(cells)), tuple(left_out)


def _arms(
    axes: Axes, kinds: Collection[str], drafts: Mapping[str, str], left_out: dict[str, None]
) -> Iterator[Arm]:
    """The settings of one alternative; adds what cannot draft to ``left_out``."""
    model = next((kind for kind in kinds if kind in {*FILE_KINDS, MTP_KIND}), None)
    for draft, kind in _drafting(axes, model, drafts, left_out):
        own = [one if one != model or kind is None else kind for one in kinds]
        names = [number.parameter for one in own for number in numbers_of(drafter_class(one))]
        for values in product(*(axes.numbers[name] for name in names)):
            try:
                speculation = speculation_of(own, dict(zip(names, values, strict=True)))
            except UsageError as error:
                left_out[str(error).partition(";")[0]] = None
            else:
                yield Arm(draft=draft, speculation=speculation)


def _drafting(
    axes: Axes, model: str | None, drafts: Mapping[str, str], left_out: dict[str, None]
) -> Iterator[tuple[str | None, str | None]]:
    """Names and kinds of the models that draft as the kind ``model``; None where none does."""
    if model is None:
        yield None, None
    elif model == MTP_KIND and MTP_KIND not in drafts.values():
        yield MTP_KIND, MTP_KIND
    else:
        for name, kind in drafts.items():
            if axes.drafters and kind != model:
                left_out[f"{name} drafts as {kind}, and not as {model}"] = None
            else:
                yield name, kind


def ordered(cells: Iterable[Cell], repeats: int, seed: int) -> tuple[Visit, ...]:
    """Visit every cell once per repeat; the same cells and seed give the same order.

    Each repeat is a pass of its own over all cells. Within it, cells of one place stand together,
    since another place costs a load of the target, and within those the cells of one draft. The
    order of the places, of the drafts and of the cells is random. Cells that need no draft model
    are spread over the drafts at random, so that no drafter is measured earlier than another on
    the average.
    """
    visits: list[Visit] = []
    unique = sorted(dict.fromkeys(cells), key=lambda cell: repr(coordinates(cell)))
    models = sorted({cell.arm.draft for cell in unique if cell.arm.draft is not None}) or [""]
    for repeat in range(repeats):
        chance = random.Random(f"{seed}/{repeat}")  # noqa: S311 - an order is no secret
        ranks: dict[object, float] = defaultdict(chance.random)
        keys = {
            cell: (
                ranks[cell.place],
                ranks[cell.place, cell.arm.draft or chance.choice(models)],
                chance.random(),
            )
            for cell in unique
        }
        visits += [Visit(cell=cell, repeat=repeat) for cell in sorted(unique, key=keys.__getitem__)]
    return tuple(visits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSetup:
    """A grid, and what its cells have in common."""

    axes: Axes
    place: Place
    """Values of cells for axes without a list."""
    task: Task
    """As ``place``."""
    base: Setup
    """The target alone; each cell sets the types of its cache, and the threads."""
    drafts: Mapping[str, ModelOptions]
    """Drafts by their names in cells."""
    sampling: SamplingConfig
    """Each cell sets the temperature."""
    prompts: Sequence[Prompt]
    """Prompts of every cell."""
    machine: Machine
    binary: ServerBinary | None = None
    """The llama-server that decodes; None for the engine."""
    repeats: int = 1
    name: str | None = None
    """Name under which it is stored; None for one that follows from the conditions."""
    say: Callable[[str], None] = lambda _text: None
    """Called with a sentence on prompts that are left out, or on what is put aside."""

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

    Axes are not part of it, so that grids share the cells that they have in common.

    Args:
        setup: of the sweep.
        backend: ``backend_identity``.
    """
    target, context, sampling = setup.base.target, setup.base.context, setup.sampling
    spec = {
        **setup.machine.conditions,
        "backend": backend,
        "target": {key: value for key, value in _identity(target).items() if key not in _IN_CELLS},
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
