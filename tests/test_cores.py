"""The number of compute threads, on machines of which the kernel's lists are recorded."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from spectui import cores
from spectui.cores import default_threads, threads_to_take, usable_processors
from tests.support.machine import Machine


def tree(folder: Path, siblings: Mapping[int, str], **lists: str) -> Path:
    """Folder of devices: sibling masks by processor, and lists of processors by their file."""
    for cpu, mask in siblings.items():
        _write(folder / f"system/cpu/cpu{cpu}/topology/thread_siblings", mask)
    for name, cpus in lists.items():
        file = "system/cpu/online" if name == "online" else f"{name}/cpus"
        _write(folder / file, cpus)
    return folder


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def raptor_lake(folder: Path) -> Path:
    """A Core i7-13700K: 8 cores with two threads each in a row, and 8 efficiency cores."""
    pairs = {cpu: f"{3 << (cpu // 2 * 2):06x}" for cpu in range(16)}
    efficient = {cpu: f"{1 << cpu:06x}" for cpu in range(16, 24)}
    return tree(folder, pairs | efficient, cpu_core="0-15", cpu_atom="16-23", online="0-23")


def anywhere(_cpu: int) -> bool:
    """A machine that lets threads run on every processor."""
    return True


def nowhere(_cpu: int) -> bool:
    """A machine on which pinning must not be tried."""
    raise AssertionError


def test_efficiency_cores_are_left_out_where_all_processors_are_free(tmp_path: Path) -> None:
    intel = raptor_lake(tmp_path / "i7")
    assert default_threads(intel, anywhere) == 8
    # llama.cpp cannot ask a processor that its cgroup excludes, and counts sibling groups then.
    assert default_threads(intel, lambda cpu: cpu < 8) == 16
    # A Core Ultra 9 285K: 8 performance and 16 efficiency cores, one thread each, mixed. As in
    # llama.cpp a performance core without hyperthreading hides the next.
    siblings = {cpu: f"{1 << cpu:06x}" for cpu in range(24)}
    lists = {"cpu_core": "0-1,10-13,22-23", "cpu_atom": "2-9,14-21", "online": "0-23"}
    assert default_threads(tree(tmp_path / "ultra", siblings, **lists), anywhere) == 4


def test_machines_of_equal_cores_have_a_thread_per_core(tmp_path: Path) -> None:
    epyc = {cpu: f"{1 << (cpu % 32) | 1 << (cpu % 32 + 32):016x}" for cpu in range(64)}
    arm = {cpu: f"{1 << cpu:x}" for cpu in range(8)}
    # Processors behind one that is offline are not counted.
    holed = {cpu: f"{1 << cpu:x}" for cpu in (0, 1, 3, 4, 5)}
    for name, siblings, online, n in (
        ("epyc", epyc, "0-63", 32),
        ("arm", arm, "0-7", 8),
        ("holed", holed, "0-1,3-5", 2),
    ):
        assert default_threads(tree(tmp_path / name, siblings, online=online), nowhere) == n


def test_without_a_topology_it_is_half_of_many_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_logical, expected in ((None, 4), (1, 1), (4, 4), (5, 2), (16, 8)):
        monkeypatch.setattr(os, "cpu_count", lambda n=n_logical: n)
        assert default_threads(tmp_path, nowhere) == expected


def test_asking_where_threads_may_run_leaves_this_one_where_it_was(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    root = tree(tmp_path, {0: "1"}, cpu_core="0", online="0")
    assert default_threads(root) == 1
    assert os.sched_getaffinity(0) == allowed
    beyond = tree(tmp_path / "beyond", {0: "1", 1: "2"}, cpu_core="0-4095", online="0-4095")
    assert default_threads(beyond) == 2
    assert os.sched_getaffinity(0) == allowed


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may use all of 16 processors."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))


@pytest.mark.usefixtures("free")
def test_a_process_may_use_what_its_affinity_and_its_cgroups_leave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usable_processors(tmp_path) == 16
    machine = Machine(tmp_path)
    machine.limit_v2(quota="250000 100000", throttled_us=0)
    assert usable_processors(tmp_path) == 2
    machine.limit_v2(quota="max 100000", throttled_us=0)
    assert usable_processors(tmp_path) == 16
    machine.limit_v2(quota="50000 100000", throttled_us=0)
    assert usable_processors(tmp_path) == 1
    machine.limit_v1(quota_us=400000, throttled_ns=0)
    assert usable_processors(tmp_path) == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5, 7})
    assert usable_processors(tmp_path) == 3


@pytest.mark.usefixtures("free")
def test_what_the_kernel_writes_oddly_is_passed_over(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for name, line in (
        ("mountinfo", b"29 23 0:25 / /run rw,nosuid shared:5 - tmpfs  rw,size=1k"),
        ("mountinfo", b"29 23 0:25 /"),
        ("mountinfo", b""),
        ("mountinfo", b"29 23 0:25 / /\xff\xfe rw - cgroup2 cgroup2 rw"),
        ("cgroup", b"no cgroup"),
    ):
        machine.limit_v2(quota="250000 100000", throttled_us=0)
        path = tmp_path / "proc/self" / name
        path.write_bytes(line + b"\n" + path.read_bytes())
        assert usable_processors(tmp_path) == 2, line
    for quota in ("0 0", "100000 0", "max", "", "many 100000"):
        machine.limit_v2(quota=quota, throttled_us=0)
        assert usable_processors(tmp_path) == 16, quota
        with machine.watch() as watch:
            assert watch.summary().notes == ()


def test_another_number_is_named_exactly_where_llama_server_would_not_take_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for own, usable, expected in ((8, 16, 0), (8, 8, 0), (8, 4, 4), (2, 1, 1), (1, 1, 0)):
        monkeypatch.setattr(cores, "default_threads", lambda n=own: n)
        monkeypatch.setattr(cores, "usable_processors", lambda n=usable: n)
        assert threads_to_take() == expected
