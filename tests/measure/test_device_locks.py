"""One measurement at a time on a core or GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectui.errors import UsageError
from spectui.measure.device_locks import devices_held
from spectui.options.setup import CpuOptions
from tests.support.locks import HOLD


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
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    with other:
        with (
            pytest.raises(UsageError, match=r"another spectui measures on core 0, .*taskset"),
            devices_held(CpuOptions(cpus=(1, 0)), uses_gpus=False),
        ):
            pass
        with devices_held(CpuOptions(cpus=(1,)), uses_gpus=False):
            pass
        other.kill()
    # The system has let go of what a killed process held; and a process may hold one twice.
    with (
        devices_held(CpuOptions(cpus=(0,)), uses_gpus=False),
        devices_held(CpuOptions(cpus=(0,)), uses_gpus=True),
    ):
        pass
    locks = tmp_path / "home" / "data" / "locks"
    assert all(one.stat().st_mode & 0o077 == 0 for one in (locks, *locks.iterdir()))


def test_who_cannot_write_locks_measures_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "file"
    home.touch()
    monkeypatch.setenv("SPECTUI_HOME", str(home))
    with devices_held(CpuOptions(), uses_gpus=False):
        assert os.sched_getaffinity(0)
