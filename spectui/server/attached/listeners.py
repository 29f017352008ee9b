"""Which process takes connections at a port of this machine, and whether it is a llama-server."""

from collections.abc import Iterator

import psutil

from spectui.server.attached.sample import Answer

_MARK = "llama"
_LIBRARIES = ("libllama", "libggml")
_WEIGHTS = ".gguf"
_PASS_ON = frozenset({"llama-swap"})
"""Programs named after llama.cpp that hand requests on."""


def listener(port: int) -> Answer[psutil.Process]:
    """Return the process on this machine that takes connections at a port."""
    hidden = f"the process that listens at port {port} belongs to another user or a container"
    try:
        found = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return Answer(None, "the system does not tell who listens at a port")
    listening = [
        each.pid
        for each in found
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
    ]
    pid = next(filter(None, listening), None)
    try:
        return Answer(None, hidden) if pid is None else Answer(psutil.Process(pid))
    except psutil.Error:
        return Answer(None, hidden)


def name_of(process: psutil.Process) -> str:
    """Return its name, empty where it is gone."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def runs_llama(process: psutil.Process) -> bool:
    """Return whether it is a llama-server, whatever it is called, and not what hands requests on.

    A forwarder of any kind answers as the server behind it does, so that the answers tell nothing.
    """
    if name_of(process) in _PASS_ON:
        return False
    return any(
        _MARK in word or word.endswith(_WEIGHTS) or word.startswith(_LIBRARIES)
        for word in _traits(process)
    )


def _traits(process: psutil.Process) -> Iterator[str]:
    """Names of the program, of what it was given, of what it has loaded; cheap ones first."""
    yield name_of(process)
    try:
        program, *given = process.cmdline() or [""]
        yield _last_part(program)
        # A program of any kind may be given a path that mentions llama.
        yield from (word for word in given if word.endswith(_WEIGHTS))
        yield from (
            name
            for name in (_last_part(each.path) for each in process.memory_maps())
            if name.startswith(_LIBRARIES) or name.endswith(_WEIGHTS)
        )
    except (psutil.Error, OSError):
        return


def _last_part(path: str) -> str:
    return path.rpartition("/")[2].lower()
