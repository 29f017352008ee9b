"""The watch over the machine: what disturbed a measurement, and what cannot be told."""

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pynvml
import pytest

from spectui.monitor.counters import Clocks, read_clocks
from spectui.monitor.disturbance import Cause, Disturbance, Kind, between, joined
from spectui.monitor.processes import listening
from spectui.monitor.readings import Reading
from spectui.monitor.watch import GpuClients, MachineWatch
from tests.support.machine import DISTURBED, OWN, QUIET, TICKS_PER_S, Machine
from tests.support.nvml import StandIn, until

pytest_plugins = ("tests.support.nvml_fixtures",)

COMPILER = 200


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def during(machine: Machine, seconds: float, **what: float) -> Disturbance:
    """What two marks show around a time in which the machine runs."""
    with machine.watch() as watch:
        before = watch.mark()
        machine.run(seconds, **what)  # type: ignore[arg-type] # its keywords are numbers
        return between(before, watch.mark())


def test_a_tenth_of_a_core_disturbs_what_uses_all_cores(tmp_path: Path) -> None:
    for number, (n_cores, seconds, own_s, others_s, is_disturbed) in enumerate(
        (
            (2, 0.5, 0.9, 0.0, False),
            (2, 0.5, 0.9, 0.04, False),
            (2, 0.5, 0.9, 0.08, True),
            # Steps of the kernel's counter.
            (2, 0.05, 0.09, 0.02, False),
            # Where half of the cores are idle, others may have more.
            (32, 1.0, 4.0, 1.5, False),
            (32, 1.0, 4.0, 1.7, True),
            (32, 1.0, 31.0, 0.2, True),
        )
    ):
        root = tmp_path / str(number)
        root.mkdir()
        found = during(Machine(root, n_cores=n_cores), seconds, own_s=own_s, unseen_s=others_s)
        assert [cause.kind for cause in found.causes] == [Kind.UNSEEN] * is_disturbed
        assert found.others_s.value == pytest.approx(others_s, abs=2 / TICKS_PER_S)
        assert found.own_s == pytest.approx(own_s)


@pytest.mark.parametrize(
    ("what", "causes"),
    [
        ({"own_s": 1.6, "steal_s": 0.24}, ["the hypervisor took 24 % of a core (steal)"]),
        (
            {"own_s": 1.6, "steal_s": 0.07, "unseen_s": 0.07},
            [
                "other processes, small, short-lived or hidden, took 7 % of a core",
                "the hypervisor took 7 % of a core (steal)",
            ],
        ),
        ({"own_s": 1.0, "memory_wait_s": 0.3}, ["tasks waited for memory 30 % of the time"]),
        ({"own_s": 1.0, "memory_wait_s": 0.05}, []),
    ],
)
def test_what_disturbs_is_told(machine: Machine, what: dict[str, float], causes: list[str]) -> None:
    found = during(machine, 1.0, **what)
    assert [cause.text for cause in found.causes] == [f"{cause} for 1.0 s" for cause in causes]


def test_only_the_cores_that_we_may_use_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine's work is done on core 0.
    for own, others_s in ((0, 0.7), (1, 0.0)):
        monkeypatch.setattr("spectui.monitor.counters._affinity", lambda own=own: frozenset({own}))
        found = during(machine, 1.0, unseen_s=0.7)
        assert found.n_cores == 1
        assert found.others_s.value == pytest.approx(others_s)
    # A container's /proc may number its cores anew: the whole machine of that counts then.
    monkeypatch.setattr("spectui.monitor.counters._affinity", lambda: frozenset({70, 71}))
    found = during(machine, 1.0, unseen_s=0.7)
    assert found.n_cores == 2
    assert found.others_s.value == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("seconds", "slept_s", "causes"),
    [(1.0, 720.0, ["the machine slept for 12 min 00 s"]), (10_000.0, 0.0, [])],
)
def test_a_sleep_is_told_and_a_stop(
    machine: Machine, seconds: float, slept_s: float, causes: list[str]
) -> None:
    machine_slept = "this process was stopped, or got no processor, for 40 s"
    with machine.watch() as watch:
        before = watch.mark()
        machine.slept_s += slept_s
        machine.run(seconds, own_s=1.0)
        found = between(before, watch.mark())
    assert (found.wall_s, found.slept_s) == (seconds, slept_s)
    assert [cause.text for cause in found.causes] == causes
    with machine.watch() as watch:
        machine.run(40.0)
        watch.tick()
        assert [cause.text for cause in watch.summary().causes] == [machine_slept]


