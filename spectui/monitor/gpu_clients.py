"""Other processes on the GPUs that this one uses, and whether those GPUs hold their clocks back."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pynvml

from spectui.closing import Closing
from spectui.monitor import nvml
from spectui.monitor.nvml import Handle, NvmlError, call
from spectui.monitor.readings import Reading

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
        """Mean share of each process since the last read; without a sample there is nobody."""
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
