"""Memory that a pair would take. Pure: displaying or judging a plan needs no llama.cpp."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.format import bytes_text
from spectui.llama.buffers import HOST, Buffer, DeviceMemory
from spectui.llama.facts import LibraryFacts
from spectui.models.facts import ModelFacts, is_mtp_file
from spectui.models.weights import WeightTraffic
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, Setup
from spectui.speculative.models import Rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A target, and a draft beside it, as they would be loaded."""

    target: ModelOptions
    draft: ModelOptions | None = None
    mtp: bool = False
    """Whether MTP layers draft: those of ``draft`` or, without one, the target's own."""
    context: ContextOptions = field(default_factory=ContextOptions)
    """Options of both contexts; cache types are those of each model's own options."""
    max_draft: int = DraftSimple().draft_max
    """Longest draft: the target computes logits for it, and keeps snapshots where it can."""
    n_slots: int = 1
    """Slots of a llama-server with ``-np``, each with a context of that size."""

    @classmethod
    def of(cls, setup: Setup) -> "PlanRequest":
        """The request for all that a setup loads."""
        speculation = setup.speculation
        return cls(
            target=setup.target,
            draft=setup.used_draft,
            mtp=speculation is not None and speculation.is_mtp,
            context=setup.context,
            max_draft=1 if speculation is None else speculation.longest,
            n_slots=setup.n_slots,
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The target's file, and the draft's."""
        return (self.target.path, *(() if self.draft is None else (self.draft.path,)))

    @property
    def names(self) -> str:
        """The files in words."""
        return " with ".join(map(str, self.paths))

    def beside(self, draft: ModelOptions) -> "PlanRequest":
        """The same target with a draft, whose file tells whether it has MTP layers alone."""
        return replace(self, draft=draft, mtp=is_mtp_file(draft.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model with its context."""

    info: ModelFacts
    n_ctx: int
    """Tokens that the context would hold, as llama.cpp rounds what was asked for."""
    rollback: Rollback
    buffers: tuple[Buffer, ...]
    """Weights, caches and compute in bytes; a recurrent state is among the caches. The output is
    what llama.cpp's log tells, in hundredths of a MiB."""
    traffic: WeightTraffic
    """Bytes that its decodes read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Allocations of a ``PlanRequest``."""

    target: ModelPlan
    draft: ModelPlan | None
    """Or the MTP layers, with an output for each drafted token. Those of a llama-server have one
    for each slot, so that their compute buffer may be less by the logits of the others. The weights
    of a target's own are among the target's."""
    incompatibility: str | None
    """Why the draft cannot serve the target; None if it can, and without a draft."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers of both models."""
        return self.target.buffers + (self.draft.buffers if self.draft else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The llama.cpp that plans, and the GPUs that it sees."""

    llama_cpp_python: str
    """Version of the binding."""
    backends: tuple[str, ...]
    """Backends that the library was built with, such as ``cuda``, with or without a driver."""
    gpus: tuple[DeviceMemory, ...]
    library: Known[LibraryFacts]
    """The library of llama.cpp, or why there is none."""


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """Question for the ``Backend``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """Question for the placement that ``--fit`` chooses, by the ``fit`` of the target's options."""

    request: PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The placement that llama.cpp chooses."""

    target: ModelOptions
    """The target as it is loaded."""
    n_layers: int
    """Layers of the target, its output among them."""
    rooms: tuple[tuple[str, int], ...] = ()
    """Name of each device that is filled, and bytes that it may be filled with; empty where the
    placement stays as it was."""
    failure: str | None = None
    """Why nothing could be chosen: a server goes on with what it was given."""

    def on(self, request: PlanRequest) -> PlanRequest:
        """The request as it is loaded."""
        draft = None if request.draft is None else beside(self.target, request.draft)
        return replace(request, target=self.target, draft=draft)

    @property
    def sentence(self) -> str | None:
        """The choice in words; None where everything fits as it is."""
        if self.failure is not None:
            return f"--fit chooses nothing: {self.failure}"
        if not self.rooms:
            return None
        rooms = " and ".join(f"{bytes_text(max(room, 0))} on {name}" for name, room in self.rooms)
        return f"fitted to {rooms}: {self.choice}"

    @property
    def choice(self) -> str:
        """Layers on the devices, and experts beside them."""
        layers = list(map(int, self.target.devices.split))
        n_placed = self.target.n_gpu_layers if self.rooms else self.n_layers
        text = f"{n_placed} of {self.n_layers} layers"
        if self.rooms and layers:
            text += f" ({', '.join(map(str, layers))})"
        # The output is one of the layers, and has none.
        output = rf"blk\.{self.n_layers - 1}\."
        in_ram = [one for one in self.target.override_tensor if one.buffer == HOST]
        n = sum(not one.pattern.startswith(output) for one in in_ram)
        return f"{text}, experts of {n} in RAM" if n else text


def beside(target: ModelOptions, draft: ModelOptions) -> ModelOptions:
    """A draft as it is loaded beside a target that was fitted: they share one ``-ts``."""
    split = target.devices.split
    if target.fit is None or not split:
        return draft
    return replace(draft, devices=replace(draft.devices, split=split))


Question = BackendRequest | PlanRequest | FitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A question has no answer."""

    error: SpectuiError


Answer = Backend | Plan | Fitted | Refused


def is_lost_rpc_server(words: str) -> bool:
    """Whether llama.cpp's last words come from its RPC backend, which aborts on a lost server."""
    return "ggml-rpc" in words


CONTEXT_STEP = 256
"""Llama.cpp rounds contexts up to multiples of it."""