def test_a_kernel_without_pressure_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, has_pressure=False)
    found = during(machine, 1.0, own_s=1.0)
    assert found.memory_pressure_s == Reading(
        None, "the kernel does not report it (there is no /proc/pressure/memory)"
    )
    # Turned off at boot.
    machine.write("proc/pressure/memory", "")
    found = during(machine, 1.0, own_s=1.0)
    assert found.memory_pressure_s.value is None
    assert not found.causes
    document = found.document()
    assert document["pressure_memory_s"] is None
    assert "/proc/pressure/memory" in document["pressure_memory_s_reason"]


def test_counters_that_go_backwards_are_no_zeros(machine: Machine) -> None:
    machine.run(1.0, steal_s=50.0)
    # A small step back is a correction.
    assert during(machine, 1.0, own_s=1.0, steal_s=-0.02).steal_s == Reading(0.0)
    with machine.watch() as watch:
        for steal_s in (0.0, -49.0, 0.5):
            machine.run(1.0, own_s=1.0, steal_s=steal_s)
            watch.tick()
        found = watch.summary()
    # From begin to end it fell, and in its last second it rose: the sum is not known.
    assert found.whole.steal_s == Reading(None, "the system's counter of steal went backwards")
    assert [cause.kind for cause in found.causes] == [Kind.STEAL]
    with machine.watch() as watch:
        before = watch.mark()
        machine.n_cores = 1
        machine.run(1.0, own_s=1.0)
        off = "a core was turned on or off meanwhile"
        assert between(before, watch.mark()).others_s == Reading(None, off)


def test_a_sandbox_that_answers_zeros_is_not_taken_for_an_idle_machine(machine: Machine) -> None:
    with machine.watch() as watch:
        machine.run(3.0, own_s=4.0)
        machine.stat(0.0, 0.0)
        watch.tick()
        found = watch.summary()
    assert found.whole.others_s.value is None
    assert found.notes == (
        "What other processes took is not known: the system does not count the processor's time.",
    )


def test_heat_is_told_where_the_processor_reports_it(machine: Machine) -> None:
    assert during(machine, 1.0).n_throttles == Reading(
        None, "the processor does not report when heat slows it down"
    )
    counts = "sys/devices/system/cpu/cpu{}/thermal_throttle/core_throttle_count"
    for core in range(2):
        machine.write(counts.format(core), "7\n")
    with machine.watch() as watch:
        machine.run(1.0, own_s=1.0)
        watch.tick()
        machine.write(counts.format(1), "9\n")
        machine.run(1.0, own_s=1.0)
        watch.tick()
        found = watch.summary()
    assert found.whole.n_throttles == Reading(2.0)
    assert [cause.text for cause in found.causes] == [
        "the processor slowed itself down because of heat for 1.0 s"
    ]


def test_throttling_by_a_cgroup_above_counts(machine: Machine) -> None:
    assert during(machine, 1.0).throttled_s == Reading(
        None, "no cgroup with a CPU controller is visible here"
    )
    machine.limit_v2(quota="max 100000", throttled_us=0)
    unlimited = during(machine, 1.0)
    assert (unlimited.throttled_s, unlimited.n_cores) == (Reading(0.0), 2)
    machine.limit_v2(quota="50000 100000", throttled_us=1_000_000)
    with machine.watch() as watch:
        before = watch.mark()
        machine.run(4.0, own_s=2.0)
        machine.limit_v2(quota="50000 100000", throttled_us=4_100_000)
        found = between(before, watch.mark())
        # A cgroup that vanishes.
        machine.write("sys/fs/cgroup/user.slice/cpu.stat", "")
        assert between(before, watch.mark()).throttled_s.value is None
    assert found.n_cores == 0.5
    assert found.throttled_s.value == pytest.approx(3.1)
    assert [cause.text for cause in found.causes] == [
        "the cgroup's CPU limit throttled this process for 3.1 s"
    ]


@pytest.mark.parametrize("inside", ["/", "/docker/abc"])
def test_throttling_is_read_of_the_first_version_too(machine: Machine, inside: str) -> None:
    machine.limit_v1(quota_us=150_000, throttled_ns=0, inside=inside)
    with machine.watch() as watch:
        before = watch.mark()
        machine.run(1.0, own_s=1.0)
        machine.limit_v1(quota_us=150_000, throttled_ns=200_000_000, inside=inside)
        found = between(before, watch.mark())
    assert found.n_cores == 1.5
    assert found.throttled_s.value == pytest.approx(0.2)


