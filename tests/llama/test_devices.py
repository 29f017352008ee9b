"""Which GPUs a model is put on, told from devices that are made up."""

import psutil
import pytest

from spectui.llama.buffers import DeviceMemory
from spectui.llama.devices import GPU, INTEGRATED, Device, credible, describe, devices, used


def device(name: str, *, kind: int = GPU, id: str | None = None) -> Device:  # noqa: A002 - ggml's name
    memory = DeviceMemory(
        name=name,
        description="Graphics",
        free_bytes=1,
        total_bytes=2,
        in_ram=kind == INTEGRATED,
        maps_files=kind != INTEGRATED,
        id=id,
    )
    backend = name.partition("[")[0].rstrip("0123456789")
    return Device(type=kind, backend=backend, memory=memory)


def names(*devices: Device) -> list[str]:
    return [memory.name for memory in used(devices)]


def test_all_cards_are_used_in_their_order() -> None:
    assert names(device("CUDA0"), device("CUDA1")) == ["CUDA0", "CUDA1"]
    assert names() == []


def test_a_card_that_two_backends_drive_is_used_once() -> None:
    slot, other = "0000:01:00.0", "0000:02:00.0"
    found = (device("CUDA0", id=slot), device("Vulkan0", id=slot), device("Vulkan1", id=other))
    assert names(*found) == ["CUDA0", "Vulkan1"]
    # Where slots are not told, they may be two cards.
    assert names(device("CUDA0"), device("Vulkan0")) == ["CUDA0", "Vulkan0"]


def test_an_integrated_gpu_is_used_where_there_is_no_card() -> None:
    integrated = device("Vulkan0", kind=INTEGRATED)
    assert names(integrated) == ["Vulkan0"]
    assert names(integrated, device("Vulkan1")) == ["Vulkan1"]


def test_an_integrated_gpu_that_two_backends_drive_is_used_by_the_first() -> None:
    found = [device(name, kind=INTEGRATED) for name in ("CUDA0", "CUDA1", "Vulkan0")]
    assert names(*found) == ["CUDA0", "CUDA1"]


def test_those_of_rpc_servers_come_first_and_take_no_place_from_others() -> None:
    integrated = device("Vulkan0", kind=INTEGRATED)
    remote = [device("RPC0[a:1]"), device("RPC0[b:1]")]
    assert names(integrated, *remote) == ["RPC0[a:1]", "RPC0[b:1]", "Vulkan0"]
    assert names(device("CUDA0"), *remote) == ["RPC0[a:1]", "RPC0[b:1]", "CUDA0"]


@pytest.mark.parametrize(
    ("free", "total", "told"),
    [
        (3, 8, (3, 8)),
        (0, 8, (0, 8)),
        (8, 8, (8, 8)),
        # It does not tell, or it lies.
        (0, 0, (None, None)),
        (5, 0, (None, None)),
        (9, 8, (None, 8)),
    ],
)
def test_memory_that_cannot_be_is_not_believed(
    free: int, total: int, told: tuple[int | None, int | None]
) -> None:
    assert credible(free, total) == told


def test_ggml_describes_the_processor_as_psutil_does() -> None:
    found = [describe(pointer) for pointer in devices()]
    (processor,) = [one for one in found if one.memory.name == "CPU"]
    assert processor.type not in {GPU, INTEGRATED}
    assert processor.memory.total_bytes == psutil.virtual_memory().total
    assert 0 < (processor.memory.free_bytes or 0) <= psutil.virtual_memory().total
    assert processor.memory.description
    assert processor.memory.maps_files
    assert not processor.memory.in_ram
