"""Finds the process of a server that runs on this machine."""

import asyncio
import ipaddress
import math
import socket

import psutil

from spectui.documents import Known
from spectui.server.address import Address
from spectui.server.watch.sample import HostState, ProcessSample

_LOOKED_S = 1.0
_SOUGHT_S = 10.0
"""Until a process that was not found is looked for again, among all connections of the machine."""
_RESOLVED_S = 2.0
"""Longest wait for the addresses of a name."""
_MARK = "llama"
_PASS_ON = frozenset({"llama-swap"})
"""Programs named after llama.cpp that hand requests on."""
_ELSEWHERE: Known[ProcessSample] = Known(None, "the server runs on another machine")


class Locator:
    """Finds the process that listens where a server answers."""

    def __init__(self, address: Address) -> None:
        """Know nothing yet."""
        self._address = address
        self._is_here: bool | None = None
        self._process: psutil.Process | None = None
        self._last = HostState()
        self._due_s = -math.inf

    async def look(self, now_s: float) -> HostState:
        """Return where it is and what its process takes, at most a second old."""
        if now_s >= self._due_s:
            if self._is_here is None:
                self._is_here = await is_this_machine(self._address.host)
            self._last = self._read() if self._is_here else HostState(process=_ELSEWHERE)
            is_found = self._last.process.value is not None
            self._due_s = now_s + (_LOOKED_S if is_found else _SOUGHT_S)
        return self._last

    def _read(self) -> HostState:
        port = self._address.port
        try:
            if self._process is None or not self._process.is_running():
                self._process = _listener(port)
            process = self._process
            if process is None:
                why = f"who listens at port {port} belongs to another user or a container"
                return HostState(is_here=True, process=Known(None, why))
            if not runs_llama(process):
                why = (
                    f"{process.name()} listens at port {port} and is no llama-server: where the "
                    "server itself runs is not known"
                )
                return HostState(process=Known(None, why))
            rss_bytes = process.memory_info().rss
            sample = ProcessSample(pid=process.pid, name=process.name(), rss_bytes=rss_bytes)
        except psutil.Error:
            return HostState(
                is_here=True, process=Known(None, "the server's process cannot be read")
            )
        return HostState(is_here=True, process=Known(sample))


def _listener(port: int) -> psutil.Process | None:
    """Return the process that takes connections at a port; None where it is hidden.

    Raises:
        psutil.Error: the system does not tell, or it has just ended.
    """
    for each in psutil.net_connections(kind="tcp"):
        is_listening = each.status == psutil.CONN_LISTEN and each.pid is not None
        if is_listening and each.laddr and each.laddr.port == port:
            return psutil.Process(each.pid)
    return None


def runs_llama(process: psutil.Process) -> bool:
    """Return whether it is a llama-server by its name, and no proxy.

    A forwarder of any kind answers as the server behind it does, so that the answers tell nothing.
    """
    name = process.name()
    return _MARK in name and name not in _PASS_ON


async def is_this_machine(host: str) -> bool:
    """Return whether a name or an IP address means this machine."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVED_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return False
    reached = {str(entry[4][0]).partition("%")[0] for entry in found}
    interfaces = psutil.net_if_addrs().values()
    own = {each.address.partition("%")[0] for addresses in interfaces for each in addresses}
    known = map(ipaddress.ip_address, reached)
    return bool(reached & own) or any(one.is_loopback or one.is_unspecified for one in known)
