"""Leases: whoever measures a trial, or conducts a study, says so again and again.

A lease is a value in the storage, with a counter that its holder raises every ``RENEW_S``. Who
wants to know whether a holder is gone looks at the counter for ``STALE_S`` of its own time, so
that neither clocks that differ nor one that jumps ends a lease. On the same machine a process that
has ended is seen at once.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Self

import psutil

from spectui.closing import Closing

RENEW_S = 10.0
STALE_S = 60.0

Owner = dict[str, Any]
"""Holder as it is stored: ``host``, ``pid`` and ``started`` of its process, a random ``id``,
``worker`` for one that joined, ``isolated`` models, and the counter ``beat``."""


def this_process(*, isolated: bool, worker: bool) -> Owner:
    """This process as a holder of leases; every call makes another one."""
    return {
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
        "id": secrets.token_hex(8),
        "worker": worker,
        "isolated": isolated,
        "beat": 0,
    }


def has_ended(owner: Owner | None) -> bool:
    """Whether a holder was a process of this machine that runs no more."""
    if not owner or owner.get("host") != os.uname().nodename:
        return False
    pid, started = owner["pid"], owner.get("started")
    if pid == os.getpid():
        return started is None or started != psutil.Process().create_time()
    try:
        return started is not None and psutil.Process(pid).create_time() != started
    except psutil.AccessDenied:
        return False
    except psutil.NoSuchProcess:
        return True


class Watch:
    """Tells of each lease whether its holder is gone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch by ``clock``, in seconds."""
        self._clock = clock
        self._seen: dict[Hashable, tuple[object, float, float]] = {}
        """By lease: its value, seconds for which that has stood, and when it was looked at."""

    def is_gone(self, key: Hashable, owner: Owner | None) -> bool:
        """Look at a lease; None is one that its holder has not signed yet."""
        now_s = self._clock()
        value = None if owner is None else (owner.get("id"), owner.get("beat"))
        before, stood_s, looked_s = self._seen.get(key, (value, 0.0, now_s))
        # What nobody looked at may be the storage's doing: a holder could not renew either.
        stood_s = stood_s + min(now_s - looked_s, RENEW_S) if before == value else 0.0
        self._seen[key] = value, stood_s, now_s
        return has_ended(owner) or stood_s >= STALE_S


class Renewal(Closing):
    """Calls something every ``RENEW_S`` on a thread of its own. Close it."""

    def __init__(self, renew: Callable[[], None], every_s: float = RENEW_S) -> None:
        """Prepare; ``renew`` must not raise."""
        self._renew = renew
        self._every_s = every_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ends.wait(self._every_s):
            self._renew()

    def close(self) -> None:
        """End it; a call that waits for the storage is left to itself."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
