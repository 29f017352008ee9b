"""Free RAM within cgroups, on trees that are written for it."""

import resource
from pathlib import Path

import psutil
import pytest

from spectui.engine.demand import free_memory
from spectui.engine.host_memory import can_lock, host_memory
from spectui.llama.buffers import HOST, DeviceMemory

GIB = 1 << 30
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "33 31 0:30 {} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
HOST_V1, CONTAINER_V1 = V1.format("/"), V1.format("/docker/abc")
MEMORY = {"v2": "0::/slice/app", "v1": "4:memory:/docker/abc\n0::/"}
NO_LIMIT_V1 = 9223372036854771712 // GIB

RAM_V1 = "memory/docker/abc limit_in_bytes=5 usage_in_bytes=1"
SWAP_V1 = "memsw.limit_in_bytes=7 memsw.usage_in_bytes=2"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GiB of RAM, and 4 of swap."""
    ram = psutil.virtual_memory()._replace(available=16 * GIB)
    swap = psutil.swap_memory()._replace(free=4 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: ram)
    monkeypatch.setattr(psutil, "swap_memory", lambda: swap)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


def write_groups(root: Path, groups: str) -> None:
    """Write ``GROUP FILE=GIB ...``, separated by semicolons; ``cache`` is the page cache's."""
    for group in filter(None, groups.split("; ")):
        path, *files = group.split(" ")
        for name, _, value in (one.partition("=") for one in files):
            text = str(int(value) * GIB) if value.isdecimal() else value
            kinds = ("inactive_file", "total_inactive_file")
            stat = "\n".join(f"{kind} {text}" for kind in kinds)
            is_cache = name == "cache"
            file = f"sys/fs/cgroup/{path}/memory.{'stat' if is_cache else name}"
            write(root, file, stat if is_cache else text)


@pytest.mark.parametrize(
    ("mount", "groups", "free", "slow", "limit"),
    [
        (V2, "", 16, 4, None),
        (V2, "slice/app max=max high=max current=3; slice max=max current=5", 16, 4, None),
        *((V2, f"slice/app max={odd} current={odd}", 16, 4, None) for odd in ("", "nonsense", "-")),
        # What a group caches counts as free.
        (V2, "slice/app max=8 high=max current=7 cache=5", 6, 4, "slice/app/memory.max"),
        # The tightest level counts.
        (V2, "slice max=9 current=2; slice/app max=6 current=2", 4, 4, "slice/app/memory.max"),
        (V2, "slice max=6 current=2; slice/app max=9 current=2", 4, 4, "slice/memory.max"),
        # Between the soft and the hard limit it is slow.
        (V2, "slice max=9 current=1; slice/app max=7 high=3 current=1", 2, 8, "app/memory.high"),
        (V2, "slice/app max=8 current=0 swap.max=2 swap.current=1", 8, 1, "app/memory.max"),
        (V2, "slice/app swap.max=2 swap.current=1; slice swap.max=0", 16, 0, None),
        (V2, "slice/app max=2 high=1 current=3 swap.max=0", 0, 0, "app/memory.max"),
        (HOST_V1, f"memory limit_in_bytes={NO_LIMIT_V1} usage_in_bytes=1", 16, 4, None),
        (
            HOST_V1,
            "memory/docker/abc limit_in_bytes=5 usage_in_bytes=4 cache=1",
            *(2, 4, "memory/docker/abc/memory.limit_in_bytes"),
        ),
        (
            CONTAINER_V1,
            "memory limit_in_bytes=5 usage_in_bytes=4 cache=1",
            *(2, 4, "memory/memory.limit_in_bytes"),
        ),
        # Version 1 limits RAM and swap together.
        (HOST_V1, f"{RAM_V1} {SWAP_V1}", 4, 1, "memory/docker/abc/memory.limit_in_bytes"),
    ],
)
def test_groups_bound_what_is_free(  # noqa: PLR0917 - a row of the table
    tmp_path: Path, mount: str, groups: str, free: int, slow: int, limit: str | None
) -> None:
    write(tmp_path, "proc/self/cgroup", MEMORY["v2" if mount == V2 else "v1"])
    write(tmp_path, "proc/self/mountinfo", mount)
    write_groups(tmp_path, groups)
    found = host_memory(tmp_path)
    assert (found.free_bytes, found.slow_bytes) == (free * GIB, slow * GIB)
    assert (found.limit is None) == (limit is None)
    assert (found.limit or "").endswith(limit or "")


def test_what_zfs_gives_back_is_free(tmp_path: Path) -> None:
    assert host_memory(tmp_path).free_bytes == 16 * GIB
    sizes = f"9 1 0x01 147\nname type data\nc_min 4 {GIB}\nsize 4 {5 * GIB}"
    write(tmp_path, "proc/spl/kstat/zfs/arcstats", sizes)
    assert host_memory(tmp_path).free_bytes == 20 * GIB
    write(tmp_path, "proc/spl/kstat/zfs/arcstats", f"size 4 {GIB // 2}\nc_min 4 {GIB}")
    assert host_memory(tmp_path).free_bytes == 16 * GIB


def test_who_may_lock_more_than_the_limit(tmp_path: Path) -> None:
    limit, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    is_open = limit == resource.RLIM_INFINITY
    limit = 1 << 60 if is_open else limit
    for rights, may in ((0, False), (1 << 14, True), ((1 << 41) - 1, True)):
        write(tmp_path, "proc/self/status", f"Name:\tspectui\nCapEff:\t{rights:016x}")
        assert can_lock(limit, tmp_path)
        assert can_lock(limit + 1, tmp_path) is (may or is_open)


def test_cuda_that_goes_on_in_ram_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = tuple(
        DeviceMemory(name=name, description="x", free_bytes=5, total_bytes=9)
        for name in ("CUDA0", "Vulkan0")
    )
    assert free_memory(gpus).by_memory.keys() == {"CUDA0", "Vulkan0", HOST}
    monkeypatch.setenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "1")
    assert free_memory(gpus).by_memory.keys() == {"Vulkan0", HOST}
