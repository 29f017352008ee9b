"""The monitor without a GPU: host, rates, history, sampler, recordings. GPUs: test_monitor_nvml."""

import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.known import Known
from spectui.monitor.host import Host, _Cores
from spectui.monitor.machine import Machine
from spectui.monitor.readings import (
    CounterRate,
    GpuReading,
    GpuSource,
    HostReading,
    Reading,
    Ring,
    Snapshot,
    Throttle,
)
from spectui.monitor.recording import RecordedSource, Recorder, load
from spectui.monitor.sampler import LiveSource, Sampler
from tests.support import constructed
from tests.support.nvml import StandIn, environment, until

pytest_plugins = ("tests.support.nvml_fixtures",)

TOOL = Path(__file__).parent.parent.parent / "tools" / "record_monitor.py"
MACHINE = Machine(cpu="a CPU", n_cores=2, memory_bytes=1 << 34, gpus=())
AGES_S = 3600.0


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def host_reading() -> HostReading:
    return HostReading(
        cpu_per_core=(0.5,),
        memory_total_bytes=4,
        memory_available_bytes=3,
        swap_used_bytes=0,
        process_rss_bytes=2,
        process_anonymous_bytes=Reading(1),
        disk_read_bytes_per_s=Reading(None, "no"),
        major_faults_per_s=Reading(0),
    )


def snapshot(time_s: float) -> Snapshot:
    return Snapshot(time_s=time_s, gpus=(), gpu_reason="no GPU", host=host_reading())


# -- rates and history


@given(
    start=st.integers(0, (1 << 32) - 1),
    steps=st.lists(st.tuples(st.integers(0, (1 << 32) - 1), st.floats(0.01, 10)), min_size=1),
)
def test_a_32_bit_counter_gives_the_true_rates_however_it_wraps(
    start: int, steps: list[tuple[int, float]]
) -> None:
    rate = CounterRate(is_32_bit=True)
    total, now_s = start, 0.0
    rate.update(total, now_s)
    for difference, elapsed_s in steps:
        total, now_s = total + difference, now_s + elapsed_s
        reading = rate.update(total % (1 << 32), now_s)
        assert reading.value == pytest.approx(difference / elapsed_s, rel=1e-6)


def test_two_reads_at_the_same_moment_give_the_rate_of_the_time_before() -> None:
    rate = CounterRate()
    rate.update(0, 1.0)
    assert rate.update(10, 2.0) == Reading(10)
    assert rate.update(12, 2.0) == Reading(10)
    assert rate.update(20, 3.0) == Reading(10)


@given(
    capacity=st.integers(1, 20),
    values=st.lists(st.none() | st.floats(allow_nan=False), max_size=60),
)
def test_a_ring_keeps_the_last_samples_in_order(capacity: int, values: list[float | None]) -> None:
    ring = Ring(capacity)
    for value in values:
        ring.append(value)
    kept = values[-capacity:]
    assert ring.values() == tuple(kept)
    assert len(ring) == len(kept)
    assert ring.maximum() == max((value for value in kept if value is not None), default=None)


