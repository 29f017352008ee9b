"""Finds the process of a server that runs on this machine."""

import asyncio
import ipaddress
import socket

import psutil

from spectui.known import Known
from spectui.server.address import Address
from spectui.server.listeners import listener, name_of, runs_llama
from spectui.server.watch.sample import HostState, ProcessSample

_LOOKED_S = 1.0
_SOUGHT_S = 10.0
"""Until a process that was not found is looked for again, among all connections of the machine."""
_RESOLVED_S = 2.0
"""Longest wait for the addresses of a name."""
_TUNNELS = frozenset({"ssh", "sshd", "autossh", "socat", "kubectl", "tailscaled", "cloudflared"})
"""Programs that listen here for a server that runs somewhere else."""
_CONTAINERS = frozenset(
    {"docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "pasta.avx2"}
)
"""Programs that listen here for a container of this machine."""
_ELSEWHERE = "the server runs on another machine"


class Locator:
    """Finds the process that listens where a server answers."""

    def __init__(self, address: Address) -> None:
        """Know nothing yet."""
        self._address = address
        self._port = address.port
        self.forget()

    def forget(self) -> None:
        """Look anew: the server was started again, or is another one."""
        self._is_here: bool | None = None
        self._process: psutil.Process | None = None
        self._is_server: bool | None = None
        self._last = HostState()
        self._next_s: float | None = None

    def seek(self, port: int | None) -> None:
        """Look for who listens at another port of the machine: a router's server. None for its own.

        Args:
            port: the server's own port.
        """
        wanted = port or self._address.port
        if wanted != self._port:
            self._port = wanted
            self.forget()

    async def look(self, now_s: float) -> HostState:
        """Return where it is and what its process does, at most a second old."""
        if self._next_s is not None and now_s < self._next_s:
            return self._last
        if self._is_here is None:
            self._is_here = await is_this_machine(self._address.host)
        if self._is_here:
            self._last = self._read()
        else:
            self._last = HostState(is_here=False, process=Known(None, _ELSEWHERE))
        self._next_s = now_s + (_SOUGHT_S if self._last.process.value is None else _LOOKED_S)
        return self._last

    def _read(self) -> HostState:
        if self._process is None or not self._process.is_running():
            found = listener(self._port)
            self._process, self._is_server = found.value, None
        if self._process is None:
            return HostState(is_here=True, process=Known(None, found.reason))
        name = name_of(self._process)
        where = f"{name} listens at port {self._port}"
        if name in _CONTAINERS:
            reason = f"{where} for a container, where spectui does not see the server"
            return HostState(is_here=True, process=Known(None, reason))
        if name in _TUNNELS:
            reason = f"{where} for a server on another machine"
            return HostState(is_here=False, process=Known(None, reason))
        if self._is_server is None:
            self._is_server = runs_llama(self._process)
        if not self._is_server:
            reason = f"{where} and is no llama-server: where the server itself runs is not known"
            return HostState(is_here=False, process=Known(None, reason))
        return HostState(is_here=True, process=_sampled(self._process))


async def is_this_machine(host: str) -> bool:
    """Return whether a name or an IP address means this machine."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVED_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return False
    own = {
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    }
    reached = {str(entry[4][0]).partition("%")[0] for entry in found}
    return any(_is_own(address, own) for address in reached)


def _is_own(address: str, own: set[str]) -> bool:
    known = ipaddress.ip_address(address)
    return known.is_loopback or known.is_unspecified or address in own


def _sampled(process: psutil.Process) -> Known[ProcessSample]:
    try:
        with process.oneshot():
            times = process.cpu_times()
            return Known(
                ProcessSample(
                    pid=process.pid,
                    name=process.name(),
                    rss_bytes=process.memory_info().rss,
                    n_threads=process.num_threads(),
                    cpu_s=times.user + times.system,
                    started_s=process.create_time(),
                    read_bytes=_read_bytes(process),
                )
            )
    except psutil.Error:
        return Known(None, "the server's process cannot be read")


def _read_bytes(process: psutil.Process) -> Known[int]:
    try:
        return Known(process.io_counters().read_bytes)
    except (psutil.Error, OSError):
        return Known(None, "the system tells only the server's owner what it reads from disk")
