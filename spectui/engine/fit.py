"""Layers and experts by device, as llama-server's ``--fit`` chooses them where none are given.

The algorithm is that of ``common_fit_params`` in llama.cpp's ``common/fit.cpp``, with its order of
trials and its rounding, so that both come to the same placement: shorten a context whose length is
open; else fill the devices from the last to the first with layers, whose experts stay in RAM; then
give the devices experts, from the first to the last, and each a part of one more layer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from spectui.engine.demand import devices_of
from spectui.engine.fitting import PlanCall, alone
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.format import bytes_text
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory
from spectui.llama.planned import CONTEXT_STEP, PlanRequest
from spectui.models.weights import EXPERTS_FFN
from spectui.options.setup import Fit, ModelOptions, SplitMode, TensorOverride

_ALL_BUT_ATTENTION = r"\.ffn_(up|gate|gate_up|down)"
_ALL_BUT_UP = r"\.ffn_(gate|gate_up|down)"
_ONLY_DOWN = r"\.ffn_down"
_EVERY_LAYER = r"blk\.\d+"
_UINT32 = 1 << 32
"""Llama.cpp counts layers in words of 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The placement that ``--fit`` chooses."""

    target: ModelOptions
    """The target as it is loaded."""
    ctx_size: int
    """Tokens of each slot."""
    n_layers: int
    """Layers of the target, its output among them."""
    rooms: tuple[tuple[str, int, int], ...] = ()
    """Name of each device that is filled, bytes that it may be filled with, and its layers; empty
    where the placement stays as it was."""
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
            return f"--fit chooses nothing, as in llama-server: {self.failure}"
        if not self.rooms:
            return None
        rooms = " and ".join(
            f"{bytes_text(max(room, 0))} on {name}" for name, room, _n in self.rooms
        )
        return f"fitted to {rooms}: {self.choice}"

    @property
    def choice(self) -> str:
        """Layers on the devices, and experts beside them."""
        layers = [n for _name, _room, n in self.rooms] or [self.n_layers]
        text = f"{sum(layers)} of {self.n_layers} layers"
        if len(layers) > 1:
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


def fitted(
    planner: Planner, request: PlanRequest, options: Fit | None, *, open_context: bool = False
) -> Fitted | None:
    """The choice of ``--fit`` for a request; None where there is nothing to choose.

    Beside an unusable draft it is what it would be without: who loads the draft says what is wrong.

    Raises:
        SpectuiError: as ``Planner.plan`` does, of the target.
    """
    gpus = planner.gpus()
    if options is None or not devices_of(request.target.devices, gpus):
        return None
    target = replace(request.target, fit=replace(options, is_open=False))
    request = replace(request, target=target)
    try:
        return fit(planner.plan, request, gpus, open_context=open_context)
    except (BadInputError, DoesNotFitError, UsageError):
        if alone(request) == request:
            raise
        return fit(planner.plan, alone(request), gpus, open_context=open_context)


def fit(
    plan: PlanCall,
    request: PlanRequest,
    present: Sequence[DeviceMemory],
    *,
    open_context: bool = False,
) -> Fitted:
    """Choose a placement where none is given, and the size of a context that is open.

    Args:
        plan: asked some ten to thirty times.
        request: target, with the options of its ``fit``, and what drafts beside it.
        present: devices with their free memory, one of which the target is put on.
        open_context: whether the context is as long as the target was trained for, or as memory
            allows; ``request`` does not tell its size then.

    Raises:
        SpectuiError: as ``plan`` does.
        ValueError: nothing of the placement is open.
    """
    if request.target.fit is None:
        raise ValueError("the placement is given")
    fitting = _Fitting(cache(plan), request, present, request.target.fit)
    return fitting.run(open_context=open_context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Layers of one device."""

    n_layers: int = 0
    n_partial: int = 0
    """The last of them, some tensors of which are elsewhere: experts, in RAM."""
    spilled: str = EXPERTS_FFN
    """Tensors of the first partial layer that are moved."""
    to: str = HOST
    """Buffer type for them."""

    @property
    def n_whole(self) -> int:
        return self.n_layers - self.n_partial


