"""The command line as a program of its own, which signals can end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

_SOON_S = 20.0


def spawn(home: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        env={**os.environ, "SPECTUI_HOME": str(home), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """Lines that it says on stderr, up to the one that begins so."""
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while said[-1] and not said[-1].startswith(beginning):
        said.append(process.stderr.readline())
    return said


def servers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    """Send a signal; what it still says, once nothing of it is left."""
    servers = servers_of(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=_SOON_S)
    assert psutil.wait_procs(servers, timeout=_SOON_S)[1] == []
    return out, err