# -- the host


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
        self.write("self/statm", "900 50 20 1 0 70 0\n")
        self.write("self/io", "rchar: 77\nread_bytes: 4096\nwrite_bytes: 5\n")
        self.write("self/stat", "7 (a) b) R 1 7 7 0 -1 4194304 500 0 3 0 1 2 0 0 20 0 1 0 9\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def ticks(self, busy_and_idle: list[tuple[int, int]]) -> None:
        (self.path / "stat").write_bytes(stat_text(busy_and_idle))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.fixture
def host(proc: Proc) -> Iterator[Host]:
    host = Host(Clock(), proc=proc.path)
    yield host
    host.close()


def test_memory_is_in_bytes_and_what_is_mapped_does_not_count_as_anonymous(host: Host) -> None:
    reading = host.read()
    assert reading.memory_total_bytes == 1000 * 1024
    assert reading.memory_available_bytes == 700 * 1024
    assert reading.swap_used_bytes == 50 * 1024
    assert reading.process_rss_bytes == 50 * resource.getpagesize()
    assert reading.process_anonymous_bytes == Reading(30 * resource.getpagesize())


def test_a_core_is_busy_for_its_share_of_the_time_since_the_last_read(
    proc: Proc, host: Host
) -> None:
    assert host.read().cpu_per_core == ()
    proc.ticks([(25, 75), (100, 0)])
    assert host.read().cpu_per_core == (0.25, 1.0)
    proc.ticks([(25, 175), (150, 50)])
    assert host.read().cpu_per_core == (0.0, 0.5)


def test_a_tick_or_two_are_too_short_for_a_share(proc: Proc, host: Host) -> None:
    proc.ticks([(50, 50), (0, 100)])
    assert host.read().cpu_per_core == (0.5, 0.0)
    proc.ticks([(52, 50), (0, 102)])
    assert host.read().cpu_per_core == (0.5, 0.0)
    proc.ticks([(60, 50), (0, 110)])
    assert host.read().cpu_per_core == (1.0, 0.0)


def test_a_core_that_goes_offline_leaves_no_wrong_shares(proc: Proc, host: Host) -> None:
    proc.ticks([(50, 50), (0, 100)])
    host.read()
    proc.ticks([(60, 50)])
    assert host.read().cpu_per_core == ()
    proc.ticks([(60, 60)])
    assert host.read().cpu_per_core == (0.0,)


@given(steps=st.lists(st.tuples(st.integers(0, 500), st.integers(-2, 500)), min_size=1))
def test_a_share_is_a_share_even_if_the_idle_time_steps_back(steps: list[tuple[int, int]]) -> None:
    cores = _Cores(stat_text([(1000, 1000)] * len(steps)))
    after = [(busy + 1000, idle + 1000) for busy, idle in steps]
    assert all(0 <= share <= 1 for share in cores.update(stat_text(after)))


def test_disk_reads_are_a_rate(proc: Proc) -> None:
    clock = Clock()
    host = Host(clock, proc=proc.path)
    assert host.read().disk_read_bytes_per_s.reason == "measuring: a rate needs two samples"
    proc.write("self/io", "read_bytes: 1004096\n")
    clock.now_s += 0.5
    assert host.read().disk_read_bytes_per_s == Reading(2_000_000)
    host.close()


def test_a_kernel_that_counts_no_disk_reads_says_so(proc: Proc) -> None:
    (proc.path / "self/io").unlink()
    host = Host(Clock(), proc=proc.path)
    assert host.read().disk_read_bytes_per_s == Reading(
        None, "the system does not report disk reads of a process (No such file or directory)"
    )
    proc.write("self/io", "rchar: 7\n")
    host.close()
    host = Host(Clock(), proc=proc.path)
    assert host.read().disk_read_bytes_per_s == Reading(
        None, "the kernel does not count disk reads of a process"
    )
    host.close()


def test_another_process_is_read_as_long_as_it_is_there(proc: Proc) -> None:
    clock, pid = Clock(), [None, 71, 72, 73]
    (proc.path / "71").mkdir()
    proc.write("71/statm", "9 7 2 1 0 7 0\n")
    proc.write("71/stat", "71 (x) R 1 7 7 0 -1 4194304 500 0 40 0 1 2 0 0 20 0 1 0 9\n")
    proc.write("71/io", "read_bytes: 100\n")
    host = Host(clock, proc=proc.path, process=lambda: pid[0])
    page = resource.getpagesize()
    assert host.read().process_rss_bytes == 50 * page
    del pid[0]
    found = host.read()
    assert found.process_rss_bytes == 7 * page
    assert found.disk_read_bytes_per_s.reason == "measuring: a rate needs two samples"
    proc.write("71/stat", "71 (x) R 1 7 7 0 -1 4194304 500 0 50 0 1 2 0 0 20 0 1 0 9\n")
    proc.write("71/io", "read_bytes: 300\n")
    clock.now_s += 2.0
    found = host.read()
    assert found.disk_read_bytes_per_s == Reading(100.0)
    assert found.major_faults_per_s == Reading(5.0)
    # One that has ended.
    del pid[0]
    assert host.read().process_rss_bytes == 50 * page
    host.close()


def test_a_process_that_ends_between_two_readings_is_no_failure() -> None:
    pid: int | None = None
    source = LiveSource(process=lambda: pid)
    with subprocess.Popen(["sleep", "600"]) as other:
        pid = other.pid
        ours = psutil.Process().memory_info().rss
        assert source.read().host.process_rss_bytes < ours
        other.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert source.read().host.process_rss_bytes < ours
    assert source.read().host.process_rss_bytes > ours / 2
    source.close()


def test_this_machine_is_read_as_psutil_reads_it() -> None:
    source = LiveSource()
    source.read()
    reading = source.read().host
    source.close()
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert 0 < reading.process_anonymous_bytes.value < reading.process_rss_bytes  # type: ignore[operator]
    assert reading.disk_read_bytes_per_s.value is not None
    assert reading.major_faults_per_s.value is not None


# -- the sampler


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
        self, make_source: Callable[[], ScriptedSource | LiveSource], interval_s: float = AGES_S
    ) -> Sampler:
        return Sampler(
            make_source,
            self.snapshots.put,
            interval_s=interval_s,
            on_failure=self.failures.put,
        )

    def next_time_s(self) -> float:
        return self.snapshots.get(timeout=30).time_s

    def failure(self) -> str:
        return self.failures.get(timeout=30)


