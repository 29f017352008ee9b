"""One measurement at a time on a core or GPU."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from spectui.documents import Known
from spectui.errors import UsageError
from spectui.measure.device_locks import devices_held, server_devices_held, visible_gpus
from spectui.server.watch.sample import HostState, ProcessSample
from tests.support.locks import HOLD
from tests.support.nvml import StandIn

pytest_plugins = ("tests.support.nvml_fixtures",)
pytestmark = pytest.mark.slow


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "subprocess.Popen[str]":
    """Another process of the same user that measures on core 0."""
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_core_that_another_process_measures_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: "subprocess.Popen[str]"
) -> None:
    with other:
        with (
            pytest.raises(UsageError, match=r"core 0, .* its own \(taskset -c CORES spectui"),
            devices_held(uses_gpus=False),
        ):
            pass
        others = [core for core in os.sched_getaffinity(0) if core]
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(others))
        with devices_held(uses_gpus=False):
            pass
        monkeypatch.undo()
        monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
        other.kill()
    # The system has let go of what a killed process held; and a process may hold one twice.
    with (
        devices_held(uses_gpus=False),
        devices_held(uses_gpus=True),
    ):
        pass
    locks = tmp_path / "home" / "data" / "locks"
    assert all(one.stat().st_mode & 0o077 == 0 for one in (locks, *locks.iterdir()))
    # Who cannot write locks measures all the same.
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "file"))
    with devices_held(uses_gpus=False):
        assert os.sched_getaffinity(0)


@pytest.fixture
def server() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that runs on core 0 alone, and ends with the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    os.sched_setaffinity(process.pid, {0})
    with process:
        assert process.stdout is not None
        # Before its first line, the kernel may still show an empty environment.
        process.stdout.readline()
        yield process
        process.kill()


def state_of(pid: int) -> HostState:
    sample = ProcessSample(
        pid=pid,
        name="llama-server",
        rss_bytes=1,
        n_threads=1,
        cpu_s=0.0,
        started_s=psutil.Process(pid).create_time(),
    )
    return HostState(is_here=True, process=Known(sample))


ELSEWHERE = HostState(is_here=False, process=Known(None, "on another machine"))


def test_a_running_server_is_measured_by_one_process(
    other: "subprocess.Popen[str]", server: "subprocess.Popen[bytes]"
) -> None:
    with other:
        for here in (state_of(server.pid), replace(ELSEWHERE, is_here=True)):
            with (
                pytest.raises(UsageError, match="another spectui measures on core 0"),
                server_devices_held([ELSEWHERE, here]),
            ):
                pass
        with server_devices_held([ELSEWHERE]):
            pass
        other.kill()


def test_a_running_server_has_its_own_cores_and_all_gpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: "subprocess.Popen[bytes]",
    nvml: StandIn,
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    nvml.add_gpu()
    nvml.add_gpu()
    with server_devices_held([state_of(server.pid)]):
        names = {one.name for one in (tmp_path / "data" / "locks").iterdir()}
    assert {"core-0.lock", "GPU-GPU-0.lock", "GPU-GPU-1.lock"} <= names
    assert "core-1.lock" not in names


def test_nvidias_gpus_are_those_that_the_environment_shows(nvml: StandIn) -> None:
    assert visible_gpus({}) == []
    for _ in range(2):
        nvml.add_gpu()
    assert visible_gpus({}) == ["GPU GPU-0", "GPU GPU-1"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == ["GPU GPU-1"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-0"}) == ["GPU GPU-0"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
