"""Watches the machine for disturbances while something is measured on it.

Once a second it compares the machine's counters. Where they show a disturbance, it looks for the
processes that caused it, at most so often that looking takes half a per cent of one core.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pynvml

from spectui.closing import Closing
from spectui.monitor import nvml
from spectui.monitor.counters import Clocks, Counters, Mark, Slow, read_clocks
from spectui.monitor.disturbance import CORE_SHARE, Cause, Causes, DisturbanceSummary, Kind, between
from spectui.monitor.nvml import Handle, NvmlError, call
from spectui.monitor.processes import Key, Processes, Scan, listening, used_s
from spectui.monitor.readings import Reading

_INTERVAL_S = 1.0
_SHORTEST_S = 0.25
"""Seconds below which nothing is compared: /proc/stat counts in steps of 10 ms, so that a
disturbance would be lost in each of many short intervals."""
_QUIET_S = 5.0
"""Age from which on a scan is renewed without a disturbance: the younger it is, the less of the CPU
time that the next scan finds was used before a disturbance."""
_SCAN_SHARE = 0.005
"""Most of a core's time that scans take."""
_NAMED_SHARE = 0.05
"""Share of one core: a process that took less is one of many."""
_STOPPED_S = 10.0
"""Delay from which on this process must have been stopped: a busy machine delays by less."""
_JOIN_S = 1.0
_THROTTLES = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count"
_NO_THROTTLES = Reading(None, "the processor does not report when heat slows it down")
_UNUSED = "this process uses no GPU"
_UNKNOWN = "in a container the driver does not know processes by their ids"
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the namespace that it boots with this number (``PROC_PID_INIT_INO``)."""


class GpuUse(NamedTuple):
    """Use of the GPUs by others since the last read."""

    others: Reading
    """Share that others took; of several GPUs, where they took most."""
    by_process: Mapping[int, float]
    """Shares of other processes by number, there."""
    slowed: Reading
    """1 where a GPU holds its clocks back because of heat or a failing supply, else 0."""


class GpuClients(Closing):
    """Asks NVML who uses the GPUs. Nothing raises: what fails is a reason."""

    def __init__(self) -> None:
        """Look for GPUs; a driver may take a second to begin."""
        self._handles: list[Handle] = []
        self._seen_us: dict[int, int] = {}
        self._reason: str | None = None
        self._session = ExitStack()
        try:
            self._session.enter_context(nvml.session())
            self._handles = nvml.gpus()
        except NvmlError as error:
            self._reason = error.reason("the GPUs")

    def read(self, own: frozenset[int]) -> GpuUse:
        """Processes that used the GPUs since the last read, besides ``own``."""
        uses, has_ids = [], driver_knows_our_ids()
        try:
            for index, gpu in enumerate(self._handles):
                shares = self._shares(index, gpu)
                clients = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu)
                if own & {one.pid for one in clients}:
                    # A container's driver may list its processes, and samples by other ids.
                    is_known = has_ids or not shares or own & shares.keys()
                    uses.append(_use(shares if is_known else None, own, _is_slowed(gpu)))
        except NvmlError as error:
            return _unknown(error.reason("the use of the GPU by processes"))
        if not uses:
            return _unknown(self._reason or (_UNUSED if has_ids else _UNKNOWN))
        most = max(uses, key=lambda use: use.others.value or 0.0)
        slowed = next((one.slowed for one in uses if one.slowed.value), most.slowed)
        return most._replace(slowed=slowed)

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _shares(self, index: int, gpu: Handle) -> Mapping[int, float]:
        """Mean share of each process since the last read; empty without a sample."""
        try:
            samples = call(pynvml.nvmlDeviceGetProcessUtilization, gpu, self._seen_us.get(index, 0))
        except NvmlError as error:
            # The binding raises success as well where there is none.
            if error.code not in {pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS}:
                raise
            return {}
        found: dict[int, list[float]] = {}
        for sample in samples:
            if sample.timeStamp > self._seen_us.get(index, 0):
                found.setdefault(int(sample.pid), []).append(sample.smUtil / 100)
        self._seen_us[index] = max([0, *(int(sample.timeStamp) for sample in samples)])
        return {pid: sum(shares) / len(shares) for pid, shares in found.items()}


def _unknown(reason: str) -> GpuUse:
    return GpuUse(Reading(None, reason), {}, Reading(None, reason))


def _use(shares: Mapping[int, float] | None, own: frozenset[int], slowed: Reading) -> GpuUse:
    if shares is None:
        return GpuUse(Reading(None, _UNKNOWN), {}, slowed)
    others = {pid: share for pid, share in shares.items() if pid not in own}
    return GpuUse(Reading(min(sum(others.values()), 1.0)), others, slowed)


def _is_slowed(gpu: Handle) -> Reading:
    with suppress(NvmlError):
        return Reading(float(any(one.is_fault for one in nvml.throttled_by(gpu))))
    return Reading(None, "the driver does not report why the GPU's clock is low")


def driver_knows_our_ids() -> bool:
    """Whether the driver lists processes by the ids that they have here."""
    try:
        return str(_PID_NAMESPACE.readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


class MachineWatch(Closing):
    """Watches from ``start`` to ``close``. ``mark`` may be called from any thread.

    Other users of a GPU are known through NVML, so for NVIDIA's GPUs alone.
    """

    def __init__(
        self,
        *,
        rpc: Sequence[str] = (),
        root: Path = Path("/"),
        own: int | None = None,
        clocks: Callable[[], Clocks] = read_clocks,
    ) -> None:
        """Open the counters, and look at the processes once.

        Args:
            rpc: ``HOST:PORT`` of RPC servers: those of this machine belong to what is measured.
            root: folder with ``proc`` and ``sys``.
            own: number of this process; None to ask the system.
            clocks: the clocks now.
        """
        servers = listening(rpc)
        self._processes = Processes(root=root, own=own, others=lambda: servers)
        self._counters = Counters(self._processes, root=root, clocks=clocks)
        self._throttle_files = tuple(root.glob(_THROTTLES))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spectui-watch", daemon=True)
        self._failure: str | None = None
        self._disturbed_s = 0.0
        self._causes = Causes()
        self._keys: dict[str, set[Key]] = {}
        """Processes that disturbed, by their names."""
        self._pending: list[tuple[float, float, bool]] = []
        """Intervals in which others had the processor, since the last scan: seconds, CPU seconds of
        others, and whether something else disturbed as well."""
        self._slow = self._read_slow()
        self._gpu_shares: Mapping[int, float] = {}
        """Shares of other processes, by their numbers."""
        self._scan, self._scan_s = self._scanned()
        """Processes, and the CPU time that it takes to look at them."""
        self._last = self.mark()
        self._whole = between(self._last, self._last)
        self._scanned_s = self._last.clocks.monotonic_s

    def start(self) -> None:
        """Begin, once."""
        self._thread.start()

    def mark(self) -> Mark:
        """The machine's counters now, for ``between``."""
        return self._counters.read(self._slow)

    def tick(self, gpus: GpuClients | None = None) -> None:
        """Compare the counters with those of the last time: what the watch's thread does.

        Args:
            gpus: finds other users of the GPUs; None to skip that.
        """
        own = frozenset(pid for pid, _ in self._processes.belonging(self._scan))
        use = None if gpus is None else gpus.read(own)
        with self._lock:
            if self._ended.is_set():
                return
            self._slow = self._read_slow()
            if use is not None:
                self._slow = self._slow._replace(gpu_others=use.others, gpu_slowed=use.slowed)
                self._gpu_shares = use.by_process
            self._compare()
            age_s = self._last.clocks.monotonic_s - self._scanned_s
            least_s = 0.0 if self._pending else _QUIET_S
            if age_s >= max(least_s, self._scan_s / _SCAN_SHARE):
                self._look()

    def summary(self) -> DisturbanceSummary:
        """How much was disturbed, and by what, until now or at most a quarter of a second ago."""
        with self._lock:
            if not self._ended.is_set():
                self._compare()
                if self._pending:
                    self._look()
            return DisturbanceSummary(
                whole=self._whole,
                disturbed_s=self._disturbed_s,
                causes=self._causes.by_loss(),
                failure=self._failure,
            )

    def close(self) -> None:
        """End the watch. A thread that hangs in a driver is left behind."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            with GpuClients() as gpus:
                while not self._ended.wait(_INTERVAL_S):
                    self.tick(gpus)
        except Exception as error:  # noqa: BLE001 - a watch that dies silently says "undisturbed"
            self._failure = f"the watch failed ({type(error).__name__}: {error})"

    def _read_slow(self) -> Slow:
        counts = _numbers(self._throttle_files)
        return Slow(n_throttles=Reading(float(sum(counts))) if counts else _NO_THROTTLES)

    def _compare(self) -> None:
        """Record disturbances since the last comparison; a later scan finds the processes."""
        mark = self.mark()
        interval = between(self._last, mark)
        wall_s, causes = interval.wall_s, interval.causes
        if wall_s < _SHORTEST_S:
            return
        self._last = mark
        self._whole += interval
        if wall_s > _STOPPED_S and interval.own_s < wall_s / 2:
            causes = (*causes, Cause(kind=Kind.STOPPED, seconds=wall_s))
        others = [cause for cause in causes if cause.kind is not Kind.UNSEEN]
        for cause in others:
            self._causes.add(self._named(cause))
        if others:
            self._disturbed_s += wall_s
        if len(others) < len(causes):
            self._pending.append((wall_s, interval.others_s.value or 0.0, bool(others)))

    def _named(self, cause: Cause) -> Cause:
        """The cause, with the name of the process that has most of the GPU."""
        shares = self._gpu_shares
        if cause.kind is not Kind.GPU_UNSEEN or not shares:
            return cause
        pid = max(shares, key=lambda one: shares[one])
        process = self._processes.read(pid)
        if process is None:
            return cause
        return replace(cause, kind=Kind.GPU_PROCESS, name=process.name, share=shares[pid])

    def _scanned(self) -> tuple[Scan, float]:
        began_s = time.thread_time()
        return self._processes.scan(), time.thread_time() - began_s

    def _look(self) -> None:
        """Scan, and name those who had the processor in the disturbed intervals since the last."""
        before = self._scan
        self._scan, self._scan_s = self._scanned()
        self._scanned_s = self._last.clocks.monotonic_s
        pending, self._pending = self._pending, []
        if not pending:
            return
        own, used = self._processes.belonging(self._scan), used_s(before, self._scan)
        wall_s = sum(seconds for seconds, _, _ in pending)
        # Children that started since the last scan were counted as others.
        mistaken_s = sum(used[key] for key in own if key not in before)
        others_s = sum(took_s for _, took_s, _ in pending) - mistaken_s
        if mistaken_s and others_s <= CORE_SHARE * wall_s:
            return
        self._disturbed_s += sum(seconds for seconds, _, is_booked in pending if not is_booked)
        self._blame({key: used[key] for key in used if key not in own}, others_s, wall_s)

    def _blame(self, used: Mapping[Key, float], others_s: float, wall_s: float) -> None:
        """Divide the CPU time of others among names, by what each used since the last scan."""
        share = min(1.0, others_s / sum(used.values())) if any(used.values()) else 0.0
        by_name: dict[str, dict[Key, float]] = {}
        for key, seconds in used.items():
            if seconds:
                by_name.setdefault(self._scan[key].name, {})[key] = seconds * share
        for name, took in by_name.items():
            took_s = sum(took.values())
            if took_s > _NAMED_SHARE * wall_s:
                keys = self._keys.setdefault(name, set())
                keys.update(took)
                self._causes.add(
                    Cause(
                        kind=Kind.PROCESS,
                        name=name,
                        n_processes=len(keys),
                        seconds=wall_s,
                        share=took_s / wall_s,
                    )
                )
                others_s -= took_s
        if others_s > _NAMED_SHARE * wall_s:
            self._causes.add(Cause(kind=Kind.UNSEEN, seconds=wall_s, share=others_s / wall_s))


def _numbers(paths: Iterable[Path]) -> list[int]:
    """A number from each file; none if one is not there any more."""
    found = []
    with suppress(OSError, ValueError):
        for path in paths:
            # Some for each of a few hundred cores at most.
            with path.open("rb", buffering=0) as file:
                found.append(int(file.read()))
        return found
    return []
