"""Process between spectui and a program that must not outlive it.

``keeper.py REPORT_FD GRACE_S PROGRAM ARGUMENT...`` starts the program, says so on ``REPORT_FD``,
waits for it, and ends as it ended. Its standard input is a pipe that spectui holds open: when that
closes, however spectui came to its end, the program is asked to end, and killed after ``GRACE_S``.
With the program everything ends that it has started, and that those have started: also what has
gone into a session of its own, as daemons do. The working folder goes as well, where it is empty.

It is run by its path, and imports nothing but the standard library: so it is there in an instant.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NoReturn

_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
"""``PR_SET_PDEATHSIG``, ``PR_SET_CHILD_SUBREAPER`` of ``prctl``."""


def main() -> NoReturn:
    """Keep the program until it ends."""
    report, grace_s, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    with os.fdopen(report, "w") as pipe:
        try:
            program = _start(command)
        except OSError as error:
            pipe.write(f"{error.strerror}\n")
            _remove_folder()
            sys.exit(1)
        pipe.write(f"{program.pid}\n")
    arguments = (program.pid, grace_s)
    threading.Thread(target=_end_with_owner, args=arguments, daemon=True).start()
    # Not reaped yet, so that its process id is not reused before the group is gone.
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    _signal_group(program.pid, signal.SIGKILL)
    _end_orphans(program.pid)
    _remove_folder()
    _end_as(program.wait())


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    prctl = ctypes.CDLL(None).prctl
    # Orphans become children of the keeper, rather than of the system's init.
    prctl(_SET_CHILD_SUBREAPER, 1)
    return subprocess.Popen(  # noqa: S603 - the program that spectui names, without a shell
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=partial(_die_with, os.getpid(), prctl),  # noqa: PLW1509 - there is one thread yet
    )


def _die_with(keeper: int, prctl: "ctypes._NamedFuncPointer") -> None:
    """Be killed together with the keeper, which could then no longer end anything itself."""
    prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def _end_with_owner(program: int, grace_s: float) -> None:
    """Wait until spectui's end of the pipe closes, then end the program."""
    os.read(0, 1)
    if grace_s:
        with suppress(ProcessLookupError):
            os.kill(program, signal.SIGTERM)
        time.sleep(grace_s)
    _signal_group(program, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _end_orphans(program: int) -> None:
    """Kill the processes that ``program`` has left, and those that they leave in turn."""
    while killed := [one for one in _children() if one != program and _is_killed(one)]:
        for child in killed:
            os.waitpid(child, 0)


def _children() -> Iterator[int]:
    # Pathlib takes longer to import than all the rest.
    for process in os.listdir("/proc"):  # noqa: PTH208
        if process.isdecimal():
            with suppress(OSError), open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
                # The name before it may hold anything.
                _state, parent = file.read().rpartition(b")")[2].split()[:2]
                if int(parent) == os.getpid():
                    yield int(process)


def _is_killed(child: int) -> bool:
    """Kill it; False where another user has it."""
    try:
        os.kill(child, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def _remove_folder() -> None:
    """Remove the working folder, which was made for the program, where it is empty."""
    with suppress(OSError):
        os.rmdir(os.getcwd())  # noqa: PTH106, PTH109


def _end_as(code: int) -> NoReturn:
    """End in the manner of the program."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