_Shares = tuple[_Share, ...]


def _grown(shares: _Shares, device: int, n_layers: int, n_partial: int = 0) -> _Shares:
    share = shares[device]
    n_layers, n_partial = share.n_layers + n_layers, share.n_partial + n_partial
    return _with(shares, device, replace(share, n_layers=n_layers, n_partial=n_partial))


def _with(shares: _Shares, device: int, share: _Share) -> _Shares:
    return (*shares[:device], share, *shares[device + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A placement, and what it takes."""

    shares: _Shares
    used: tuple[int, ...]
    """Bytes by device."""
    dense: int = 0
    """First device with partial layers that may become whole ones elsewhere."""


class _Fitting:
    """One run of the algorithm."""

    def __init__(
        self,
        plan: PlanCall,
        request: PlanRequest,
        present: Sequence[DeviceMemory],
        options: Fit,
    ) -> None:
        self._plan = plan
        self._request = request
        self._devices = devices_of(request.target.devices, present)
        self._min_ctx = options.min_ctx
        self._ctx_size = request.context.ctx_size
        free = [one.free_bytes or 0 for one in self._devices]
        self._targets = tuple(n - options.margin_bytes(device) for device, n in enumerate(free))
        draft = request.draft
        if draft is not None and not draft.devices.split:
            # Measured as if it were alone, though it is loaded behind the target.
            shares = [float(one.free_bytes or 0) for one in devices_of(draft.devices, present)]
            split = tuple(shares) if len(shares) > 1 else ()
            draft = replace(draft, devices=replace(draft.devices, split=split))
        self._draft = draft
        info = plan(alone(request)).target.info
        self._n_ctx_train = info.n_ctx_train
        self._is_moe = info.n_experts > 0
        self._n_layers = info.n_layers + 1 + (info.mtp_layers if request.mtp else 0)

    def run(self, *, open_context: bool) -> Fitted:
        """Take the first step that suffices."""
        if open_context:
            self._ctx_size = self._n_ctx_train
        target = self._request.target
        failure: str | None = None
        rooms: list[tuple[str, int, int]] = []
        used = self._used(target)
        fits = all(one <= room for one, room in zip(used, self._targets, strict=True))
        if not (fits or (open_context and self._shorten(sum(used)))):
            if len(used) > 1 and target.devices.split_mode is SplitMode.ROW:
                failure = "-sm row is given"
            else:
                shares = self._shares()
                target = self._placed(shares)
                for device, room, share in zip(self._devices, self._targets, shares, strict=True):
                    rooms.append((device.title, room, share.n_layers))
        return Fitted(
            target=target,
            ctx_size=self._ctx_size,
            n_layers=self._n_layers,
            rooms=tuple(rooms),
            failure=failure,
        )

    def _shares(self) -> _Shares:
        trial = self._with_layers()
        if self._is_moe and self._has_room_for_experts():
            trial = self._with_experts(trial)
        return trial.shares

    def _shorten(self, used: int) -> bool:
        """Shorten the context where that helps; tell whether nothing else needs to change."""
        longest, shortest = self._ctx_size, self._min_ctx
        room = sum(self._targets)
        if used <= room or longest <= shortest:
            return False
        n_devices = len(self._devices)
        if n_devices > 1:
            weights = sum(self._bytes(self._request.target, _is_weights))
            per_layer = weights // (self._n_layers - 1)
            # Only whole layers can be moved, or parts of layers.
            room -= (n_devices + 1) * per_layer // (6 if self._is_moe else 2)
        self._ctx_size = shortest
        least = sum(self._used(self._request.target))
        if room <= least:
            return False
        # Of all slots together, and divided again.
        n_slots = self._request.n_slots
        n = n_slots * shortest
        n += n_slots * (longest - shortest) * (room - least) // (used - least)
        self._ctx_size = max(n // (n_slots * CONTEXT_STEP) * CONTEXT_STEP, shortest)
        return n_devices <= 1

    def _has_room_for_experts(self) -> bool:
        """Whether something is left where all experts are in RAM."""
        every = TensorOverride(pattern=_EVERY_LAYER + EXPERTS_FFN, buffer=HOST)
        used = self._used(replace(self._request.target, override_tensor=(every,)))
        return sum(self._targets) > sum(used)

    def _with_layers(self) -> _Trial:
        """Fill the devices from the last to the first with layers, without experts."""
        last = len(self._devices) - 1
        trial = self._trial((_Share(),) * len(self._devices))
        for device in range(last, -1, -1):
            n_left = self._n_layers - sum(one.n_layers for one in trial.shares[device + 1 :])
            if n_left <= 0:
                continue
            # The output, which is the last layer, has no experts.
            n_partial = (n_left if device < last else n_left - 1) if self._is_moe else 0
            highest = _with(trial.shares, device, _Share(n_layers=n_left, n_partial=n_partial))
            high = self._trial(highest)

            def added(low: _Trial, n: int, device: int = device) -> _Trial:
                is_output = device == last and low.shares[device].n_partial == 0
                n_partial = (n - 1 if is_output else n) if self._is_moe else 0
                return self._trial(_grown(low.shares, device, n, n_partial))

            trial = self._between(trial, high, device, lambda share: share.n_layers, added)
        return trial

    def _with_experts(self, trial: _Trial) -> _Trial:
        """Make whole layers of partial ones, from the first device to the last."""
        last = dense = len(self._devices) - 1
        if not trial.shares[last].n_layers:
            return trial
        while dense > 0 and trial.shares[dense - 1].n_layers:
            dense -= 1
        trial = replace(trial, dense=dense)
        for device in range(last + 1):
            if device > trial.dense or trial.dense > last:
                break
            high = self._all_moved(trial, device)

            def moved(low: _Trial, n: int, device: int = device) -> _Trial:
                return self._moved(low, device, n)

            trial = self._between(trial, high, device, lambda share: share.n_whole, moved)
            trial = self._with_part(trial, device)
        return trial

    def _all_moved(self, trial: _Trial, device: int) -> _Trial:
        """All partial layers as whole ones on one device, but for the output on the last."""
        last = len(self._devices) - 1
        shares = trial.shares
        for source in range(trial.dense, last + 1):
            n = shares[source].n_layers - (source == last)
            shares = _grown(_grown(shares, device, n), source, -n)
            shares = _with(shares, source, replace(shares[source], n_partial=0))
        return self._trial(shares, dense=last)

    def _moved(self, trial: _Trial, device: int, n: int) -> _Trial:
        """``n`` partial layers as whole ones on one device."""
        shares, dense = trial.shares, trial.dense
        while dense < len(shares):
            n_here = min(n, shares[dense].n_partial)
            shares = _grown(_grown(shares, dense, -n_here, -n_here), device, n_here)
            n -= n_here
            if shares[dense].n_partial > 0:
                break
            dense += 1
        return self._trial(shares, dense=dense)

    def _with_part(self, trial: _Trial, device: int) -> _Trial:
        """A part of one more layer, the largest that fits; the rest goes to the next device."""
        last, dense = len(self._devices) - 1, trial.dense
        if dense > last or trial.shares[dense].n_layers <= (device == last):
            return trial
        shares = _grown(_grown(trial.shares, dense, -1, -1), device, 1, 1)
        if shares[dense].n_partial == 0:
            dense += 1
        to = self._devices[device + 1].name if device < last else HOST

        def part(spilled: str) -> _Trial | None:
            share = replace(shares[device], spilled=spilled, to=to)
            found = self._trial(_with(shares, device, share), dense=dense)
            filled = range(device, min(device + 2, last + 1))
            return found if all(found.used[i] < self._targets[i] for i in filled) else None

        with_up = part(_ALL_BUT_UP)
        if with_up is None:
            return part(_ALL_BUT_ATTENTION) or trial
        return part(_ONLY_DOWN) or with_up

    def _between(
        self,
        low: _Trial,
        high: _Trial,
        device: int,
        count: Callable[[_Share], int],
        added: Callable[[_Trial, int], _Trial],
    ) -> _Trial:
        """The last trial from ``low`` to ``high`` that the device has room for (regula falsi)."""
        room = self._targets[device]
        if high.used[device] <= room:
            return high
        while (delta := count(high.shares[device]) - count(low.shares[device])) > 1:
            taken, more = low.used[device], high.used[device] - low.used[device]
            step = _quotient(delta * (room - taken), more) % _UINT32
            trial = added(low, min(max(step, 1), delta - 1))
            if trial.used[device] <= room:
                low = trial
            else:
                high = trial
        return low

    def _trial(self, shares: _Shares, dense: int = 0) -> _Trial:
        return _Trial(shares=shares, used=self._used(self._placed(shares)), dense=dense)

    def _placed(self, shares: _Shares) -> ModelOptions:
        """The target with so many layers on each device."""
        n_layers = sum(one.n_layers for one in shares)
        layer, overrides = self._n_layers - n_layers, []
        for share in shares:
            layer += share.n_whole
            for partial in range(layer, layer + share.n_partial):
                is_first = partial == layer
                pattern = share.spilled if is_first else EXPERTS_FFN
                buffer = share.to if is_first else HOST
                overrides.append(TensorOverride(pattern=rf"blk\.{partial}{pattern}", buffer=buffer))
            layer += share.n_partial
        given = self._request.target
        split = tuple(float(one.n_layers) for one in shares) if n_layers and len(shares) > 1 else ()
        return replace(
            given,
            n_gpu_layers=n_layers,
            devices=replace(given.devices, split=split),
            override_tensor=tuple(overrides),
        )

    def _used(self, target: ModelOptions) -> tuple[int, ...]:
        """Bytes by device that a placement takes with all that is loaded beside it."""
        return self._bytes(target, lambda _buffer: True)

    def _bytes(self, target: ModelOptions, counts: Callable[[Buffer], bool]) -> tuple[int, ...]:
        context = replace(self._request.context, ctx_size=self._ctx_size)
        # A target that MTP layers of a file draft for keeps snapshots for them.
        beside = self._draft if self._request.mtp else None
        wanted = replace(self._request, target=target, draft=beside, context=context)
        plans = [self._plan(wanted).target]
        if self._draft is not None or self._request.mtp:
            # What drafts is where it would be with all layers on the devices. MTP layers of a
            # server have one output a slot.
            max_draft = 0 if self._request.mtp else self._request.max_draft
            drafting = replace(self._request, draft=self._draft, max_draft=max_draft)
            own = self._plan(replace(drafting, context=context)).draft
            plans += [] if own is None else [own]
        buffers = (one for plan in plans for one in (*plan.buffers, *plan.misplanned))
        return self._by_device(one for one in buffers if counts(one))

    def _by_device(self, buffers: Iterable[Buffer]) -> tuple[int, ...]:
        taken = Counter[str]()
        for one in buffers:
            if one.kind is not BufferKind.OUTPUT:
                taken[one.memory] += one.size_bytes
        return tuple(taken[one.name] for one in self._devices)


def _is_weights(buffer: Buffer) -> bool:
    return buffer.kind is BufferKind.WEIGHTS


def _quotient(dividend: int, divisor: int) -> int:
    """Division that rounds towards zero, as in C; zero by zero."""
    if not divisor:
        return 0
    whole = abs(dividend) // abs(divisor)
    return whole if (dividend < 0) == (divisor < 0) else -whole
