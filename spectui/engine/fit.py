"""Layers and experts by device, as llama-server's ``--fit`` chooses them where none are given.

llama.cpp chooses (``spectui.llama.fit``), in the process that plans; here it is put in words.
"""

from dataclasses import dataclass, replace

from spectui.engine.demand import devices_of
from spectui.engine.fitting import alone
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.format import bytes_text
from spectui.llama.buffers import HOST
from spectui.llama.planned import Fitting, PlanRequest
from spectui.options.setup import Fit, ModelOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The placement that ``--fit`` chooses."""

    target: ModelOptions
    """The target as it is loaded."""
    n_layers: int
    """Layers of the target, its output among them."""
    rooms: tuple[tuple[str, int], ...] = ()
    """Name of each device that is filled, and bytes that it may be filled with; empty where the
    placement stays as it was."""
    failure: str | None = None
    """Why nothing could be chosen: a server goes on with what it was given."""

    def beside(self, draft: ModelOptions) -> ModelOptions:
        """A draft as it is loaded."""
        return beside(self.target, draft)

    def on(self, request: PlanRequest) -> PlanRequest:
        """The request as it is loaded."""
        draft = None if request.draft is None else self.beside(request.draft)
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


def fitted(planner: Planner, request: PlanRequest, options: Fit | None) -> Fitted | None:
    """The choice of ``--fit`` for a request; None where there is nothing to choose.

    Beside an unusable draft it is what it would be without: who loads the draft says what is wrong.

    Raises:
        SpectuiError: as ``Planner.plan`` does, of the target.
    """
    devices = devices_of(request.target.devices, planner.gpus())
    if options is None or not devices:
        return None
    target = replace(request.target, fit=replace(options, is_open=False))
    request = replace(request, target=target)
    info = planner.plan(alone(request)).target.info
    try:
        found = planner.fit(request)
    except (BadInputError, DoesNotFitError, UsageError):
        if alone(request) == request:
            raise
        found = planner.fit(alone(request))
    is_moved = found.n_gpu_layers != target.n_gpu_layers
    rooms = ((one.title, one.free_bytes or 0) for one in devices)
    return Fitted(
        target=_placed(target, found, len(devices)) if is_moved else target,
        n_layers=info.n_layers + 1 + (info.mtp_layers if request.mtp else 0),
        rooms=tuple(
            (name, free - options.margin_bytes(device))
            for device, (name, free) in enumerate(rooms)
            if is_moved
        ),
        failure=found.failure,
    )


def _placed(target: ModelOptions, found: Fitting, n_devices: int) -> ModelOptions:
    split = found.split[:n_devices] if any(found.split) else ()
    return replace(
        target,
        n_gpu_layers=found.n_gpu_layers,
        devices=replace(target.devices, split=split),
        override_tensor=found.override_tensor,
    )
