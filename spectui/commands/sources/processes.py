"""Finds llama-servers that run on this machine, and reads the commands that started them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from spectui.commands.command import ServerCommand
from spectui.commands.programs import is_server_today, names_server
from spectui.commands.sources.source import LLAMA_PREFIXES, PROCESS, command_of, resolved_from
from spectui.errors import BadInputError

_KEEPER = re.compile(r"spectui/server/keeper\.py$")
"""The program that spectui starts its own servers with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A llama-server of this machine."""

    pid: int
    command: ServerCommand | None
    """Without its secrets; None where it cannot be read."""
    problem: str | None = None

    @property
    def text(self) -> str:
        """Name of it where a command is expected."""
        return f"{PROCESS}{self.pid}"


def running_servers() -> Iterator[RunningServer]:
    """Yield the llama-servers that run on this machine, without those that spectui measures."""
    for pid in sorted(_running()):
        if _is_measured(pid):
            continue
        try:
            yield RunningServer(pid=pid, command=_command_of(pid).discreet())
        except BadInputError as error:
            if psutil.pid_exists(pid):
                yield RunningServer(pid=pid, command=None, problem=str(error))


def _is_measured(pid: int) -> bool:
    with suppress(psutil.Error):
        parent = psutil.Process(pid).parent()
        return parent is not None and any(map(_KEEPER.search, parent.cmdline()))
    return False


def read_process(text: str) -> ServerCommand:
    """Read ``pid:NUMBER``, or ``pid:`` for the only running llama-server.

    Raises:
        BadInputError: there is no such process, it is no llama-server, none or several run, or its
            environment may not be read.
    """
    number = text.removeprefix(PROCESS)
    if number and not (number.isascii() and number.isdigit()):
        raise BadInputError(f"{text} names no process; write pid: and its number, or pid: alone")
    return _command_of(int(number) if number else _only_server())


def _command_of(pid: int) -> ServerCommand:
    try:
        process = psutil.Process(pid)
        words, folder, environment = process.cmdline(), process.cwd(), process.environ()
    except (psutil.NoSuchProcess, OverflowError, ValueError) as error:
        raise BadInputError(
            f"there is no process {pid}; give the number of a llama-server that runs"
        ) from error
    except psutil.AccessDenied as error:
        raise BadInputError(
            f"the environment of process {pid} may not be read; run spectui as the user that "
            f"started it"
        ) from error
    # The interpreter of a script with that name comes first.
    words = words[next((n for n, word in enumerate(words) if is_server_today(word)), 0) :]
    if not names_server(words):
        program = words[0] if words else "a part of the kernel"
        raise BadInputError(
            f"process {pid} is no llama-server but {program}; give the number of one"
        )
    variables = {name: v for name, v in environment.items() if name.startswith(LLAMA_PREFIXES)}
    return resolved_from(command_of(words, variables), folder)


def _running() -> dict[int, Sequence[str]]:
    """Words of the llama-servers that run, by process."""
    return {
        process.pid: process.info["cmdline"] or ()
        for process in psutil.process_iter(["name", "cmdline"])
        if is_server_today(process.info["name"] or "")
        or names_server((process.info["cmdline"] or ())[:1])
    }


def _only_server() -> int:
    found = _running()
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise BadInputError(
            "no llama-server runs on this machine; start one, or give its command instead of pid:"
        )
    listed = ", ".join(f"{PROCESS}{pid}" for pid in sorted(found))
    raise BadInputError(f"{len(found)} llama-servers run; give one of them: {listed}")