def fail(error: Exception) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


def test_the_source_is_made_read_and_closed_on_the_samplers_thread() -> None:
    threads: list[str] = []

    def here() -> None:
        threads.append(threading.current_thread().name)

    def make_source() -> ScriptedSource:
        here()
        return source

    source = ScriptedSource(here)
    inbox = Inbox()
    sampler = inbox.sampler(make_source)
    assert threads == []
    sampler.start()
    assert inbox.next_time_s() == 1
    sampler.close()
    assert source.closed.is_set()
    assert threads == ["spectui-monitor", "spectui-monitor"]


def test_a_new_interval_takes_effect_while_the_old_one_runs() -> None:
    inbox = Inbox()
    sampler = inbox.sampler(ScriptedSource)
    sampler.start()
    assert inbox.next_time_s() == 1
    sampler.interval_s = 0.001
    assert [inbox.next_time_s() for _sample in range(3)] == [2, 3, 4]
    assert sampler.interval_s == 0.001
    sampler.close()


def test_closing_before_the_start_or_twice_is_fine() -> None:
    inbox = Inbox()
    inbox.sampler(ScriptedSource).close()
    sampler = inbox.sampler(ScriptedSource)
    sampler.start()
    sampler.close()
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
def test_a_failing_source_ends_in_one_sentence(error: Exception, sentence: str) -> None:
    inbox = Inbox()
    source = ScriptedSource(fail(error))
    sampler = inbox.sampler(lambda: source)
    sampler.start()
    assert inbox.failure() == sentence
    sampler.close()
    assert source.closed.is_set()
    assert inbox.failures.empty()


def test_a_source_that_cannot_be_made_ends_in_one_sentence(tmp_path: Path) -> None:
    inbox = Inbox()
    path = tmp_path / "none.jsonl"
    sampler = Sampler(
        lambda: RecordedSource(path), inbox.snapshots.put, on_failure=inbox.failures.put
    )
    sampler.start()
    assert inbox.failure().startswith(f"cannot read the recording {path} (No such file")
    sampler.close()


def test_a_failing_sink_ends_in_one_sentence() -> None:
    inbox = Inbox()

    def sink(_snapshot: Snapshot) -> None:
        raise RuntimeError("full")

    sampler = Sampler(ScriptedSource, sink, on_failure=inbox.failures.put)
    sampler.start()
    assert inbox.failure().endswith("(RuntimeError: full)")
    sampler.close()


def test_a_failure_after_closing_is_silent() -> None:
    inbox = Inbox()
    reading, may_fail = threading.Event(), threading.Event()

    def wait_and_fail() -> None:
        reading.set()
        may_fail.wait()
        raise RuntimeError("too late")

    sampler = inbox.sampler(lambda: ScriptedSource(wait_and_fail))
    sampler.start()
    reading.wait()
    sampler._closed = True
    may_fail.set()
    sampler.close()
    assert inbox.failures.empty()


# -- recordings

finite = st.floats(allow_nan=False, allow_infinity=False)
readings = st.builds(Reading, st.none() | finite, st.none() | st.text(max_size=20))
gpus = st.builds(
    GpuReading,
    index=st.integers(0, 7),
    name=st.text(max_size=20),
    source=st.sampled_from(GpuSource),
    address=st.none() | st.just("0000:01:00.0"),
    in_ram=st.booleans(),
    devices=st.lists(st.text(max_size=20), max_size=3).map(tuple),
    memory_source=st.none() | st.sampled_from(GpuSource),
    throttled_by=st.builds(
        Known[tuple[Throttle, ...]],
        st.none() | st.lists(st.sampled_from(Throttle), max_size=3).map(tuple),
        st.none() | st.text(max_size=20),
    ),
    **{field.name: readings for field in fields(GpuReading) if field.type is Reading},
)
sizes = st.integers(0, 1 << 50)
hosts = st.builds(
    HostReading,
    cpu_per_core=st.lists(st.floats(0, 1), max_size=4).map(tuple),
    memory_total_bytes=sizes,
    memory_available_bytes=sizes,
    swap_used_bytes=sizes,
    process_rss_bytes=sizes,
    process_anonymous_bytes=readings,
    disk_read_bytes_per_s=readings,
    major_faults_per_s=readings,
)
machines = st.builds(
    Snapshot,
    time_s=st.just(0.0),
    gpus=st.lists(gpus, max_size=2).map(tuple),
    gpu_reason=st.none() | st.text(max_size=20),
    host=hosts,
)


