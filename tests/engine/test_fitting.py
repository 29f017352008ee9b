"""What fits in memory, on plans that are made up."""

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
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory
from spectui.llama.planned import CONTEXT_STEP, Plan, PlanRequest
from spectui.options.setup import ContextOptions, Devices, Fit, ModelOptions, TensorOverride
from tests.support.plans import REQUEST, Script, buffer, room


def test_demands_are_by_memory_with_the_hosts_last() -> None:
    plan = Script()(with_context(256))
    gpu, host = demands(plan, room(CUDA0=2000, CPU=100))
    assert gpu == Demand(
        memory="CUDA0",
        allocated_bytes=1306,
        mapped_bytes=0,
        free_bytes=2000,
        margin_bytes=MARGIN_BYTES,
    )
    assert gpu.left_bytes == 694
    # Pinned for a GPU, and the host's all the same.
    assert host == Demand(memory=HOST, allocated_bytes=3, mapped_bytes=0, free_bytes=100)


def test_what_is_free_and_unused_is_shown_too() -> None:
    found = demands(Script()(REQUEST), room(CUDA1=7, CPU=9))
    assert [(one.memory, one.free_bytes) for one in found] == [
        ("CUDA0", None),
        ("CUDA1", 7),
        (HOST, 9),
    ]


def test_nothing_is_too_large_where_nobody_knows_what_is_free() -> None:
    assert can_load(Script()(REQUEST), FreeMemory())
    assert not can_load(Script()(REQUEST), room(CUDA0=5145))
    assert can_load(Script()(REQUEST), room(CUDA0=5146))


@pytest.mark.parametrize(
    ("mapped_bytes", "fits", "loads"),
    [(90, True, True), (91, False, True), (10_000, False, True)],
)
def test_mapped_weights_load_without_room(mapped_bytes: int, *, fits: bool, loads: bool) -> None:
    demand = Demand(memory=HOST, allocated_bytes=10, mapped_bytes=mapped_bytes, free_bytes=100)
    assert (demand.fits, demand.can_load) == (fits, loads)


def test_what_is_allocated_does_not_load_without_room() -> None:
    demand = Demand(memory=HOST, allocated_bytes=101, mapped_bytes=0, free_bytes=100)
    assert (demand.fits, demand.can_load) == (False, False)


def with_context(ctx_size: int) -> PlanRequest:
    return PlanRequest(target=REQUEST.target, context=ContextOptions(ctx_size=ctx_size))


@given(free_bytes=st.integers(0, 6000), n_ctx_train=st.integers(1, 5000))
def test_the_largest_context_is_the_largest(free_bytes: int, n_ctx_train: int) -> None:
    script = Script(n_ctx_train=n_ctx_train)
    sizes = range(CONTEXT_STEP, max(n_ctx_train, CONTEXT_STEP) + 1, CONTEXT_STEP)
    rooms = {n: can_load(script(with_context(n)), room(CUDA0=free_bytes)) for n in sizes}
    expected = max((n for n, has_room in rooms.items() if has_room), default=None)
    asked: set[int] = set()

    def plan(request: PlanRequest) -> Plan:
        asked.add(request.context.ctx_size)
        return script(request)

    # The margin is left beside it, and a GPU that is not used needs none.
    free = room(CUDA0=free_bytes + MARGIN_BYTES, CUDA1=0)
    assert largest_context(plan, REQUEST, free) == expected
    # The smallest, what is asked for, the guess, and what is next to it.
    assert len(asked) <= 4


def test_a_context_that_cannot_be_planned_does_not_fit() -> None:
    assert largest_context(Script(largest=1100), REQUEST, FreeMemory()) == 1024
    assert largest_context(Script(), REQUEST, FreeMemory()) == 4096


@given(gpu_bytes=st.integers(0, 6000), host_bytes=st.integers(0, 1500), mmap=st.booleans())
def test_as_few_experts_as_possible_stay_in_ram(
    gpu_bytes: int, host_bytes: int, *, mmap: bool
) -> None:
    script = Script(mmap=mmap)
    plans = (script(n_cpu_moe(n)) for n in range(script.n_layers + 1))
    free = room(CUDA0=gpu_bytes, CPU=host_bytes)
    expected = next((n for n, plan in enumerate(plans) if can_load(plan, free)), None)
    with_margin = room(CUDA0=gpu_bytes + MARGIN_BYTES, CPU=host_bytes)
    script.asked.clear()
    assert smallest_n_cpu_moe(script, REQUEST, with_margin) == expected
    # What is asked for, the guess, and what is next to it. Each may be a header that is read anew.
    assert len(set(script.asked)) <= 3


def test_a_gpu_with_less_than_the_margin_left_is_tight() -> None:
    def on(memory: str, left_bytes: int) -> Demand:
        plan = Script(mmap=False)(n_cpu_moe(5))
        taken = sum(one.size_bytes for one in plan.buffers if one.memory == memory)
        found = demands(plan, room(**{memory: taken + left_bytes}))
        return next(one for one in found if one.memory == memory)

    assert on("CUDA0", 0).is_tight
    assert on("CUDA0", MARGIN_BYTES - 1).is_tight
    assert not on("CUDA0", MARGIN_BYTES).is_tight
    assert not on("CUDA0", -1).is_tight
    assert not on(HOST, 0).is_tight


