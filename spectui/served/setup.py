"""The setup of one llama-server, and its command line."""

from spectui.commands.launch import ExportSetup
from spectui.commands.measured import own_arguments
from spectui.options.setup import Setup
from spectui.server.binary import ServerBinary

_CACHE = "--cache-ram"


def measuring_arguments(setup: Setup, binary: ServerBinary) -> tuple[str, ...]:
    """Arguments of a server for measurements, in the binary's dialect.

    One slot, as one user has, and no prompt cache. The user's own arguments stay, but for those
    that say who may reach the server, or that would write the user's files.

    Raises:
        BadInputError: the binary has no words for what is asked for.
    """
    accepted = binary.accepted
    written = ExportSetup(
        target=setup.target,
        draft=setup.draft,
        context=setup.context,
        speculation=setup.speculation,
        extra=own_arguments(setup.extra),
        name="spectui",
        accepted=accepted,
    ).arguments(binary.dialect)
    cache = (_CACHE, "0") if _CACHE in accepted.flags else ()
    return (*written, "-np", "1", *cache)