def test_a_process_is_named_with_what_it_took(machine: Machine) -> None:
    # Processes of one name are one cause.
    with machine.watch() as watch:
        for pid in range(300, 304):
            machine.process(pid, "cc1plus")
            machine.run(1.0, {pid: 0.8}, own_s=1.2)
            watch.tick()
            machine.end(pid)
        (cause,) = watch.summary().causes
    assert cause.text == "4 other processes (cc1plus) took 80 % of a core for 4.0 s"
    machine.process(COMPILER, "cc1plus", used_s=70.0)
    with machine.watch() as watch:
        for n, used_s in ((31, 0.4), (29, 0.0)):
            for _ in range(n):
                machine.run(1.0, {COMPILER: used_s}, own_s=1.8 - used_s)
                watch.tick()
        found = watch.summary()
        (cause,) = found.causes
        assert cause.text == "another process (cc1plus) took 40 % of a core for 31 s"
        assert found.disturbed_s == pytest.approx(31.0)
        assert found.whole.wall_s == pytest.approx(60.0)
        (note,) = found.notes
        assert note == f"The machine was disturbed for 31 s of 1 min 00 s: {cause.text}."
        # What disturbed for a moment of a long time is in the document alone.
        machine.run(2000.0, own_s=2000.0)
        found = watch.summary()
        assert found.notes == ()
        assert found.document()["causes"] == [
            {
                "kind": "process",
                "name": "cc1plus",
                "n_processes": 1,
                "seconds": pytest.approx(31.0),
                "share": pytest.approx(0.4),
            }
        ]


def test_a_number_that_is_used_again_is_another_process(machine: Machine) -> None:
    machine.process(COMPILER, "backup", started=5, used_s=500.0)
    with machine.watch() as watch:
        machine.end(COMPILER)
        machine.process(COMPILER, "a) R (b\x1b[2J", started=99)
        # Some end between the listing and the reading.
        (machine.root / "proc/300").mkdir()
        machine.write("proc/301/stat", "")
        machine.run(1.0, {COMPILER: 0.6}, own_s=1.0)
        watch.tick()
        (cause,) = watch.summary().causes
    assert cause.name == "a) R (b?[2J"
    assert cause.share == pytest.approx(0.6)


def test_servers_are_our_own(machine: Machine) -> None:
    with machine.watch() as watch:
        # A keeper and its server, which the next scan finds: until then they were strangers.
        machine.process(500, "python", parent=OWN)
        machine.process(501, "llama-server", parent=500)
        machine.run(1.0, {501: 1.5}, own_s=0.1)
        watch.tick()
        for _ in range(3):
            machine.run(1.0, {501: 1.8}, own_s=0.1)
            watch.tick()
        assert watch.summary().causes == ()
        assert watch.summary().disturbed_s == 0.0
        before = watch.mark()
        machine.run(1.0, {501: 1.8})
        # Its time is among that of the children that have ended.
        machine.own_s += 1.5 + 3 * 1.8 + 1.8
        machine.end(501)
        machine.end(500)
        found = between(before, watch.mark())
    assert found.own_s == pytest.approx(1.8)
    assert not found.causes


