"""Which GPUs a model is put on, told from devices that are made up."""

import psutil
import pytest

from spectui.llama.buffers import DeviceMemory
from spectui.llama.devices import GPU, INTEGRATED, describe, devices, used


def device(name: str, *, kind: int = GPU, id: str | None = None) -> DeviceMemory:  # noqa: A002 - ggml's name
    return DeviceMemory(
        name=name,
        description="Graphics",
        free_bytes=1,
        total_bytes=2,
        in_ram=kind == INTEGRATED,
        maps_files=kind != INTEGRATED,
        id=id,
    )


SLOT, OTHER = "0000:01:00.0", "0000:02:00.0"
INSIDE = [device(name, kind=INTEGRATED) for name in ("CUDA0", "CUDA1", "Vulkan0")]
REMOTE = [device("RPC0[a:1]"), device("RPC0[b:1]")]


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([], []),
        ([device("CUDA0"), device("CUDA1")], ["CUDA0", "CUDA1"]),
        # A card that two backends drive is used once; where slots are not told, they may be two.
        (
            [device("CUDA0", id=SLOT), device("Vulkan0", id=SLOT), device("Vulkan1", id=OTHER)],
            ["CUDA0", "Vulkan1"],
        ),
        ([device("CUDA0"), device("Vulkan0")], ["CUDA0", "Vulkan0"]),
        # A processor's GPU is used where there is no card, by the first backend that drives it.
        (INSIDE[2:], ["Vulkan0"]),
        ([INSIDE[2], device("Vulkan1")], ["Vulkan1"]),
        (INSIDE, ["CUDA0", "CUDA1"]),
        # Those of RPC servers come first and take no place from others.
        ([INSIDE[2], *REMOTE], ["RPC0[a:1]", "RPC0[b:1]", "Vulkan0"]),
        ([device("CUDA0"), *REMOTE], ["RPC0[a:1]", "RPC0[b:1]", "CUDA0"]),
    ],
)
def test_which_devices_are_used(found: list[DeviceMemory], names: list[str]) -> None:
    assert [memory.name for memory in used(found)] == names


def test_ggml_describes_the_processor_as_psutil_does() -> None:
    found = [describe(pointer) for pointer in devices()]
    (processor,) = [one for one in found if one.name == "CPU"]
    assert processor.total_bytes == psutil.virtual_memory().total
    assert 0 < (processor.free_bytes or 0) <= psutil.virtual_memory().total
    assert processor.description
    assert processor.maps_files
    assert not processor.in_ram
