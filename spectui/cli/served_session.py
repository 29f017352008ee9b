"""Options of commands that measure through a llama-server that they start."""

import click
from click.core import ParameterSource

from spectui.cli.defaults import given_extra, taken_command
from spectui.cli.request import SharedOptions
from spectui.errors import UsageError
from spectui.options.setup import Schedule
from spectui.server.binary import ServerBinary, examine

_FLAGS = {"gpu_layers": "-ngl", "gpu_layers_draft": "-ngld"}
_LEFT = frozenset({None, "auto", "-1"})
"""Values that leave a size to the server; llama-server's number for ``auto`` is -1."""


def wanted_binary(server_bin: str | None) -> ServerBinary:
    """The llama-server that is to measure.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given.
    """
    if server_bin is None:
        raise UsageError("--backend server measures through a llama-server; give --server-bin PATH")
    return examine(server_bin)


def check_schedule(shared: SharedOptions) -> None:
    """Refuse a schedule that llama-server does not have.

    Raises:
        UsageError: it was asked for.
    """
    if shared.schedule_kind() is not Schedule.SERVER:
        raise UsageError(
            f"--schedule {shared.schedule} is spectui's own engine's; leave it out with "
            "--backend server"
        )


def served_extra() -> tuple[str, ...]:
    """The command's own arguments for a server that is started in its place.

    What it leaves to its server is left to this one as well; in-process nothing is fitted, so that
    all layers are on the GPU there. Nothing without ``--from``.
    """
    if taken_command() is None:
        return ()
    return (*given_extra(), *_left_layers(click.get_current_context()))


def _left_layers(ctx: click.Context) -> tuple[str, ...]:
    words: list[str] = []
    for name, flag in _FLAGS.items():
        is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_typed and (ctx.default_map or {}).get(name) in _LEFT:
            words += [flag, "auto"]
    return tuple(words)