def test_what_is_not_known_of_a_gpus_processes_has_a_reason(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = nvml.add_gpu(pid=7, own_percent=90, sampled_us=1)
    knows_ids = "spectui.monitor.watch.driver_knows_our_ids"
    with GpuClients() as gpus:

        def others() -> Reading:
            return gpus.read(frozenset({OWN})).others

        monkeypatch.setattr(knows_ids, lambda: True)
        assert others() == Reading(None, "this process uses no GPU")
        monkeypatch.setattr(knows_ids, lambda: False)
        unknown = "in a container the driver does not know processes by their ids"
        assert others() == Reading(None, unknown)
        # It lists this process by its id here, and samples by that outside.
        gpu.pid, gpu.other_pid, gpu.sampled_us = OWN, 0, 2
        assert others() == Reading(0.0)
        nvml.rule("nvmlDeviceGetProcessUtilization", code=pynvml.NVML_ERROR_NOT_SUPPORTED)
        assert others() == Reading(
            None, "the driver does not report the use of the GPU by processes"
        )


def test_another_process_on_our_gpu_is_named(
    nvml: StandIn, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.monitor.watch.driver_knows_our_ids", lambda: True)
    gpu = nvml.add_gpu(pid=OWN, own_percent=60, other_pid=COMPILER, other_percent=35)
    machine.process(COMPILER, "blender")
    with GpuClients() as gpus, machine.watch() as watch:
        for second in range(1, 13):
            gpu.sampled_us = second * 1_000_000
            machine.run(1.0, own_s=1.0)
            watch.tick(gpus)
        (cause,) = watch.summary().causes
        assert cause.text == "another process (blender) took 35 % of the GPU for 12 s"
        gpu.throttle_reasons = pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
        machine.run(1.0, own_s=1.0)
        watch.tick(gpus)
        assert Kind.GPU_SLOWED in {cause.kind for cause in watch.summary().causes}


@pytest.fixture
def bystander() -> Iterator[int]:
    """The number of a program that does nothing, in whose place a test watches."""
    with Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=PIPE) as child:
        yield child.pid


def without_own_time() -> Clocks:
    return read_clocks()._replace(own_s=0.0)


def test_a_busy_process_of_this_machine_is_found_by_its_name(
    tmp_path: Path, bystander: int
) -> None:
    # A program of a name of its own that does nothing but work, as another session's.
    program = tmp_path / "spectuibusy"
    program.write_text(f"#!{sys.executable}\nwhile True: pass\n")
    program.chmod(0o755)
    with Popen([program], stdout=DEVNULL) as child:
        try:
            with MachineWatch(own=bystander, clocks=without_own_time) as watch:
                watch.start()
                until(lambda: any(one.name == program.name for one in watch.summary().causes))
                found = watch.summary()
            (cause,) = (cause for cause in found.causes if cause.name == program.name)
            assert cause.n_processes == 1
            assert 0.0 < cause.seconds <= found.disturbed_s <= found.whole.wall_s
            assert cause.text.startswith("another process (spectuibusy) took ")
            # Our own children disturb nobody.
            with MachineWatch() as watch:
                before = watch.mark()
                until(lambda: between(before, watch.mark()).own_s > 0.2)
                assert all(cause.name != program.name for cause in watch.summary().causes)
        finally:
            child.kill()


def test_a_watch_that_fails_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_watch: MachineWatch, _gpus: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("spectui.monitor.watch._INTERVAL_S", 0.001)
    monkeypatch.setattr(MachineWatch, "tick", fail)
    with machine.watch() as watch:
        watch.start()
        until(lambda: watch.summary().failure is not None)
        (note,) = watch.summary().notes
    assert note == "The machine was not watched to the end: the watch failed (RuntimeError: no)."


def test_who_asks_often_loses_no_disturbance(machine: Machine) -> None:
    """The kernel's steps of 10 ms are too coarse to tell anything of a few milliseconds."""
    machine.process(COMPILER, "cc1plus")
    with machine.watch() as watch:
        for _ in range(150):
            machine.run(0.01, {COMPILER: 0.005}, own_s=0.01)
            watch.summary()
        (cause,) = watch.summary().causes
    assert cause.name == "cc1plus"
    assert cause.seconds == pytest.approx(1.5, abs=0.3)


def test_the_largest_causes_are_told(machine: Machine) -> None:
    names = ("one", "two", "three", "four", "five", "six")
    for number, name in enumerate(names):
        machine.process(COMPILER + number, name)
    took_s = {COMPILER + number: 0.30 - number / 25 for number in range(len(names))}
    with machine.watch() as watch:
        machine.run(1.0, took_s, own_s=0.5)
        watch.tick()
        (note,) = watch.summary().notes
    assert [name in note for name in names] == [True] * 2 + [False] * 4
    assert note.endswith("; and 4 more causes.")


def test_summaries_of_several_measurements_are_one() -> None:
    crowded = replace(
        QUIET,
        disturbed_s=30.0,
        causes=(
            Cause(kind=Kind.PROCESS, name="cc1plus", seconds=10.0, share=0.9),
            Cause(kind=Kind.MEMORY, seconds=30.0, share=0.5),
        ),
        failure="it ended",
    )
    found = joined([DISTURBED, QUIET, crowded])
    assert found is not None
    assert (found.whole.wall_s, found.disturbed_s, found.failure) == (180.0, 61.0, "it ended")
    assert found.share == pytest.approx(61 / 180)
    slept, compiler, memory = found.causes
    assert (slept.kind, slept.share) == (Kind.SLEPT, None)
    assert (compiler.name, compiler.seconds) == ("cc1plus", 41.0)
    assert compiler.share == pytest.approx((31 * 0.4 + 10 * 0.9) / 41)
    assert memory.kind is Kind.MEMORY
    assert joined([]) is None


def test_who_listens_at_an_endpoint_of_this_machine_belongs_to_it(bystander: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rpc = [f"127.0.0.1:{port}"]
        assert listening(rpc) == listening([f"localhost:{port}"]) == {os.getpid()}
        # Another machine's, of the same number.
        assert not listening([f"192.0.2.1:{port}"])
        # Seen from another process, this one is a stranger that listens.
        for own in (rpc, []):
            with MachineWatch(own=bystander, rpc=own) as watch:
                assert (os.getpid() in {key[0] for key in watch.mark().started}) is bool(own)
    assert not listening(rpc)
    assert not listening([])
