"""Free RAM within cgroups, on trees that are written for it."""

import resource
from pathlib import Path

import psutil
import pytest

from spectui.engine.demand import free_memory
from spectui.engine.host_memory import HostMemory, can_lock, host_memory
from spectui.llama.buffers import HOST, DeviceMemory

GIB = 1 << 30
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "33 31 0:30 {} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GiB of RAM, and 4 of swap."""
    ram = psutil.virtual_memory()._replace(available=16 * GIB)
    swap = psutil.swap_memory()._replace(free=4 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: ram)
    monkeypatch.setattr(psutil, "swap_memory", lambda: swap)


class Tree:
    """Files of a machine below a folder."""

    def __init__(self, root: Path, cgroup: str, mount: str) -> None:
        self.root = root
        self.write("proc/self/cgroup", cgroup)
        self.write("proc/self/mountinfo", mount)

    def write(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def group(self, path: str, *, cache: int = 0, **files: object) -> None:
        folder = f"sys/fs/cgroup/{path}".rstrip("/")
        for name, value in files.items():
            self.write(f"{folder}/memory.{name.replace('__', '.')}", value)
        names = ("inactive_file", "total_inactive_file")
        self.write(f"{folder}/memory.stat", "\n".join(f"{name} {cache}" for name in names))

    @property
    def memory(self) -> HostMemory:
        return host_memory(self.root)


@pytest.fixture
def v2(tmp_path: Path) -> Tree:
    return Tree(tmp_path, "0::/user.slice/app", V2)


def v1(root: Path, inside: str = "/") -> Tree:
    return Tree(root, "4:memory:/docker/abc\n0::/", V1.format(inside))


@pytest.mark.parametrize(
    ("rights", "may"),
    [("0000000000000000", False), ("0000000000004000", True), ("000001ffffffffff", True)],
)
def test_who_may_lock_more_than_the_limit(tmp_path: Path, rights: str, *, may: bool) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(f"Name:\tspectui\nCapEff:\t{rights}\n")
    limit, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit == resource.RLIM_INFINITY:
        assert can_lock(1 << 60, tmp_path)
        return
    assert can_lock(limit, tmp_path)
    assert can_lock(limit + 1, tmp_path) is may


def test_without_cgroups_it_is_the_machines(tmp_path: Path) -> None:
    assert host_memory(tmp_path) == HostMemory(free_bytes=16 * GIB, slow_bytes=4 * GIB)


def test_groups_without_a_limit_bound_nothing(v2: Tree) -> None:
    v2.group("user.slice/app", max="max", high="max", current=3 * GIB)
    v2.group("user.slice", max="max", high="max", current=5 * GIB)
    assert v2.memory == HostMemory(free_bytes=16 * GIB, slow_bytes=4 * GIB)


def test_what_a_group_caches_counts_as_free(v2: Tree) -> None:
    v2.group("user.slice/app", max=8 * GIB, high="max", current=7 * GIB, cache=5 * GIB)
    limit = str(v2.root / "sys/fs/cgroup/user.slice/app/memory.max")
    assert v2.memory == HostMemory(free_bytes=6 * GIB, slow_bytes=4 * GIB, limit=limit)


@pytest.mark.parametrize("at", ["user.slice", "user.slice/app"])
def test_the_tightest_level_counts(v2: Tree, at: str) -> None:
    for path in ("user.slice", "user.slice/app"):
        size = 6 * GIB if path == at else 9 * GIB
        v2.group(path, max=size, high="max", current=2 * GIB)
    assert v2.memory.free_bytes == 4 * GIB
    assert v2.memory.limit == str(v2.root / f"sys/fs/cgroup/{at}/memory.max")


def test_between_the_soft_and_the_hard_limit_it_is_slow(v2: Tree) -> None:
    v2.group("user.slice", max=9 * GIB, high="max", current=1 * GIB)
    v2.group("user.slice/app", max=7 * GIB, high=3 * GIB, current=1 * GIB)
    found = v2.memory
    assert (found.free_bytes, found.slow_bytes) == (2 * GIB, 4 * GIB + 4 * GIB)
    assert str(found.limit).endswith("app/memory.high")


def test_swap_is_bounded_where_a_group_says_so(v2: Tree) -> None:
    v2.group("user.slice/app", max=8 * GIB, high="max", current=0, swap__max=GIB, swap__current=9)
    assert v2.memory.slow_bytes == GIB - 9
    v2.group("user.slice", swap__max=0)
    assert v2.memory.slow_bytes == 0


def test_more_than_its_limit_leaves_nothing(v2: Tree) -> None:
    v2.group("user.slice/app", max=2 * GIB, high=1 * GIB, current=3 * GIB, swap__max=0)
    assert (v2.memory.free_bytes, v2.memory.slow_bytes) == (0, 0)


@pytest.mark.parametrize("inside", ["/", "/docker/abc"], ids=["host", "container"])
def test_version_1_counts_as_well(tmp_path: Path, inside: str) -> None:
    tree = v1(tmp_path, inside)
    path = "memory" if inside != "/" else "memory/docker/abc"
    tree.group(path, limit_in_bytes=5 * GIB, usage_in_bytes=4 * GIB, cache=GIB)
    tree.group("memory", **({} if inside != "/" else {"limit_in_bytes": 9223372036854771712}))
    if inside != "/":
        tree.group(path, limit_in_bytes=5 * GIB, usage_in_bytes=4 * GIB, cache=GIB)
    found = tree.memory
    assert (found.free_bytes, found.slow_bytes) == (2 * GIB, 4 * GIB)
    assert str(found.limit).endswith("memory.limit_in_bytes")


def test_version_1_limits_ram_and_swap_together(tmp_path: Path) -> None:
    tree = v1(tmp_path)
    sizes = {"limit_in_bytes": 5 * GIB, "usage_in_bytes": 1 * GIB}
    both = {"memsw__limit_in_bytes": 7 * GIB, "memsw__usage_in_bytes": 2 * GIB}
    tree.group("memory/docker/abc", **sizes, **both)
    assert (tree.memory.free_bytes, tree.memory.slow_bytes) == (4 * GIB, 1 * GIB)


@pytest.mark.parametrize("text", ["", "nonsense", "-"])
def test_files_that_make_no_sense_bound_nothing(v2: Tree, text: str) -> None:
    v2.group("user.slice/app", max=text, high=text, current=text, swap__max=text)
    assert v2.memory == HostMemory(free_bytes=16 * GIB, slow_bytes=4 * GIB)


def test_what_zfs_gives_back_is_free(tmp_path: Path) -> None:
    file = tmp_path / "proc/spl/kstat/zfs/arcstats"
    file.parent.mkdir(parents=True)
    file.write_text(f"9 1 0x01 147\nname type data\nc_min 4 {GIB}\nsize 4 {5 * GIB}\n")
    assert host_memory(tmp_path).free_bytes == 20 * GIB
    file.write_text(f"size 4 {GIB // 2}\nc_min 4 {GIB}\n")
    assert host_memory(tmp_path).free_bytes == 16 * GIB


def test_cuda_that_goes_on_in_ram_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [
        DeviceMemory(name=name, description="x", free_bytes=5, total_bytes=9)
        for name in ("CUDA0", "Vulkan0")
    ]
    assert free_memory(tuple(gpus)).by_memory.keys() == {"CUDA0", "Vulkan0", HOST}
    monkeypatch.setenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "1")
    assert free_memory(tuple(gpus)).by_memory.keys() == {"Vulkan0", HOST}
