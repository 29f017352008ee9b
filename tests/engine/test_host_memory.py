"""Free RAM within cgroups, on trees that are written for it."""

from pathlib import Path

import psutil
import pytest

from spectui.engine.demand import free_memory, free_ram
from spectui.llama.buffers import HOST, DeviceMemory

GIB = 1 << 30
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GiB of RAM."""
    ram = psutil.virtual_memory()._replace(available=16 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: ram)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


def write_groups(root: Path, groups: str) -> None:
    """Write ``GROUP FILE=GIB ...``, separated by semicolons; ``cache`` is the page cache's."""
    for group in filter(None, groups.split("; ")):
        path, *files = group.split(" ")
        for name, _, value in (one.partition("=") for one in files):
            text = str(int(value) * GIB) if value.isdecimal() else value
            is_cache = name == "cache"
            file = f"sys/fs/cgroup/{path}/memory.{'stat' if is_cache else name}"
            write(root, file, f"inactive_file {text}" if is_cache else text)


@pytest.mark.parametrize(
    ("groups", "free"),
    [
        ("", 16),
        ("slice/app max=max current=3; slice max=max current=5", 16),
        *((f"slice/app max={odd} current={odd}", 16) for odd in ("", "nonsense", "-")),
        # What a group caches counts as free.
        ("slice/app max=8 current=7 cache=5", 6),
        # The tightest level counts.
        ("slice max=9 current=2; slice/app max=6 current=2", 4),
        ("slice max=6 current=2; slice/app max=9 current=2", 4),
        ("slice/app max=2 current=3", 0),
    ],
)
def test_groups_bound_what_is_free(tmp_path: Path, groups: str, free: int) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/slice/app")
    write(tmp_path, "proc/self/mountinfo", V2)
    write_groups(tmp_path, groups)
    assert free_ram(tmp_path) == free * GIB


def test_cuda_that_goes_on_in_ram_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = tuple(
        DeviceMemory(name=name, description="x", free_bytes=5, total_bytes=9)
        for name in ("CUDA0", "Vulkan0")
    )
    assert free_memory(gpus).by_memory.keys() == {"CUDA0", "Vulkan0", HOST}
    monkeypatch.setenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "1")
    assert free_memory(gpus).by_memory.keys() == {"Vulkan0", HOST}