class Listed:
    """A source that plays a list."""

    def __init__(self, snapshots: list[Snapshot]) -> None:
        self._snapshots = iter(snapshots)
        self.closed = False

    def read(self) -> Snapshot:
        return next(self._snapshots)

    def close(self) -> None:
        self.closed = True


def record(path: Path, snapshots: list[Snapshot]) -> Path:
    source = Listed(snapshots)
    recorder = Recorder(path, source, machine=MACHINE)
    assert [recorder.read() for _snapshot in snapshots] == snapshots
    recorder.close()
    assert source.closed
    return path


@given(made=st.lists(machines, min_size=1, max_size=4))
def test_what_is_recorded_loads_back_equal(
    made: list[Snapshot], tmp_path_factory: pytest.TempPathFactory
) -> None:
    snapshots = [replace(snapshot, time_s=float(time_s)) for time_s, snapshot in enumerate(made)]
    path = record(tmp_path_factory.mktemp("recording") / "a.jsonl", snapshots)
    header, loaded = load(path)
    assert (header.schema, header.machine, header.recorded) == (
        "spectui.monitor/1",
        MACHINE,
        "live",
    )
    assert loaded == tuple(snapshots)


def played(path: Path, elapsed_s: list[float], *, loop: bool) -> list[str | None]:
    """Which snapshots, by their label, a recording shows after so many seconds."""
    clock = Clock()
    source = RecordedSource(path, clock=clock, loop=loop)
    labels = []
    for after_s in elapsed_s:
        clock.now_s = 100.0 + after_s
        reading = source.read()
        assert reading.time_s == clock.now_s
        labels.append(reading.gpu_reason)
    source.close()
    return labels


def labelled(*times_s: float) -> list[Snapshot]:
    return [replace(snapshot(time_s), gpu_reason=f"at {time_s:g}") for time_s in times_s]


def test_a_recording_plays_by_its_own_time_stamps_and_begins_again(tmp_path: Path) -> None:
    path = record(tmp_path / "a.jsonl", labelled(50.0, 50.5, 52.0))
    # The last one lasts for the mean interval, which is one second.
    assert played(path, [0.0, 0.4, 0.5, 1.9, 2.0, 2.9, 3.0, 3.6, 30.0], loop=True) == [
        "at 50", "at 50", "at 50.5", "at 50.5", "at 52", "at 52", "at 50", "at 50.5", "at 50",
    ]  # fmt: skip


def test_a_recording_that_does_not_loop_stays_at_its_end(tmp_path: Path) -> None:
    path = record(tmp_path / "a.jsonl", labelled(50.0, 50.5))
    assert played(path, [0.0, 0.5, 99.0], loop=False) == ["at 50", "at 50.5", "at 50.5"]


def test_a_recording_of_one_snapshot_shows_it_for_ever(tmp_path: Path) -> None:
    path = record(tmp_path / "a.jsonl", labelled(7.0))
    assert played(path, [0.0, 0.9, 1.0, 77.7], loop=True) == ["at 7"] * 4


