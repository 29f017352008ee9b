"""Reads the command line and environment of a running llama-server."""

import psutil

from spectui.errors import BadInputError
from spectui.export.sources.source import OF_LLAMA, PROGRAMS, Source, names_server, source_of

_KIND = "pid:"


def is_process(text: str) -> bool:
    """Whether the text names a process: ``pid:NUMBER``, or ``pid:`` for the only one."""
    return text.startswith(_KIND) and len(text.split()) == 1


def process_source(text: str) -> Source:
    """Read ``pid:NUMBER``, or ``pid:`` for the only running llama-server.

    Raises:
        BadInputError: there is no such process, it is no llama-server, none or several run, or its
            environment may not be read.
    """
    number = text.removeprefix(_KIND)
    if number and not (number.isascii() and number.isdigit()):
        raise BadInputError(f"{text} names no process; write pid: and its number, or pid: alone")
    pid = int(number) if number else _only()
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
    if not names_server(words[:1]) and not names_server(words):
        program = words[0] if words else "a part of the kernel"
        raise BadInputError(
            f"process {pid} is no llama-server but {program}; give the number of one"
        )
    variables = {name: v for name, v in environment.items() if name.startswith(OF_LLAMA)}
    return source_of(words, variables).below(folder)


def _only() -> int:
    found = {
        process.pid: " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] in PROGRAMS or names_server((process.info["cmdline"] or ())[:1])
    }
    if not found:
        raise BadInputError(
            "no llama-server runs on this machine; start one, or give its command instead of pid:"
        )
    if len(found) > 1:
        listed = ", ".join(f"pid:{pid}" for pid in sorted(found))
        raise BadInputError(f"{len(found)} llama-servers run; give one of them: {listed}")
    return next(iter(found))
