"""Which GPU of the system each device of llama.cpp's is, and what a screen shows of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from spectui.engine.devices import concerned, shown_gpus
from spectui.engine.events import Role
from spectui.live.machine import MemoryPool, Use, memory_state
from spectui.live.tally import LiveTally
from spectui.llama.buffers import Buffer, BufferKind, DeviceMemory, ModelMemory
from spectui.monitor.readings import GpuReading, GpuSource, Reading
from tests.support.constructed import snapshots

GIB = 1 << 30
SNAPSHOT = list(snapshots())[-1]


def gpu(
    index: int,
    address: str | None = None,
    *,
    in_ram: bool = False,
    source: GpuSource = GpuSource.NVML,
) -> GpuReading:
    address = f"0000:{index + 1:02x}:00.0" if address is None else address or None
    return replace(SNAPSHOT.gpus[0], index=index, address=address, in_ram=in_ram, source=source)


def device(
    name: str,
    id: str | None = None,  # noqa: A002 - ggml's name
    *,
    free: int | None = 5 * GIB,
    total: int | None = 8 * GIB,
    in_ram: bool = False,
) -> DeviceMemory:
    told: dict[str, Any] = {"free_bytes": free, "total_bytes": total, "in_ram": in_ram, "id": id}
    return DeviceMemory(name=name, description=f"model of {name}", **told)


def names(
    gpus: Sequence[GpuReading], devices: Sequence[DeviceMemory]
) -> dict[int, tuple[str, ...]]:
    return {one.index: one.devices for one in shown_gpus(gpus, devices)}


# -- which is which


def test_devices_are_found_by_their_addresses_in_any_order() -> None:
    """CUDA counts the fastest first, the driver by slots."""
    for order in permutations(range(3)):
        slots = [device(f"CUDA{n}", f"0000:{at + 1:02X}:00.0") for n, at in enumerate(order)]
        found = names([gpu(0), gpu(1), gpu(2)], slots)
        assert found == {index: (f"CUDA{n}",) for n, index in enumerate(order)}


AMD = [gpu(0, source=GpuSource.AMDGPU), gpu(1, source=GpuSource.AMDGPU)]
CARD = "0000:01:00.0"
FIRST = device("CUDA0", CARD)


def test_which_card_a_device_is() -> None:
    second = device("CUDA0", "0000:02:00.0")
    cases: list[tuple[list[GpuReading], list[DeviceMemory], dict[int, tuple[str, ...]]]] = [
        ([], [], {}),
        # With CUDA_VISIBLE_DEVICES=1 the second card is CUDA0.
        ([gpu(0), gpu(1)], [second], {1: ("CUDA0",)}),
        # One card under two names.
        ([gpu(0)], [FIRST, device("CUDA1", "0000:01:00.0-v1")], {0: ("CUDA0", "CUDA1")}),
        # Without addresses the order must do where the numbers agree.
        (AMD, [device("SYCL0"), device("SYCL1")], {0: ("SYCL0",), 1: ("SYCL1",)}),
        # One of two cards: nobody tells which.
        (AMD, [device("SYCL0")], {0: (), 1: (), 2: ("SYCL0",)}),
        # A driver that does not tell addresses.
        ([gpu(0, "")], [FIRST], {0: ("CUDA0",)}),
        # Two addresses that differ are two cards.
        ([gpu(0)], [device("CUDA0", "0000:05:00.0")], {0: (), 1: ("CUDA0",)}),
        # Of another machine.
        ([gpu(0)], [FIRST, device("RPC0")], {0: ("CUDA0",), 1: ("RPC0",)}),
        ([gpu(0)], [device("RPC0")], {0: (), 1: ("RPC0",)}),
    ]
    for gpus, devices, found in cases:
        assert names(gpus, devices) == found


def test_a_processors_gpu_is_shown_where_it_is_used_or_nothing_else_is_there() -> None:
    card, inside = gpu(0), gpu(1, "0000:00:02.0", in_ram=True, source=GpuSource.AMDGPU)
    assert names([card, inside], []) == {0: ()}
    assert names([inside], []) == {1: ()}
    used = device("Vulkan0", "0000:00:02.0", in_ram=True)
    assert names([card, inside], [used]) == {1: ("Vulkan0",)}
    # Of the same kind, where no address is told.
    assert names([card, inside], [replace(used, id=None)]) == {1: ("Vulkan0",)}


# -- who tells its memory


def test_where_the_system_keeps_memory_to_itself_llama_cpp_tells_it() -> None:
    root = Reading(None, "to root alone")
    card = replace(AMD[0], memory_used_bytes=root, memory_total_bytes=Reading(12 * GIB))
    (shown,) = shown_gpus([card], [device("SYCL0")])
    assert shown.memory_used_bytes == Reading(3 * GIB)
    assert shown.memory_total_bytes == Reading(8 * GIB)
    assert (shown.memory_source, shown.name) == (GpuSource.LLAMA_CPP, "model of SYCL0")
    assert shown.utilisation == card.utilisation
    # What the system tells of memory stands.
    (shown,) = shown_gpus([gpu(0)], [FIRST])
    assert shown.memory_used_bytes == gpu(0).memory_used_bytes
    assert shown.memory_source is None
    # What nobody tells stays unknown.
    for total in (None, 8 * GIB):
        (shown,) = shown_gpus([], [device("RPC0", free=None, total=total)])
        alone = "only llama.cpp knows this device, and tells its memory alone"
        assert shown.memory_used_bytes.reason == alone
        assert shown.utilisation.value is None


# -- the memories on screen


def on(name: str, size_bytes: int, devices: tuple[DeviceMemory, ...]) -> ModelMemory:
    weights = Buffer(device=name, kind=BufferKind.WEIGHTS, size_bytes=size_bytes)
    return ModelMemory(buffers=(weights,), traffic=None, devices=devices)


def pools(gpus: Sequence[GpuReading], model: ModelMemory) -> tuple[MemoryPool, ...]:
    state = memory_state(
        replace(SNAPSHOT, gpus=tuple(gpus)),
        {Role.TARGET: model},
        is_decoding=False,
        swap_before_bytes=None,
    )
    return state.pools[:-1]


def test_weights_are_on_the_card_that_llama_cpp_put_them_on() -> None:
    first, second = device("CUDA0", "0000:02:00.0"), device("CUDA1", "0000:01:00.0")
    inside = gpu(0, "0000:00:02.0", in_ram=True)
    for gpus, model, expected in (
        ([gpu(0), gpu(1)], on("CUDA0", GIB, (first, second)), [("CUDA1", 0), ("CUDA0", GIB)]),
        # One card is just VRAM, and several without names have numbers.
        ([gpu(0), gpu(1)], on("CUDA0", GIB, (first,)), [("VRAM", GIB)]),
        ([gpu(0), gpu(1)], on("CUDA1", GIB, ()), [("VRAM 0", 0), ("VRAM 1", GIB)]),
        ([inside], on("CPU", GIB, ()), [("GPU RAM", 0)]),
    ):
        found = [(pool.name, dict(pool.parts).get(Use.TARGET, 0)) for pool in pools(gpus, model)]
        assert found == expected


def test_a_device_of_another_machine_takes_nothing_from_the_card_of_its_number() -> None:
    far = "RPC0[10.0.0.2:50052]"
    devices = (device("RPC0[10.0.0.3:50052]"), device(far), device("CUDA0", "0000:01:00.0"))
    card, other, remote = pools([gpu(0)], on(far, GIB, devices))
    assert dict(card.parts)[Use.TARGET] == 0
    assert (other.name, dict(other.parts)[Use.TARGET]) == ("RPC0", 0)
    assert (remote.name, dict(remote.parts)[Use.TARGET]) == ("RPC1", GIB)
    assert remote.total_bytes == 8 * GIB
    assert remote.reason == "device memory: as measured after the load"


def test_a_device_that_calls_all_of_its_memory_free_holds_what_was_put_there() -> None:
    """An RPC server on a processor does so."""
    far = "RPC0[10.0.0.2:50052]"
    devices = (device(far, free=8 * GIB),)
    (pool,) = pools([], on(far, GIB, devices))
    assert (dict(pool.parts)[Use.TARGET], pool.free_bytes) == (GIB, 7 * GIB)
    (full,) = pools([], on(far, 9 * GIB, devices))
    assert (full.used_bytes, full.warning) == (8 * GIB, "RPC0 is full")
    # A lost card keeps what llama.cpp put on it.
    lost = GpuReading(index=0, name="a", address=CARD).unread("lost")
    (pool,) = pools([lost], on("CUDA0", GIB, (device("CUDA0", CARD, free=None, total=None),)))
    assert dict(pool.parts)[Use.TARGET] == GIB
    assert (pool.used_bytes, pool.reason) == (None, "lost")


# -- what else a session hears


def test_links_and_load_are_those_of_the_cards_that_are_used() -> None:
    model = on("CUDA0", GIB, (device("CUDA0", "0000:02:00.0"), device("RPC0")))
    both = replace(SNAPSHOT, gpus=(gpu(0), gpu(1)))
    assert [one.index for one in concerned(both, {Role.TARGET: model}).gpus] == [1]
    tally = LiveTally()
    tally.snapshot(both)
    tally.loaded(Role.TARGET, model)
    state = tally.state()
    assert state.traffic.machine is not None
    assert [(link.index, link.label) for link in state.traffic.machine.gpus] == [(1, "CUDA0")]
    assert [one.index for one in state.memory.gpus] == [1]
    assert [pool.name for pool in state.memory.pools] == ["CUDA0", "RPC0", "RAM"]
