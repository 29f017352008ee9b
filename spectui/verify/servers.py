"""The setups and command lines of the two servers to compare."""

from collections.abc import Mapping
from dataclasses import replace

from spectui.measure.promise import Case
from spectui.measure.servers import measuring_arguments
from spectui.options.setup import Setup
from spectui.server.binary import ServerBinary
from spectui.verify.order import Side

Setups = Mapping[Side, Setup]
Arguments = Mapping[Side, tuple[str, ...]]


def setups_of(case: Case) -> Setups:
    """Setups of the baseline and of the exported setting."""
    on = Setup(
        target=case.target,
        draft=case.draft,
        context=case.context,
        speculation=case.speculation,
        extra=case.extra,
    )
    return {Side.OFF: replace(on.off, target=case.baseline), Side.ON: on}


def arguments_of(case: Case, binary: ServerBinary) -> Arguments:
    """Command lines of both servers.

    Raises:
        BadInputError: the binary has no words for what is asked for.
    """
    return {side: measuring_arguments(setup, binary) for side, setup in setups_of(case).items()}
