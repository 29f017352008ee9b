"""The limit of the machine's RAM: how it is measured, when, and how it is kept."""

import itertools
from pathlib import Path

import pytest

from spectui.monitor import dram
from spectui.monitor.dram import RamGauge, keep_limit, kept_limit
from spectui.paths import cache_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def test_several_times_what_caches_hold_is_read(tmp_path: Path) -> None:
    assert dram.measured_bytes(tmp_path) == 512 << 20
    for name, caches, n_bytes in (
        # Two groups of two processors, each with 32 MiB.
        ("two", (("0-1", "32768K"), ("0-1", "32768K"), ("2-3", "32768K")), 256 << 20),
        ("small", (("0", "1024K"),), 64 << 20),
        ("huge", (("0", "1048576K"),), 512 << 20),
    ):
        for number, (group, size) in enumerate(caches):
            folder = tmp_path / name / f"cpu{number}" / "cache" / "index3"
            folder.mkdir(parents=True)
            (folder / "shared_cpu_list").write_text(f"{group}\n")
            (folder / "size").write_text(f"{size}\n")
        assert dram.measured_bytes(tmp_path / name) == n_bytes
    # Not every machine tells.
    (tmp_path / "small" / "cpu0" / "cache" / "index3" / "size").unlink()
    assert dram.measured_bytes(tmp_path / "small") == 512 << 20


def test_the_best_pass_over_ram_counts() -> None:
    n_bytes = 1 << 22
    # Eight passes, of 2, 1, 4 and five times 3 seconds.
    taken = enumerate((2.0, 1.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0))
    clock = iter([0.0, *(at for n, s in taken for at in (10.0 * n, 10.0 * n + s))])
    assert dram.ram_bytes_per_s(2, n_bytes, clock=lambda: next(clock)) == n_bytes
    # Memory without room is not measured.
    assert dram.ram_bytes_per_s(2, 1 << 60) is None


@pytest.mark.parametrize("step_s", [0.01, 0.05, 0.2, 1.0])
def test_measuring_ends_when_its_time_is_over(step_s: float) -> None:
    """Time passes with each look at the clock; fewer than half of the bytes are not measured."""
    times = itertools.count(0.0, step_s)
    looks: list[float] = []

    def clock() -> float:
        looks.append(next(times))
        return looks[-1]

    found = dram.ram_bytes_per_s(1, 32 << 20, longest_s=0.3, clock=clock)
    # Eight steps to fill in at most half of the time, a pass, and one that began in time.
    assert looks[-1] <= 0.3 + 4 * step_s
    assert (found is None) == (step_s > 0.03)


def test_what_was_measured_is_kept_for_its_machine_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A folder that takes no file costs nothing but the next measurement.
    cache_dir().parent.mkdir(parents=True)
    cache_dir().write_text("not a folder")
    keep_limit("abc", 8, 5e10)
    assert kept_limit("abc", 8) is None
    cache_dir().unlink()
    # It is measured until the machine was idle.
    measured = iter((1e10, 5e10))
    monkeypatch.setattr(dram, "ram_bytes_per_s", lambda _n_threads: next(measured))
    assert dram.ram_limit("abc", 8, is_idle=lambda: False) == 1e10
    assert dram.ram_limit("abc", 8, is_idle=lambda: True) == 5e10
    assert dram.ram_limit("abc", 8) == 5e10
    keep_limit("abc", 4, 4e10)
    assert (kept_limit("abc", 8), kept_limit("abc", 4)) == (5e10, 4e10)
    assert kept_limit("abc", 6) is None
    assert kept_limit("other", 8) is None
    keep_limit("other", 8, 1e10)
    assert kept_limit("other", 8) == 1e10
    assert kept_limit("abc", 8) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff\xfe", b'{"machine": "abc", "bytes_per_s": {"8": -1}}'],
)
def test_a_file_that_holds_something_else_is_nothing_and_is_written_anew(content: bytes) -> None:
    cache_dir().mkdir(parents=True)
    (cache_dir() / "ram.json").write_bytes(content)
    assert kept_limit("abc", 8) is None
    keep_limit("abc", 8, 5e10)
    assert kept_limit("abc", 8) == 5e10


def test_it_is_measured_once_an_idle_machine_and_told_every_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    measured: list[int] = []

    def measure(n_threads: int, *, longest_s: float) -> float:
        assert longest_s <= 0.3
        measured.append(n_threads)
        return n_threads * 1e10

    monkeypatch.setattr(dram, "ram_bytes_per_s", measure)
    # One that is busy before, or meanwhile, is asked again. Other threads are another limit.
    idle = iter((False, True, False, *[True] * 4))
    gauge = RamGauge(limits.append, is_idle=lambda: next(idle))
    for n_threads, n_measured, known in (
        (4, 0, []),
        (4, 1, []),
        (4, 2, [4e10]),
        (4, 2, [4e10, 4e10]),
        (2, 3, [4e10, 4e10, 2e10]),
    ):
        gauge.ask(n_threads)
        gauge.close()
        assert (len(measured), limits) == (n_measured, known)
    # Another start, which need not look whether it is idle.
    later = RamGauge(limits.append, is_idle=lambda: next(iter(())))
    later.ask(4)
    later.close()
    assert (len(measured), limits[3:]) == (3, [4e10])
