"""A machine that a test makes up: its ``/proc`` and ``/sys``, and its clocks."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.monitor.counters import Clocks
from spectui.monitor.disturbance import Cause, Disturbance, DisturbanceSummary, Kind
from spectui.monitor.readings import Reading
from spectui.monitor.watch import MachineWatch

OWN = 100
"""Number of the process that watches."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
_V1_MOUNT = "33 31 0:30 {} /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"


class Machine:
    """Two cores, on which nothing has run yet. ``run`` lets time pass."""

    def __init__(self, root: Path, *, n_cores: int = 2, has_pressure: bool = True) -> None:
        self.root = root
        self.n_cores = n_cores
        self.own_s = 0.0
        self.now_s = 1000.0
        self.slept_s = 0.0
        self.has_pressure = has_pressure
        self._processes: dict[int, tuple[str, int, int, float]] = {}
        self._busy_s = self._steal_s = 0.0
        self._memory_wait_s = 0.0
        (root / "proc").mkdir()
        self.process(1, "init", parent=0)
        self.process(OWN, "spectui", parent=1)
        self.run(0.0)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def process(
        self, pid: int, name: str, *, parent: int = 1, started: int = 5, used_s: float = 0.0
    ) -> None:
        """Have a process; what it used before does not count as the machine's work."""
        self._processes[pid] = name, parent, started, used_s
        ticks = round(used_s * TICKS_PER_S)
        self.write(
            f"proc/{pid}/stat",
            f"{pid} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 9 9\n",
        )

    def end(self, pid: int) -> None:
        (self.root / f"proc/{pid}/stat").unlink()
        (self.root / f"proc/{pid}").rmdir()
        del self._processes[pid]

    def run(
        self,
        seconds: float,
        used_s: dict[int, float] | None = None,
        *,
        own_s: float = 0.0,
        unseen_s: float = 0.0,
        steal_s: float = 0.0,
        memory_wait_s: float = 0.0,
    ) -> None:
        self.now_s += seconds
        self.own_s += own_s
        self._steal_s += steal_s
        self._memory_wait_s += memory_wait_s
        self._busy_s += own_s + unseen_s + sum((used_s or {}).values())
        for pid, took_s in (used_s or {}).items():
            name, parent, started, before_s = self._processes[pid]
            total_s = before_s + took_s
            self.process(pid, name, parent=parent, started=started, used_s=total_s)
        self.stat(self._busy_s, self._steal_s)
        if self.has_pressure:
            averages = "avg10=0.00 avg60=0.00 avg300=0.00"
            waited_us = round(self._memory_wait_s * 1e6)
            lines = f"some {averages} total={waited_us}\nfull {averages} total=7\n"
            self.write("proc/pressure/memory", lines)

    def stat(self, busy_s: float, steal_s: float) -> None:
        """What /proc/stat tells since the start; the rest of the time nothing ran."""
        idle_s = max(0.0, (self.now_s - 900.0) * self.n_cores - busy_s - steal_s)
        ticks = [round(one * TICKS_PER_S) for one in (busy_s, idle_s, steal_s)]
        row = f"{ticks[0]} 0 0 {ticks[1]} 0 0 0 {ticks[2]} 0 0"
        idle = "0 0 0 0 0 0 0 0 0 0"
        cores = [f"cpu{core} {row if core == 0 else idle}" for core in range(self.n_cores)]
        self.write("proc/stat", "\n".join([f"cpu  {row}", *cores, "intr 1 2 3", ""]))

    def clocks(self) -> Clocks:
        boot_s = self.now_s + self.slept_s
        return Clocks(self.now_s, boot_s, self.own_s)

    def watch(self) -> MachineWatch:
        """A watch that is not started: the test ticks."""
        return MachineWatch(
            root=self.root,
            own=OWN,
            clocks=self.clocks,
        )

    def limit_v2(self, *, quota: str, throttled_us: int, path: str = "user.slice/app") -> None:
        """Be in a cgroup of version 2 whose parent has a CPU limit."""
        self.write("proc/self/cgroup", f"0::/{path}\n")
        self.write("proc/self/mountinfo", f"{_V2_MOUNT}\n")
        parent = f"sys/fs/cgroup/{path.partition('/')[0]}"
        self.write(f"sys/fs/cgroup/{path}/cpu.max", "max 100000\n")
        self.write(f"sys/fs/cgroup/{path}/cpu.stat", "usage_usec 9\nthrottled_usec 0\n")
        self.write(f"{parent}/cpu.max", f"{quota}\n")
        self.write(f"{parent}/cpu.stat", f"nr_throttled 3\nthrottled_usec {throttled_us}\n")

    def limit_v1(self, *, quota_us: int, throttled_ns: int, inside: str = "/") -> None:
        """Be in a cgroup of version 1, which a container sees where ``inside`` is mounted."""
        self.write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/abc\n0::/\n")
        self.write("proc/self/mountinfo", f"{_V1_MOUNT.format(inside)}\n")
        folder = "sys/fs/cgroup/cpu" + ("" if inside == "/docker/abc" else "/docker/abc")
        self.write(f"{folder}/cpu.cfs_quota_us", f"{quota_us}\n")
        self.write(f"{folder}/cpu.cfs_period_us", "100000\n")
        self.write(f"{folder}/cpu.stat", f"nr_throttled 3\nthrottled_time {throttled_ns}\n")


_NONE = Reading(0.0)
_UNKNOWN = Reading(None, "a test's machine does not tell")
QUIET = DisturbanceSummary(
    whole=Disturbance(
        wall_s=60.0,
        n_cores=8,
        idle_share=0.5,
        own_s=240.0,
        others_s=_NONE,
        steal_s=_NONE,
        memory_pressure_s=_NONE,
        throttled_s=_NONE,
        slept_s=0.0,
        n_throttles=_UNKNOWN,
        gpu_others=_UNKNOWN,
        gpu_slowed=_UNKNOWN,
    ),
    disturbed_s=0.0,
    causes=(),
)
DISTURBED = replace(
    QUIET,
    whole=replace(QUIET.whole, others_s=Reading(12.4), own_s=107.0, slept_s=720.0),
    disturbed_s=31.0,
    causes=(
        Cause(kind=Kind.SLEPT, seconds=720.0),
        Cause(kind=Kind.PROCESS, name="cc1plus", seconds=31.0, share=0.4),
    ),
)


def seen_by_watches(monkeypatch: pytest.MonkeyPatch, summary: DisturbanceSummary) -> None:
    """Let every watch see this, however busy this machine is."""
    monkeypatch.setattr(MachineWatch, "start", lambda _watch: None)
    monkeypatch.setattr(MachineWatch, "summary", lambda _watch: summary)
