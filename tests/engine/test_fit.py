"""What fits in memory, and what ``--fit`` chooses: on plans by arithmetic, beside the server."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.demand import (
    MARGIN_BYTES,
    Demand,
    FreeMemory,
    can_load,
    demands,
    reads_from_disk,
)
from spectui.engine.fitting import expert_overrides, largest_context, smallest_n_cpu_moe
from spectui.engine.planning import fitted
from spectui.errors import BadInputError
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory, devices_of
from spectui.llama.planned import CONTEXT_STEP, Fitted, Plan, PlanRequest, beside
from spectui.options.setup import (
    ContextOptions,
    Devices,
    Fit,
    ModelOptions,
    SplitMode,
    TensorOverride,
)
from tests.support.fit import engine_chooses, server_chooses, small_devices
from tests.support.models import CLOSE_DRAFT, Tiny, TinyPath
from tests.support.plans import BAD, REQUEST, Script, buffer, room
from tests.support.rpc import RpcBuild

pytest_plugins = ["tests.support.fixtures"]

NO_MARGIN = Fit(targets_mib=(0,))
TARGET = ModelOptions(path=Path("target.gguf"), fit=NO_MARGIN)
DRAFT = ModelOptions(path=Path("draft.gguf"))


class Chooser(Script):
    """A planner by arithmetic whose llama.cpp chooses what a test says."""

    def __init__(self, found: Fitted, *free: int) -> None:
        super().__init__()
        self.found, self._gpus = found, gpus(*free)
        self.fitted: list[PlanRequest] = []

    plan = Script.__call__

    def gpus(self) -> tuple[DeviceMemory, ...]:
        return self._gpus

    def fit(self, request: PlanRequest) -> Fitted:
        self.fitted.append(request)
        if request.draft == BAD:
            raise BadInputError("bad.gguf is no model")
        return self.found


def gpus(*free: int) -> tuple[DeviceMemory, ...]:
    return tuple(
        DeviceMemory(name=f"CUDA{n}", description="a GPU", free_bytes=size, total_bytes=size)
        for n, size in enumerate(free)
    )


PLACED = PlanRequest(target=TARGET)
IN_RAM = tuple(
    TensorOverride(pattern=rf"blk\.{n}\.ffn_(up|down|gate_up|gate)_(ch|)exps", buffer=HOST)
    for n in (3, 4, 10)
)
ROOMS = (("CUDA0", 150), ("CUDA1", 150))
MOVED = Fitted(
    target=replace(
        TARGET, n_gpu_layers=11, devices=Devices(split=(2.0, 9.0)), override_tensor=IN_RAM
    ),
    n_layers=11,
    rooms=ROOMS,
)


def test_the_choice_is_said_in_one_sentence() -> None:
    # The output, which is the last layer, has no experts.
    assert MOVED.sentence == (
        "fitted to 150 B on CUDA0 and 150 B on CUDA1: 11 of 11 layers (2, 9), experts of 2 in RAM"
    )
    assert beside(MOVED.target, DRAFT).devices.split == (2.0, 9.0)
    one = Fitted(target=replace(TARGET, n_gpu_layers=7), n_layers=11, rooms=ROOMS[:1])
    assert one.sentence == "fitted to 150 B on CUDA0: 7 of 11 layers"
    # Everything fits as it is.
    found = Fitted(target=TARGET, n_layers=11)
    assert (found.sentence, found.choice) == (None, "11 of 11 layers")
    failed = Fitted(target=TARGET, n_layers=11, failure="it cannot")
    assert failed.sentence == "--fit chooses nothing: it cannot"


def test_nothing_is_chosen_without_a_device_and_an_unusable_draft_counts_for_nothing() -> None:
    for options, free in ((None, (150,)), (NO_MARGIN, ())):
        assert fitted(Chooser(MOVED, *free), PLACED, options) is None  # type: ignore[arg-type] # as a Planner
    planner = Chooser(MOVED, 150, 150)
    request = replace(PLACED, draft=BAD)
    assert fitted(planner, request, NO_MARGIN) is MOVED  # type: ignore[arg-type] # as a Planner
    assert [one.draft for one in planner.fitted] == [BAD, None]


def test_devices_are_those_that_are_named_in_their_order() -> None:
    rpc = DeviceMemory(
        name="RPC0[host:1]", description="", free_bytes=1, total_bytes=1, device="RPC1"
    )
    present = (rpc, *gpus(1, 2))
    first, second = present[1:]
    assert devices_of(Devices(), present) == present
    assert devices_of(Devices(names=("CUDA1", "RPC1", "CUDA7")), present) == (second, rpc)
    assert devices_of(Devices(names=()), present) == ()
    assert devices_of(Devices(split_mode=SplitMode.NONE, main=1), present) == (first,)


# Demands, and what is searched by them


def with_context(ctx_size: int) -> PlanRequest:
    return replace(REQUEST, context=ContextOptions(ctx_size=ctx_size))


def n_cpu_moe(n_layers: int) -> PlanRequest:
    return replace(REQUEST, target=replace(REQUEST.target, n_cpu_moe=n_layers))


def test_demands_are_by_memory_with_the_hosts_last() -> None:
    gpu, unused, host = demands(Script()(with_context(256)), room(CUDA0=2000, CUDA1=7, CPU=100))
    assert (gpu.memory, gpu.allocated_bytes, gpu.mapped_bytes) == ("CUDA0", 1306, 0)
    assert (gpu.free_bytes, gpu.left_bytes, gpu.margin_bytes) == (2000, 694, MARGIN_BYTES)
    assert (unused.memory, unused.allocated_bytes, unused.free_bytes) == ("CUDA1", 0, 7)
    # Pinned for a GPU, and the host's all the same.
    assert host == Demand(memory=HOST, allocated_bytes=3, mapped_bytes=0, free_bytes=100)
    # Nothing is too large where nobody knows what is free.
    for free, loads in ((FreeMemory(), True), (room(CUDA0=5145), False), (room(CUDA0=5146), True)):
        assert can_load(Script()(REQUEST), free) is loads


def test_what_loads_without_room() -> None:
    for allocated, mapped, fits, loads in (
        (10, 90, True, True),
        # Mapped weights load without room.
        (10, 91, False, True),
        (10, 10_000, False, True),
        (101, 0, False, False),
        (101, 50, False, False),
    ):
        demand = Demand(memory=HOST, allocated_bytes=allocated, mapped_bytes=mapped, free_bytes=100)
        assert (demand.fits, demand.can_load) == (fits, loads)


@given(free_bytes=st.integers(0, 6000), n_ctx_train=st.integers(1, 5000))
def test_the_largest_context_is_the_largest(free_bytes: int, n_ctx_train: int) -> None:
    script = Script(n_ctx_train=n_ctx_train)
    sizes = range(CONTEXT_STEP, max(n_ctx_train, CONTEXT_STEP) + 1, CONTEXT_STEP)
    rooms = {n: can_load(script(with_context(n)), room(CUDA0=free_bytes)) for n in sizes}
    expected = max((n for n, has_room in rooms.items() if has_room), default=None)
    # The margin is left beside it, and a GPU that is not used needs none.
    free = room(CUDA0=free_bytes + MARGIN_BYTES, CUDA1=0)
    assert largest_context(script, REQUEST, free) == expected


@given(gpu_bytes=st.integers(0, 6000), host_bytes=st.integers(0, 1500), mmap=st.booleans())
def test_as_few_experts_as_possible_stay_in_ram(
    gpu_bytes: int, host_bytes: int, *, mmap: bool
) -> None:
    script = Script(mmap=mmap)
    plans = (script(n_cpu_moe(n)) for n in range(script.n_layers + 1))
    free = room(CUDA0=gpu_bytes, CPU=host_bytes)
    expected = next((n for n, plan in enumerate(plans) if can_load(plan, free)), None)
    with_margin = room(CUDA0=gpu_bytes + MARGIN_BYTES, CPU=host_bytes)
    assert smallest_n_cpu_moe(script, REQUEST, with_margin) == expected


def test_every_gpu_keeps_the_margin_of_its_own() -> None:
    # One margin is for all.
    for mib, expected in (((), (1024, 1024, 1024)), ((7,), (7, 7, 7)), ((7, 9), (7, 9, 1024))):
        wanted = Fit(targets_mib=mib) if mib else Fit()
        assert tuple(wanted.margin_bytes(n) >> 20 for n in range(3)) == expected
    placed = Devices(names=("CUDA1", "CUDA0"))
    free = room(CUDA0=3 << 20, CUDA1=1 << 40, CPU=100)
    kept = free.with_margins(Fit(targets_mib=(7, 2)), placed, gpus(1, 1, 1))
    assert kept.margins == {"CUDA1": 7 << 20, "CUDA0": 2 << 20}
    # Of three MiB one is left, and a token of the context takes one byte.
    script = Script(n_ctx_train=1 << 24, n_layers=0)
    assert largest_context(script, REQUEST, free) is None
    assert largest_context(script, REQUEST, kept) == (1 << 20) - CONTEXT_STEP
    full = with_context(2 << 20)
    found = {one.memory: one for one in demands(script(full), kept)}
    margins = {name: one.margin_bytes for name, one in found.items()}
    assert margins == {"CUDA0": 2 << 20, "CUDA1": 7 << 20, HOST: 0}


def test_weights_that_ram_never_holds_do_not_bound_the_context() -> None:
    script = Script(mmap=True)
    request = n_cpu_moe(10)
    # 1000 bytes of experts are mapped, and RAM holds the 3 of the output alone.
    assert largest_context(script, request, room(CPU=3)) == 4096
    assert largest_context(script, request, room(CPU=2)) is None
    assert largest_context(Script(mmap=False), request, room(CPU=3)) is None
    # What cannot be planned does not fit.
    assert largest_context(Script(largest=1100), REQUEST, FreeMemory()) == 1024


def test_experts_are_searched_without_what_the_request_says_of_them() -> None:
    experts, rest = (TensorOverride(pattern=p, buffer="CPU") for p in ("ffn_.*_exps", "attn"))
    target = replace(REQUEST.target, override_tensor=(experts, rest), cpu_moe=True, n_cpu_moe=9)
    script = Script()
    request = PlanRequest(target=target)
    assert smallest_n_cpu_moe(script, request, FreeMemory()) == 0
    assert script.asked[-1].target.override_tensor == (rest,)
    assert not any(asked.target.cpu_moe for asked in script.asked if asked != request)
    assert expert_overrides(target) == (experts,)
    # Where there are none on a GPU, none are moved.
    in_ram = PlanRequest(target=replace(REQUEST.target, n_gpu_layers=0))
    assert smallest_n_cpu_moe(Script(), in_ram, FreeMemory()) is None
    assert smallest_n_cpu_moe(Script(n_experts=0), REQUEST, room(CUDA0=0)) is None


# Several GPUs, and those that compute in RAM


def on_devices(*buffers: Buffer) -> Plan:
    return Plan(target=Script()._plan(*buffers), draft=None, incompatibility=None)


def test_every_gpu_has_to_hold_its_own_part() -> None:
    plan = on_devices(
        buffer("CUDA0", BufferKind.WEIGHTS, 700),
        buffer("CUDA1", BufferKind.WEIGHTS, 300),
        buffer("CUDA0", BufferKind.COMPUTE, 50),
        buffer("CUDA1", BufferKind.KV, 60),
        buffer("CPU_Mapped", BufferKind.WEIGHTS, 20),
    )
    found = demands(plan, room(CUDA0=750, CUDA1=360, CPU=20))
    assert [(one.memory, one.allocated_bytes, one.left_bytes) for one in found] == [
        ("CUDA0", 750, 0),
        ("CUDA1", 360, 0),
        (HOST, 0, 0),
    ]
    # What one has too much is of no use to the other.
    for first, second, loads in ((750, 360, True), (10_000, 359, False), (749, 10_000, False)):
        assert can_load(plan, room(CUDA0=first, CUDA1=second)) is loads


def growing(**bytes_per_token: int) -> Callable[[PlanRequest], Plan]:
    """Plans of caches alone."""

    def plan(request: PlanRequest) -> Plan:
        n_ctx = request.context.ctx_size
        sizes = bytes_per_token.items()
        return on_devices(*(buffer(name, BufferKind.KV, n * n_ctx) for name, n in sizes))

    return plan


def test_the_fuller_of_two_gpus_bounds_the_context() -> None:
    plan = growing(CUDA0=1, CUDA1=2)
    free = room(CUDA0=MARGIN_BYTES + 4096, CUDA1=MARGIN_BYTES + 4096)
    assert largest_context(plan, REQUEST, free) == 2048
    assert largest_context(plan, REQUEST, room(CUDA0=MARGIN_BYTES + 512, CUDA1=1 << 40)) == 512
    # A memory that the host shares is there once.
    assert largest_context(growing(Vulkan0=1), REQUEST, in_ram(CPU=1100)) == 1024
    assert largest_context(growing(Vulkan0=1), REQUEST, room(CPU=1100)) == 4096


def in_ram(**by_memory: int) -> FreeMemory:
    return FreeMemory(by_memory=by_memory, in_ram=frozenset({"Vulkan0"}))


UNIFIED = on_devices(
    buffer("Vulkan0", BufferKind.WEIGHTS, 600),
    buffer("Vulkan0", BufferKind.KV, 100),
    buffer("CPU", BufferKind.OUTPUT, 30),
    buffer("CPU_Mapped", BufferKind.WEIGHTS, 50),
)


def test_a_gpu_without_a_memory_of_its_own_takes_the_hosts() -> None:
    gpu, host = demands(UNIFIED, in_ram(Vulkan0=800, CPU=1000))
    assert (gpu.memory, gpu.allocated_bytes, gpu.left_bytes) == ("Vulkan0", 700, 100)
    assert (host.memory, host.allocated_bytes, host.mapped_bytes) == (HOST, 730, 50)
    assert (host.left_bytes, host.includes) == (220, ("Vulkan0",))
    # The same bytes twice would leave nothing; those of the other kind of GPU are its own.
    assert demands(UNIFIED, room(Vulkan0=800, CPU=1000))[1].left_bytes == 920


def test_either_bound_of_a_shared_memory_can_be_the_smaller() -> None:
    assert can_load(UNIFIED, in_ram(Vulkan0=700, CPU=730))
    assert not can_load(UNIFIED, in_ram(Vulkan0=700, CPU=729))
    # A driver may lend a part of the RAM only.
    assert not can_load(UNIFIED, in_ram(Vulkan0=699, CPU=10_000))
    assert reads_from_disk(UNIFIED, in_ram(Vulkan0=700, CPU=779))
    assert not reads_from_disk(UNIFIED, in_ram(Vulkan0=700, CPU=780))
    (shortage,) = [one.shortage for one in demands(UNIFIED, in_ram(CPU=0)) if one.shortage]
    assert shortage == (
        "RAM (with Vulkan0) has no room: 730 B are needed (beside 50 B of mapped weights), 0 B are "
        "free"
    )


# Beside the real server


@dataclass(frozen=True, kw_only=True)
class Case:
    """A tiny model on devices that are too small for it."""

    n_experts: int = 0
    device_bytes: tuple[int, ...]
    has_draft: bool = False
    ctx_size: int = 4096
    n_slots: int = 1


@pytest.mark.long
@pytest.mark.server
@pytest.mark.models
@pytest.mark.parametrize(
    "case",
    [
        Case(device_bytes=(8_000_000,)),
        Case(n_experts=8, device_bytes=(13_000_000,), has_draft=True),
        Case(n_experts=8, device_bytes=(8_000_000, 9_000_000)),
        Case(device_bytes=(12_000_000,), has_draft=True, ctx_size=12288, n_slots=3),
    ],
    ids=str,
)
def test_the_choice_is_the_real_servers(
    tiny: TinyPath, tmp_path: Path, rpc: RpcBuild, case: Case
) -> None:
    path, draft_path = tiny(Tiny(n_layers=12, n_experts=case.n_experts)), tiny(CLOSE_DRAFT)
    arguments = ["-m", str(path), "-t", "1", "-fitt", "0", "-c", str(case.ctx_size)]
    arguments += ["-md", str(draft_path), "--spec-draft-n-max", "8"] if case.has_draft else []
    with small_devices(rpc, case.device_bytes) as endpoints:
        devices = Devices(rpc=endpoints)
        draft = ModelOptions(path=draft_path, devices=devices)
        request = PlanRequest(
            target=ModelOptions(path=path, devices=devices, fit=NO_MARGIN),
            draft=draft if case.has_draft else None,
            context=ContextOptions(ctx_size=case.ctx_size // case.n_slots, threads=1),
            max_draft=8 if case.has_draft else 0,
            n_slots=case.n_slots,
        )
        found, ours = engine_chooses(request)
        binary = rpc.llama_server(tmp_path)
        theirs = server_chooses(binary, arguments, endpoints, n_slots=case.n_slots)
    assert ours == theirs
    assert found.target != request.target
