"""The monitor without a GPU: host, rates, history, sampler. GPUs: test_monitor_nvml."""

import os
import queue
import resource
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.monitor.host import Host, _Cores
from spectui.monitor.readings import CounterRate, HostReading, Reading, Snapshot
from spectui.monitor.sampler import LiveSource, Sampler
from tests.support.nvml import StandIn, until

pytest_plugins = ("tests.support.nvml_fixtures",)


def snapshot(swap_used_bytes: int) -> Snapshot:
    host = HostReading(
        cpu_per_core=(0.5,),
        memory_total_bytes=4,
        memory_available_bytes=3,
        swap_used_bytes=swap_used_bytes,
        disk_read_bytes_per_s=Reading(None, "no"),
        major_faults_per_s=Reading(0),
    )
    return Snapshot(gpus=(), gpu_reason="no GPU", host=host)


@given(
    start=st.integers(0, 1 << 40),
    steps=st.lists(st.tuples(st.integers(0, 1 << 40), st.floats(0.01, 10)), min_size=1),
)
def test_a_counter_gives_the_true_rates(start: int, steps: list[tuple[int, float]]) -> None:
    rate = CounterRate()
    total, now_s = start, 0.0
    assert rate.update(total, now_s).value is None
    for difference, elapsed_s in steps:
        total, now_s = total + difference, now_s + elapsed_s
        reading = rate.update(total, now_s)
        assert reading.value == pytest.approx(difference / elapsed_s, rel=1e-6)
        # A second read at the same moment gives the rate of the time before.
        assert rate.update(total + 12, now_s) == reading


def stat_text(busy_and_idle: list[tuple[int, int]]) -> bytes:
    """The sum over all cores first, guests last, as Linux has it."""
    cores = [
        f"cpu{core} {busy} 0 0 {idle} 0 0 0 0 {busy} 0"
        for core, (busy, idle) in enumerate(busy_and_idle)
    ]
    return "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *cores, "intr 1 2 3", ""]).encode()


