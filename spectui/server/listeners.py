"""Finds the process that takes connections at a port of this machine."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from spectui.documents import Known
from spectui.server.replies import one_line

_MARK = "llama"
_PASS_ON = frozenset({"llama-swap"})
"""Programs named after llama.cpp that hand requests on."""
_LOOPBACK = frozenset({"127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"})  # noqa: S104 - to compare
"""Addresses at which a connection to loopback arrives."""
_LISTENS = "0A"
"""The state of a socket, as Linux tells it."""
_ROOT = 0


def listener(port: int) -> Known[psutil.Process]:
    """Return the process on this machine that takes connections at a port."""
    hidden = f"the process that listens at port {port} belongs to another user or a container"
    try:
        found = _listening(port)
    except psutil.AccessDenied:
        return Known(None, "the system does not tell who listens at a port")
    pid = next((pid for _, pid in found if pid is not None), None)
    try:
        return Known(None, hidden) if pid is None else Known(psutil.Process(pid))
    except psutil.Error:
        return Known(None, hidden)


def intruder(
    port: int, is_expected: Callable[[int], bool], from_port: int | None = None
) -> str | None:
    """Description of the foreign process that takes connections at a loopback port; None if none.

    Both who listens there and who has taken the connection count: one who accepts it and stops to
    listen is found all the same. A hidden process counts as the expected one where it is of this
    user, as programs with capabilities are, or of root, as those are that forward a port to a
    container.

    Args:
        port: port of the connection.
        is_expected: whether a process, by its number, should listen there.
        from_port: the connection's port at this end; None for no connection.
    """
    try:
        found = [pid for address, pid in _listening(port, from_port) if address in _LOOPBACK]
    except psutil.AccessDenied:
        return None
    known = [pid for pid in found if pid is not None]
    foreign = next((pid for pid in known if not is_expected(pid)), None)
    if foreign is not None:
        with suppress(psutil.Error):
            return f"process {foreign} ({one_line(psutil.Process(foreign).name())})"
        return f"process {foreign}, which has ended"
    if known:
        return None
    strangers = sorted(set(_owners(port, from_port)) - {_ROOT, os.geteuid()})
    return f"a process of user {strangers[0]}" if strangers else None


def _listening(port: int, from_port: int | None = None) -> list[tuple[str, int | None]]:
    """Addresses of who listens or has the connection, and processes unless they are hidden."""
    return [
        (each.laddr.ip, each.pid)
        for each in psutil.net_connections(kind="tcp")
        if each.laddr
        and each.laddr.port == port
        and (each.status == psutil.CONN_LISTEN or bool(each.raddr and each.raddr.port == from_port))
    ]


def _owners(port: int, from_port: int | None) -> Iterator[int]:
    """Users whose sockets listen at a port, or have a connection from another one."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                _, local, remote, state, _, _, _, owner, _, inode, *_ = line.split()
                if int(local.rpartition(":")[2], 16) != port:
                    continue
                # What nobody has accepted yet has no socket, and no owner.
                is_taken = int(remote.rpartition(":")[2], 16) == from_port and inode != "0"
                if state == _LISTENS or is_taken:
                    yield int(owner)


def name_of(process: psutil.Process) -> str:
    """Return its name, empty where it is gone."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def runs_llama(process: psutil.Process) -> bool:
    """Return whether it is a llama-server by its name, and no proxy.

    A forwarder of any kind answers as the server behind it does, so that the answers tell nothing.
    """
    name = name_of(process)
    return _MARK in name and name not in _PASS_ON