def test_every_gpu_keeps_the_margin_of_its_own() -> None:
    gpus = tuple(
        DeviceMemory(name=name, description="a GPU", free_bytes=1, total_bytes=1)
        for name in ("CUDA0", "CUDA1", "CUDA2")
    )
    placed = Devices(names=("CUDA1", "CUDA0"))
    free = room(CUDA0=3 << 20, CUDA1=1 << 40, CPU=100)
    kept = free.with_margins(Fit(targets_mib=(7, 2)), placed, gpus)
    assert kept.margins == {"CUDA1": 7 << 20, "CUDA0": 2 << 20}
    # Of three MiB one is left, and a token of the context takes one byte.
    script = Script(n_ctx_train=1 << 24, n_layers=0)
    assert largest_context(script, REQUEST, free) is None
    assert largest_context(script, REQUEST, kept) == (1 << 20) - CONTEXT_STEP
    full = with_context(2 << 20)
    found = {one.memory: one for one in demands(script(full), kept)}
    margins = {name: one.margin_bytes for name, one in found.items()}
    assert margins == {"CUDA0": 2 << 20, "CUDA1": 7 << 20, HOST: 0}
    assert "below 2.1 MB the driver" in (found["CUDA0"].tightness or "")


def test_weights_that_ram_never_holds_do_not_bound_the_context() -> None:
    script = Script(mmap=True)
    request = n_cpu_moe(10)
    # 1000 bytes of experts are mapped, and RAM holds the 3 of the output alone.
    assert largest_context(script, request, room(CPU=3)) == 4096
    assert largest_context(script, request, room(CPU=2)) is None
    assert largest_context(Script(mmap=False), request, room(CPU=3)) is None


def test_overrides_that_place_experts_are_no_part_of_the_search() -> None:
    script = Script()
    experts = TensorOverride(pattern="ffn_.*_exps", buffer="CPU")
    rest = TensorOverride(pattern="attn", buffer="CPU")
    target = ModelOptions(path=Path("target.gguf"), override_tensor=(experts, rest))
    assert smallest_n_cpu_moe(script, PlanRequest(target=target), FreeMemory()) == 0
    assert script.asked[-1].target.override_tensor == (rest,)
    assert expert_overrides(target) == (experts,)


def test_a_target_without_layers_on_a_gpu_has_no_experts_there() -> None:
    target = ModelOptions(path=Path("target.gguf"), n_gpu_layers=0)
    assert smallest_n_cpu_moe(Script(), PlanRequest(target=target), FreeMemory()) is None


def n_cpu_moe(n_layers: int) -> PlanRequest:
    return PlanRequest(target=ModelOptions(path=Path("target.gguf"), n_cpu_moe=n_layers))


def test_a_model_without_experts_has_none_to_move() -> None:
    assert smallest_n_cpu_moe(Script(n_experts=0), REQUEST, room(CUDA0=0)) is None


def test_what_the_request_says_of_experts_does_not_bind_the_search() -> None:
    request = PlanRequest(target=ModelOptions(path=Path("target.gguf"), cpu_moe=True, n_cpu_moe=9))
    script = Script()
    assert smallest_n_cpu_moe(script, request, FreeMemory()) == 0
    assert not any(asked.target.cpu_moe for asked in script.asked if asked != request)


# Several GPUs, and those that compute in RAM


def on_devices(*buffers: Buffer) -> Plan:
    return Plan(target=Script()._plan(*buffers), draft=None, incompatibility=None)


TWO_GPUS = on_devices(
    buffer("CUDA0", BufferKind.WEIGHTS, 700),
    buffer("CUDA1", BufferKind.WEIGHTS, 300),
    buffer("CUDA0", BufferKind.COMPUTE, 50),
    buffer("CUDA1", BufferKind.KV, 60),
    buffer("CPU_Mapped", BufferKind.WEIGHTS, 20),
)


def test_every_gpu_has_to_hold_its_own_part() -> None:
    found = demands(TWO_GPUS, room(CUDA0=750, CUDA1=360, CPU=20))
    assert [(one.memory, one.allocated_bytes, one.left_bytes) for one in found] == [
        ("CUDA0", 750, 0),
        ("CUDA1", 360, 0),
        (HOST, 0, 0),
    ]
    # What one has too much is of no use to the other.
    assert can_load(TWO_GPUS, room(CUDA0=750, CUDA1=360))
    assert not can_load(TWO_GPUS, room(CUDA0=10_000, CUDA1=359))
    assert not can_load(TWO_GPUS, room(CUDA0=749, CUDA1=10_000))


def test_the_fuller_of_two_gpus_bounds_the_context() -> None:
    def plan(request: PlanRequest) -> Plan:
        n_ctx = request.context.ctx_size
        return on_devices(
            buffer("CUDA0", BufferKind.KV, n_ctx), buffer("CUDA1", BufferKind.KV, 2 * n_ctx)
        )

    free = room(CUDA0=MARGIN_BYTES + 4096, CUDA1=MARGIN_BYTES + 4096)
    assert largest_context(plan, REQUEST, free) == 2048
    assert largest_context(plan, REQUEST, room(CUDA0=MARGIN_BYTES + 512, CUDA1=1 << 40)) == 512


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


def test_a_shared_memory_is_there_once() -> None:
    assert in_ram(Vulkan0=700, CPU=1000).total_bytes == 1000
    assert room(Vulkan0=700, CPU=1000).total_bytes == 1700


def test_what_a_gpu_takes_of_the_ram_bounds_the_context() -> None:
    def plan(request: PlanRequest) -> Plan:
        return on_devices(buffer("Vulkan0", BufferKind.KV, request.context.ctx_size))

    assert largest_context(plan, REQUEST, in_ram(CPU=1100)) == 1024
    assert largest_context(plan, REQUEST, room(CPU=1100)) == 4096
