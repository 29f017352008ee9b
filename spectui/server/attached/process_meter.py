"""What the server's process takes of its machine."""

from spectui.monitor.readings import Reading
from spectui.server.attached.sample import Answer, ProcessSample, Whereabouts
from spectui.server.attached.state import HostState


class ProcessMeter:
    """Makes rates of readings that are a second old at most."""

    def __init__(self) -> None:
        """Start without a reading."""
        self._last: tuple[float, ProcessSample] | None = None
        self._state = HostState()

    def lose(self, reason: str) -> HostState:
        """Return what is known while nothing is told: where the server was."""
        self._last = None
        self._state = HostState(
            is_here=self._state.is_here,
            process=Answer(None, reason),
            read_bytes_per_s=Reading(None, reason),
        )
        return self._state

    def add(self, time_s: float, where: Whereabouts) -> HostState:
        """Take what was told at ``time_s``."""
        now, before = where.process.value, self._last
        if now is None:
            self._last = None
            reason = where.process.reason
            self._state = HostState(
                is_here=where.is_here,
                process=where.process,
                read_bytes_per_s=Reading(None, reason),
            )
        elif before is None or before[1] is not now:
            # The same one comes until the process is looked at again, once per second.
            self._last = time_s, now
            self._state = _host_state(before, time_s, now)
        return self._state


def _host_state(
    before: tuple[float, ProcessSample] | None, time_s: float, now: ProcessSample
) -> HostState:
    unknown = Reading(None, now.read_bytes.reason or "a rate needs two readings")
    if before is None or before[1].pid != now.pid or time_s <= before[0]:
        return HostState(is_here=True, process=Answer(now), read_bytes_per_s=unknown)
    seconds, then = time_s - before[0], before[1]
    read, had_read = now.read_bytes.value, then.read_bytes.value
    known = read is not None and had_read is not None
    return HostState(
        is_here=True,
        process=Answer(now),
        cores=max(now.cpu_s - then.cpu_s, 0.0) / seconds,
        read_bytes_per_s=Reading(max((read or 0) - (had_read or 0), 0) / seconds)
        if known
        else unknown,
    )
