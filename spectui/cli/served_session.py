"""Options of commands that measure through a llama-server that they start."""

import os
from dataclasses import replace

from spectui.cli.given import Given
from spectui.cli.options import BackendKind
from spectui.cli.output import complain
from spectui.commands.items import divide, words_of
from spectui.commands.measured import beyond_engine
from spectui.engine.placing import OpenContext
from spectui.errors import UsageError
from spectui.llama.library import has_library, library
from spectui.llama.search import LIBRARY_VARIABLE, find_server
from spectui.options.setup import MOST_SLOTS, Setup
from spectui.server.binary import ServerBinary, examine

_SLOTS = "parallel"
"""llama-server's name of ``-np``."""
_CONTEXT = "ctx-size"


def with_backend(given: Given) -> Given:
    """The options, with a llama-server as backend where only that can measure.

    That is so where the command of --from has options that spectui's engine does not apply, and
    where there is no llama.cpp library. It is the llama-server of ``--server-bin``, else one that
    is found: a command is data, so the program that it names is never started. What was typed
    stays.
    """
    if "backend" in given.typed or given.get("server_url") is not None:
        return given
    beyond = beyond_engine(given.extra)
    if beyond:
        why = f"spectui's own engine does not apply {', '.join(beyond)}"
        why += " (--backend engine measures without)"
    elif not has_library():
        if LIBRARY_VARIABLE in os.environ:
            # The user wants that one: nothing takes its place unasked.
            library()
        why = "no llama.cpp library can be used here (spectui doctor --libraries says why)"
    else:
        return given
    binary = given["server_bin"] or find_server()
    if binary is None:
        return given
    complain(f"measured through {binary}, since {why}")
    return given.changed(backend=str(BackendKind.SERVER), server_bin=str(binary))


def wanted_binary(server_bin: str | None) -> ServerBinary:
    """The llama-server that is to measure: the given one, else one that is found.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given, and none is found.
    """
    if server_bin is not None:
        return examine(server_bin)
    found = find_server()
    if found is None:
        raise UsageError(
            "no llama-server was found (on the PATH, among the programs that run, in the usual "
            "folders); give --server-bin PATH"
        )
    complain(f"measured through {found}")
    return examine(str(found))


def wanted_slots(given: Given) -> tuple[int, ...]:
    """Numbers of slots to measure with: those of ``-np``, else that of ``--from``, else one."""
    typed: tuple[int, ...] = given["parallel"]
    return typed or (_slots_of_command(given) or 1,)


def with_slot_context(setup: Setup, n_slots: int, given: Given) -> Setup:
    """The setup with so many slots, each with the context of ``-c``.

    That of the command of ``--from`` is divided, as its llama-server does.
    """
    theirs, context = _slots_of_command(given), setup.context
    if theirs is not None and given.is_of_command(_CONTEXT):
        context = replace(context, ctx_size=max(1, context.ctx_size // theirs))
    return replace(setup, context=context, n_slots=n_slots)


def with_slots(extra: tuple[str, ...], given: tuple[int, ...]) -> tuple[str, ...]:
    """Arguments of a command, with the first number of ``-np`` where that was typed."""
    if not given:
        return extra
    others = words_of(one for one in divide(extra) if one.name != _SLOTS)
    return (*others, "-np", str(given[0]))


def open_context(given: Given) -> OpenContext | None:
    """The server of the command of ``--from``, where that leaves it the size of its context."""
    found = given.takeover
    if found is None or _CONTEXT in found.typed | found.settled.options.keys():
        return None
    return OpenContext(n_slots=_slots_of_command(given) or 1, is_full=_CONTEXT in found.options)


def _slots_of_command(given: Given) -> int | None:
    """Value of ``-np`` in the command of ``--from``; None where llama-server chooses it."""
    values = [one.value for one in divide(given.served_extra) if one.name == _SLOTS]
    is_number = bool(values) and values[-1].isdecimal()
    return int(values[-1]) if is_number and 1 <= int(values[-1]) <= MOST_SLOTS else None
