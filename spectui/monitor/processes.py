"""Reads the CPU time of processes, and finds those that belong to this one."""

import os
import socket
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from spectui.format import printable
from spectui.monitor.host import TICKS_PER_S, process_words

Key = tuple[int, float]
"""Number of a process and when it was started: numbers are used again."""


class Process(NamedTuple):
    """One process at one moment."""

    key: Key
    parent: int
    name: str
    """At most 15 characters, printable."""
    cpu_s: float
    ended_s: float
    """CPU time of its children that have ended."""


Scan = Mapping[Key, Process]


class Processes:
    """Finds processes, and remembers which belong to this one since the last scan."""

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        own: int | None = None,
        others: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        """Scan nothing yet.

        Args:
            root: folder with ``proc``.
            own: number of this process; None to ask the system.
            others: numbers of processes that belong to this one without descending from it.
        """
        self._proc = root / "proc"
        self._own = os.getpid() if own is None else own
        self._others = others
        self._started: tuple[Key, ...] = ()

    def scan(self) -> Scan:
        """All processes that can be seen; one that ends meanwhile may be missing."""
        names = os.listdir(self._proc)  # noqa: PTH208 - a path for each would take as long again
        found = (self.read(int(name)) for name in names if name.isdecimal())
        scan = {one.key: one for one in found if one is not None}
        self._started = tuple(key for key in self.belonging(scan) if key[0] != self._own)
        return scan

    def belonging(self, scan: Scan) -> set[Key]:
        """This process, those that belong to it, and all that descend from them."""
        children: dict[int, list[Key]] = {}
        for one in scan.values():
            children.setdefault(one.parent, []).append(one.key)
        roots = {self._own, *self._others()}
        waiting, found = [key for key in scan if key[0] in roots], set[Key]()
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += children.get(key[0], ())
        return found

    def own_cpu_s(self) -> Mapping[Key, float]:
        """CPU time of the processes that belong to this one, as far as the last scan knows them.

        With that of their children that have ended: what a child used is not lost when it ends.
        """
        found = {}
        for key in self._started:
            one = self.read(key[0])
            if one is not None and one.key == key:
                found[key] = one.cpu_s + one.ended_s
        return found

    def read(self, pid: int) -> Process | None:
        """The process of a number; None if it has ended."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
                name, words = process_words(file.read())
        except OSError:
            return None
        if not words:
            return None
        user, system, ended_user, ended_system = (int(word) / TICKS_PER_S for word in words[11:15])
        return Process(
            key=(pid, float(words[19])),
            parent=int(words[1]),
            name=printable(name.decode(errors="replace")),
            cpu_s=user + system,
            ended_s=ended_user + ended_system,
        )


def listeners(ports: Container[int]) -> Iterator[int]:
    """Yield the numbers of processes that take connections at one of the ports of this machine.

    Raises:
        psutil.Error: the system does not tell.
    """
    for one in psutil.net_connections("tcp"):
        is_listener = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port in ports
        if is_listener and one.pid is not None:
            yield one.pid


def listening(endpoints: Sequence[str]) -> frozenset[int]:
    """Numbers of this machine's processes that listen at one of the endpoints, ``HOST:PORT``.

    Those of other machines, and of other users where the system hides them, are not among them.
    """
    wanted: set[tuple[str, int]] = set()
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(":")
        with suppress(OSError, OverflowError):
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            wanted |= {(str(address[0]), int(port)) for *_, address in found}
    own = {one.address for each in psutil.net_if_addrs().values() for one in each}
    here = {port for host, port in wanted if host in own}
    with suppress(psutil.Error):
        return frozenset(listeners(here) if here else ())
    return frozenset()


def used_s(before: Scan, after: Scan) -> Mapping[Key, float]:
    """CPU time that each process of ``after`` used since ``before``, or since it was started."""
    return {
        key: max(0.0, one.cpu_s - (before[key].cpu_s if key in before else 0.0))
        for key, one in after.items()
    }
