"""The live machine as a source: its host and its GPUs."""

import time
from collections.abc import Callable

from spectui.monitor.gpus import Gpus
from spectui.monitor.host import Host
from spectui.monitor.readings import Snapshot


class LiveSource:
    """Reads this machine. GPUs that are missing, refuse or get lost explain themselves."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the host's files; GPUs are looked for at the first ``read``.

        Raises:
            OSError: /proc is not there.
        """
        self._clock = clock
        self._host = Host(clock)
        self._gpus = Gpus(clock)

    def read(self) -> Snapshot:
        """Return the present snapshot."""
        now_s = self._clock()
        gpus, reason = self._gpus.read(now_s)
        return Snapshot(time_s=now_s, gpus=gpus, gpu_reason=reason, host=self._host.read())

    def close(self) -> None:
        """Close files and driver."""
        self._host.close()
        self._gpus.close()
