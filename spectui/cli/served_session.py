"""Options of commands that measure through a llama-server that they start."""

from spectui.cli.request import RunOptions
from spectui.cli.taken import taken
from spectui.errors import UsageError
from spectui.options.setup import Schedule
from spectui.server.binary import ServerBinary, examine


def wanted_binary(server_bin: str | None) -> ServerBinary:
    """The llama-server that is to measure.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given.
    """
    if server_bin is None:
        raise UsageError("--backend server measures through a llama-server; give --server-bin PATH")
    return examine(server_bin)


def check_schedule(shared: RunOptions) -> None:
    """Refuse a schedule that llama-server does not have.

    Raises:
        UsageError: it was asked for.
    """
    if shared.schedule is not Schedule.SERVER:
        raise UsageError(
            f"--schedule {shared.schedule} is spectui's own engine's; leave it out with "
            "--backend server"
        )


def served_extra() -> tuple[str, ...]:
    """The arguments of ``--from`` for a server that is started in its place; none without it."""
    found = taken()
    return () if found is None else found.served