class Proc:
    """A folder that looks like procfs, of a machine with two cores."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "self").mkdir()
        self.ticks([(0, 0), (0, 0)])
        self.write(
            "meminfo",
            "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    700 kB\n"
            "SwapCached:        9 kB\nSwapTotal:       500 kB\nSwapFree:        450 kB\n",
        )
        self.write("self/io", "rchar: 77\nread_bytes: 4096\nwrite_bytes: 5\n")
        self.write("self/stat", "7 (a) b) R 1 7 7 0 -1 4194304 500 0 3 0 1 2 0 0 20 0 1 0 9\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def ticks(self, busy_and_idle: list[tuple[int, int]]) -> None:
        (self.path / "stat").write_bytes(stat_text(busy_and_idle))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.mark.parametrize(
    ("ticks", "shares"),
    [
        ([[(0, 0), (0, 0)], [(25, 75), (100, 0)]], (0.25, 1.0)),
        ([[(25, 75), (100, 0)], [(25, 175), (150, 50)]], (0.0, 0.5)),
        # A tick or two are too short for a share.
        ([[(0, 0), (0, 0)], [(50, 50), (0, 100)], [(52, 50), (0, 102)]], (0.5, 0.0)),
        ([[(0, 0), (0, 0)], [(52, 50), (0, 102)], [(60, 50), (0, 110)]], (1.0, 0.0)),
        # A core goes offline.
        ([[(50, 50), (0, 100)], [(60, 50)]], ()),
        ([[(50, 50), (0, 100)], [(60, 50)], [(60, 60)]], (0.0,)),
    ],
)
def test_a_core_is_busy_for_its_share_of_the_time_since_the_last_read(
    proc: Proc, ticks: list[list[tuple[int, int]]], shares: tuple[float, ...]
) -> None:
    proc.ticks(ticks[0])
    host = Host(lambda: 0.0, proc=proc.path)
    assert host.read().cpu_per_core == ()
    for some in ticks[1:]:
        proc.ticks(some)
        found = host.read().cpu_per_core
    assert found == shares


@given(steps=st.lists(st.tuples(st.integers(0, 500), st.integers(-2, 500)), min_size=1))
def test_a_share_is_a_share_even_if_the_idle_time_steps_back(steps: list[tuple[int, int]]) -> None:
    cores = _Cores(stat_text([(1000, 1000)] * len(steps)))
    after = [(busy + 1000, idle + 1000) for busy, idle in steps]
    assert all(0 <= share <= 1 for share in cores.update(stat_text(after)))


def test_memory_is_in_bytes_and_reads_from_disk_are_a_rate(proc: Proc) -> None:
    now_s = [100.0]
    host = Host(lambda: now_s[-1], proc=proc.path)
    reading = host.read()
    assert reading.memory_total_bytes == 1000 * 1024
    assert reading.memory_available_bytes == 700 * 1024
    assert reading.swap_used_bytes == 50 * 1024
    assert reading.disk_read_bytes_per_s.reason == "measuring: a rate needs two samples"
    proc.write("self/io", "read_bytes: 1004096\n")
    proc.write("self/stat", "7 (a) b) R 1 7 7 0 -1 4194304 500 0 3 0 61 17 0 0 20 0 1 0 9\n")
    now_s.append(100.5)
    reading = host.read()
    assert reading.disk_read_bytes_per_s == Reading(2_000_000)
    # 75 ticks of a hundredth of a second in half a second.
    assert reading.process_cores == Reading(1.5)
    assert "does not report what a process has mapped" in str(reading.mapped_bytes.reason)
    proc.write("self/statm", "9000 700 300 7 0 500 0\n")
    assert host.read().mapped_bytes == Reading(300 * resource.getpagesize())
    # A kernel that counts no disk reads says so.
    for content, reason in (
        ("rchar: 7\n", "the kernel does not count disk reads of a process"),
        (
            None,
            "the system does not report disk reads of a process (No such file or directory)",
        ),
    ):
        if content is None:
            (proc.path / "self/io").unlink()
        else:
            proc.write("self/io", content)
        host = Host(lambda: 0.0, proc=proc.path)
        assert host.read().disk_read_bytes_per_s == Reading(None, reason)


def test_another_process_is_read_as_long_as_it_is_there(proc: Proc) -> None:
    now_s, pid = [100.0], [None, 71, 72, 73]
    (proc.path / "71").mkdir()
    proc.write("71/stat", "71 (x) R 1 7 7 0 -1 4194304 500 0 40 0 1 2 0 0 20 0 1 0 9\n")
    proc.write("71/io", "read_bytes: 100\n")
    host = Host(lambda: now_s[-1], proc=proc.path, process=lambda: pid[0])
    host.read()
    del pid[0]
    found = host.read()
    assert found.disk_read_bytes_per_s.reason == "measuring: a rate needs two samples"
    proc.write("71/stat", "71 (x) R 1 7 7 0 -1 4194304 500 0 50 0 1 2 0 0 20 0 1 0 9\n")
    proc.write("71/io", "read_bytes: 300\n")
    now_s.append(102.0)
    found = host.read()
    assert found.disk_read_bytes_per_s == Reading(100.0)
    assert found.major_faults_per_s == Reading(5.0)
    # One that has ended.
    del pid[0]
    found = host.read()
    assert found.disk_read_bytes_per_s.reason == "measuring: a rate needs two samples"


def test_a_process_that_ends_between_two_readings_is_no_failure() -> None:
    pid: int | None = None
    source = LiveSource(process=lambda: pid)
    with subprocess.Popen(["sleep", "600"]) as other:
        pid = other.pid
        source.read()
        assert source.read().host.major_faults_per_s.value is not None
        other.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        source.read()
    # This machine is read as psutil reads it.
    source.read()
    reading = source.read().host
    source.close()
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert reading.disk_read_bytes_per_s.value is not None
    assert reading.major_faults_per_s.value is not None


class ScriptedSource:
    """Counts its snapshots, and does what a test wants before each."""

    def __init__(self, before_read: Callable[[], None] = lambda: None) -> None:
        self.before_read = before_read
        self.n_reads = 0
        self.closed = threading.Event()

    def read(self) -> Snapshot:
        self.before_read()
        self.n_reads += 1
        return snapshot(self.n_reads)

    def close(self) -> None:
        self.closed.set()


class Inbox:
    """What a sampler has handed over."""

    def __init__(self) -> None:
        self.snapshots: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[str] = queue.SimpleQueue()

    def sampler(
        self,
        make_source: Callable[[], ScriptedSource | LiveSource],
        sink: Callable[[Snapshot], None] | None = None,
    ) -> Sampler:
        return Sampler(
            make_source, sink or self.snapshots.put, interval_s=3600.0, on_failure=self.failures.put
        )


def test_the_source_is_made_read_and_closed_on_the_samplers_thread() -> None:
    threads: list[str] = []

    def here() -> None:
        threads.append(threading.current_thread().name)

    def make_source() -> ScriptedSource:
        here()
        return source

    source = ScriptedSource(here)
    inbox = Inbox()
    inbox.sampler(make_source).close()
    sampler = inbox.sampler(make_source)
    assert threads == []
    sampler.start()
    assert inbox.snapshots.get(timeout=30).host.swap_used_bytes == 1
    # A new interval takes effect while the old one runs.
    sampler.interval_s = 0.001
    assert [inbox.snapshots.get(timeout=30).host.swap_used_bytes for _sample in range(3)] == [
        2,
        3,
        4,
    ]
    sampler.close()
    assert source.closed.is_set()
    assert set(threads) == {"spectui-monitor"}
    sampler.close()


def test_closing_does_not_wait_for_a_driver_that_hangs(nvml: StandIn) -> None:
    nvml.add_gpu()
    nvml.rule("nvmlDeviceGetMemoryInfo", gpu=0, hangs=True)
    inbox = Inbox()
    sampler = inbox.sampler(LiveSource)
    sampler.start()
    until(lambda: nvml.calls("nvmlDeviceGetMemoryInfo") == 1)
    sampler.close()
    thread = sampler._thread
    assert thread.is_alive()
    nvml.rule("nvmlDeviceGetMemoryInfo", gpu=0)
    thread.join()
    assert nvml.sessions() == 0
    assert inbox.snapshots.empty()
    assert inbox.failures.empty()


@pytest.mark.parametrize("where", ["source", "read", "sink"])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (BadInputError("the file is bad; use another"), "the file is bad; use another"),
        (
            RuntimeError("surprise"),
            "the monitor stopped on an error of its own (RuntimeError: surprise)",
        ),
    ],
)
def test_a_failure_ends_in_one_sentence(error: Exception, sentence: str, where: str) -> None:
    def fails(here: str) -> None:
        if here == where:
            raise error

    def make() -> ScriptedSource:
        fails("source")
        return source

    inbox, source = Inbox(), ScriptedSource(lambda: fails("read"))
    sampler = inbox.sampler(make, lambda _snapshot: fails("sink"))
    sampler.start()
    assert inbox.failures.get(timeout=30) == sentence
    sampler.close()
    assert source.closed.is_set() is (where != "source")
    assert inbox.failures.empty()