def test_a_recording_cut_off_by_a_crash_has_what_came_before(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.jsonl", Listed([snapshot(1.0)]), machine=MACHINE)
    recorder.read()
    assert load(tmp_path / "a.jsonl")[1] == (snapshot(1.0),)
    recorder.close()


def test_a_recording_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.jsonl"
    with pytest.raises(BadInputError, match=r"cannot write the recording .*; give another path"):
        Recorder(path, Listed([]), machine=MACHINE)


def edited(line: bytes, **changes: object) -> bytes:
    return json.dumps(json.loads(line) | changes).encode()


BAD = [
    pytest.param(lambda head, _line: [head], "holds no snapshot", id="only a header"),
    pytest.param(lambda _head, _line: [], "holds no snapshot", id="empty"),
    pytest.param(
        lambda _head, line: [line, line], "line 1: Object contains unknown", id="headless"
    ),
    pytest.param(
        lambda head, line: [edited(head, schema="spectui.monitor/2"), line],
        "line 1: Invalid enum value 'spectui.monitor/2'",
        id="another schema",
    ),
    pytest.param(
        lambda head, line: [edited(head, recorded="guessed"), line],
        "line 1: Invalid enum value 'guessed'",
        id="another origin",
    ),
    pytest.param(
        lambda head, line: [head, line[:-9]], "line 2: Input data was truncated", id="cut"
    ),
    pytest.param(lambda head, _line: [head, b"hello"], "line 2: JSON is malformed", id="not JSON"),
    pytest.param(lambda head, line: [head, b"", line], "line 2: Input data was", id="empty line"),
    pytest.param(
        lambda head, line: [head, line, edited(line, time_s="later")],
        "line 3: Expected `float`, got `str` - at `$.time_s`",
        id="wrong type",
    ),
    pytest.param(
        lambda head, line: [head, line, edited(line, host=None)],
        "line 3: Expected `object`, got `null` - at `$.host`",
        id="no host",
    ),
    pytest.param(
        lambda head, line: [head, line, line],
        "line 3: time_s does not grow",
        id="time stands still",
    ),
    pytest.param(
        lambda head, _line: [head, b'{"x":' + b"[" * 100_000],
        "line 2: maximum recursion depth",
        id="deep nesting",
    ),
    pytest.param(
        lambda head, line: [head, line.replace(b"no GPU", b"\xff")], "line 2: ", id="not UTF-8"
    ),
]


@pytest.mark.parametrize(("damage", "reason"), BAD)
def test_a_bad_recording_is_named_by_line_reason_and_remedy(
    tmp_path: Path, damage: Callable[[bytes, bytes], list[bytes]], reason: str
) -> None:
    path = record(tmp_path / "a.jsonl", [snapshot(1.0)])
    head, line = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(damage(head, line)))
    with pytest.raises(BadInputError) as raised:
        RecordedSource(path)
    message = str(raised.value)
    assert message.startswith(f"{path}")
    assert reason in message
    assert message.endswith("; give a file that tools/record_monitor.py has written")


@given(damage=st.data())
def test_a_damaged_byte_is_an_error_of_ours_or_harmless(damage: st.DataObject) -> None:
    data = bytearray(b"".join(constructed.PATH.read_bytes().splitlines(keepends=True)[:3]))
    data[damage.draw(st.integers(0, len(data) - 1))] = damage.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with suppress(BadInputError):
            RecordedSource(Path(file.name))


def test_the_constructed_recording_is_what_its_generator_makes_and_says_so() -> None:
    header, snapshots = load(constructed.PATH)
    assert header.recorded == "constructed"
    assert header.machine == constructed.MACHINE
    assert "constructed, not measured" in header.machine.gpus[0]
    assert snapshots == tuple(constructed.snapshots())


def test_the_constructed_recording_stays_within_its_hardware() -> None:
    for snapshot in constructed.snapshots():
        (gpu,) = snapshot.gpus
        assert (gpu.memory_used_bytes.value or 0) < (gpu.memory_total_bytes.value or 0)
        assert (gpu.pcie_rx_bytes_per_s.value or 0) < (gpu.pcie_limit_bytes_per_s.value or 0)
        assert 90 <= (gpu.power_w.value or 0) <= 180
        assert all(0 <= share <= 1 for share in snapshot.host.cpu_per_core)


# -- the tool


def run_tool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(folder)
    )


def test_the_tool_records_this_machine(nvml_library: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    done = run_tool(nvml_library.parent, str(path), "--seconds", "0.1", "--hz", "20")
    assert done.returncode == 0, done.stderr
    assert "2 samples; GPUs: Stand-in GPU" in done.stdout
    header, snapshots = load(path)
    assert header.recorded == "live"
    assert header.machine.gpus == ("Stand-in GPU",)
    # The machine may have others.
    assert [snapshot.gpus[0].name for snapshot in snapshots] == ["Stand-in GPU"] * 2


def test_the_tool_says_what_is_wrong(tmp_path: Path) -> None:
    done = run_tool(tmp_path, str(tmp_path / "missing" / "a.jsonl"))
    assert done.returncode == BadInputError.exit_code
    assert done.stderr.startswith("cannot write the recording")
    assert run_tool(tmp_path, "a.jsonl", "--hz", "0").returncode == 2
