"""Leases: whoever measures a trial, or conducts a study, says so again and again.

A lease is a value in the storage, with a counter that its holder raises every ``RENEW_S``. Who
wants to know whether a holder is gone looks at the counter for ``STALE_S`` of its own time, so
that neither clocks that differ nor one that jumps ends a lease. On the same machine a process that
has ended is seen at once. A machine that was suspended finds its leases taken over.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import optuna
import psutil

from spectui.closing import Closing
from spectui.tune.studies import records

RENEW_S = 10.0
STALE_S = 60.0

Owner = dict[str, Any]
"""Holder as it is stored: ``host`` and ``boot`` of its machine, ``pid`` and ``started`` of its
process, a random ``id``, ``worker`` for one that joined, ``isolated`` models, and the counter
``beat``."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SAME_START_S = 1.5
"""Rounding of the system's start, which changes with the wall clock, and that twice."""


def this_process(*, isolated: bool, worker: bool) -> Owner:
    """This process as a holder of leases; every call makes another one."""
    return {
        "host": os.uname().nodename,
        "boot": _boot(),
        "pid": os.getpid(),
        "started": _started_s(os.getpid()),
        "id": secrets.token_hex(8),
        "worker": worker,
        "isolated": isolated,
        "beat": 0,
    }


def is_here(owner: Owner) -> bool:
    """Whether a holder's process number is one of those that this process sees.

    A machine that was started anew has others, and so has one with the same name, or a container.
    """
    return bool(owner.get("host") == os.uname().nodename and owner.get("boot") == _boot())


def has_ended(owner: Owner | None) -> bool:
    """Whether a holder was a process of this machine that runs no more."""
    if not owner or not is_here(owner):
        return False
    pid, started_s = owner["pid"], owner.get("started")
    try:
        is_same = started_s is not None and abs(_started_s(pid) - started_s) < _SAME_START_S
    except psutil.AccessDenied:
        return False
    except psutil.NoSuchProcess:
        return True
    return started_s is not None and not is_same


def _boot() -> str | None:
    """The system's run and the numbering of its processes; None where the system tells neither."""
    try:
        return f"{_BOOT.read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _started_s(pid: int) -> float:
    """Seconds from the system's start to that of a process, whatever the wall clock was set to."""
    return psutil.Process(pid).create_time() - psutil.boot_time()


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

    def __init__(self, *renew: Callable[[], None], every_s: float = RENEW_S) -> None:
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
            for renew in self._renew:
                renew()

    def close(self) -> None:
        """End it; a call that waits for the storage is left to itself."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(1.0)


class Leases:
    """Leases of the trials that this process measures, and a look at those of others."""

    def __init__(self, study: optuna.Study, owner: Owner, watch: Watch) -> None:
        """Hold none yet; ``watch`` tells which of the others' are stale."""
        self._study = study
        self._watch = watch
        self.owner = owner
        self.held: dict[int, optuna.Trial] = {}
        """Trials that this process is at, by the number of their record."""

    def renew(self) -> None:
        """Raise the counter, on a thread of its own, and look at the others'."""
        self.owner = beaten(self.owner)
        storage = self._study._storage  # noqa: SLF001 - the cached one, which nothing public gives
        # The next beat tries again, and a trial that was taken over shows when it has ended.
        for trial in list(self.held.values()):
            with suppress(Exception):
                storage.set_trial_user_attr(records.id_of(trial), records.OWNER, self.owner)
        with suppress(Exception):
            for one in running(self._study):
                self._watch.is_gone(records.id_of(one), one.user_attrs.get(records.OWNER))

    def others(self) -> list[optuna.trial.FrozenTrial]:
        """Trials that other processes are at."""
        own = {trial.number for trial in self.held.values()}
        return [trial for trial in running(self._study) if trial.number not in own]

    def take_over(self, known: records.Known, say: Callable[[str], None]) -> None:
        """Close the trials whose holders are gone, and queue their arms again.

        Args:
            known: records that are decoded.
            say: told of each.
        """
        for trial in self.others():
            owner = trial.user_attrs.get(records.OWNER)
            if not self._watch.is_gone(records.id_of(trial), owner):
                continue
            if records.close_trial(self._study, trial, known):
                records.requeue(self._study, trial)
                at = "nobody" if owner is None else f"process {owner['pid']} on {owner['host']}"
                say(f"a trial that {at} has left is queued again")


def beaten(owner: Owner) -> Owner:
    """The lease with its counter raised."""
    return {**owner, "beat": owner["beat"] + 1}


def running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that somebody is at, or was when its process ended."""
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
