"""Finds a running server: parses its address, and finds its process if it is on this machine."""

import asyncio
import ipaddress
import math
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from spectui.documents import Known
from spectui.errors import UsageError
from spectui.monitor.processes import listeners
from spectui.server.watch.sample import NOT_ASKED, ProcessSample

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[\w.:%~-]+")
_PATH = re.compile(r"[\w.~%!$&'()*+,;=:@/-]*")
_ROUTE = re.compile(r"/(v1(/.*)?|(chat/)?completions?|health|metrics|props|slots(/\d+)?)$")
"""Endpoints of llama-server at the end of a path, which are not part of a prefix."""
_LOOKED_S = 1.0
_SOUGHT_S = 10.0
"""Seconds until a process that was not found is looked for again, among all connections."""
_RESOLVED_S = 2.0
"""Longest wait for the addresses of a name."""
_MARK = "llama"
_PASS_ON = frozenset({"llama-swap"})
"""Programs named after llama.cpp that hand requests on."""
_ELSEWHERE: Known[ProcessSample] = Known(None, "the server runs on another machine")

Place = tuple[bool, Known[ProcessSample]]
"""Whether a server runs on this machine, and its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of a running server, with the API key and the time limit for requests."""

    url: str
    """The beginning of every endpoint, without a slash at its end."""
    host: str
    """A name or an IP address, IPv6 without brackets."""
    port: int
    api_key: str | None = None
    timeout_s: float = 5.0
    """The longest that an answer may take."""


def parse_address(text: str, api_key: str | None = None) -> Address:
    """Read ``host:port``, ``http://...`` or ``https://...``, with a path or without.

    An endpoint of llama-server's, as programs are given it, stands for its server.

    Raises:
        UsageError: it is none of these, or holds what does not belong into an address.
    """
    has_scheme = "://" in text
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise _refused(text) from error
    if parts.username is not None or parts.password is not None:
        # Not repeated: what stands there is a secret.
        raise UsageError(
            "the address holds a name or a password; leave them out, and put the server's API key "
            "into LLAMA_API_KEY"
        )
    usual = _DEFAULT_PORTS.get(parts.scheme)
    port = usual if port is None and has_scheme else port
    host = parts.hostname or ""
    is_plain = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path) and not {*"?#"} & {*text}
    if not (usual and port and is_plain):
        raise _refused(text)
    authority = f"[{host}]" if ":" in host else host
    shown_port = "" if port == usual else f":{port}"
    prefix = _ROUTE.sub("", parts.path.rstrip("/"))
    url = f"{parts.scheme}://{authority}{shown_port}{prefix}"
    return Address(url=url, host=host, port=port, api_key=api_key)


def _refused(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no address of a server; write host:port, http://host:port or https://host, "
        "such as http://localhost:8080"
    )


class Locator:
    """Finds the process that listens where a server answers."""

    def __init__(self, address: Address) -> None:
        """Know nothing yet."""
        self._address = address
        self._is_here: bool | None = None
        self._process: psutil.Process | None = None
        self._last: Place = False, NOT_ASKED
        self._due_s = -math.inf

    async def look(self, now_s: float) -> Place:
        """Return whether the server is on this machine, and its process, at most a second old."""
        if now_s >= self._due_s:
            if self._is_here is None:
                self._is_here = await is_this_machine(self._address.host)
            self._last = self._read() if self._is_here else (False, _ELSEWHERE)
            is_found = self._last[1].value is not None
            self._due_s = now_s + (_LOOKED_S if is_found else _SOUGHT_S)
        return self._last

    def _read(self) -> Place:
        port = self._address.port
        try:
            if self._process is None or not self._process.is_running():
                pid = next(listeners({port}), None)
                self._process = None if pid is None else psutil.Process(pid)
            process = self._process
            if process is None:
                why = f"the listener at port {port} belongs to another user or a container"
                return True, Known(None, why)
            if not runs_llama(process):
                why = (
                    f"{process.name()} listens at port {port} and is no llama-server: where the "
                    "server itself runs is not known"
                )
                return False, Known(None, why)
            rss_bytes = process.memory_info().rss
            sample = ProcessSample(pid=process.pid, name=process.name(), rss_bytes=rss_bytes)
        except psutil.Error:
            return True, Known(None, "the server's process cannot be read")
        return True, Known(sample)


def runs_llama(process: psutil.Process) -> bool:
    """Return whether it is a llama-server by its name, and no proxy.

    A proxy answers as the server behind it does, so that the answers cannot show the difference.
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
