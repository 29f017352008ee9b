"""Whether a llama-server runs as it was started. Pure, but for asking it."""

import os
from collections.abc import Mapping

from spectui.errors import HopelessError
from spectui.models.sizes import counted
from spectui.served.setup import Setup
from spectui.server import Completion, LlamaClient

_PREFIX = "LLAMA_ARG_"
_DRAFTING = ("SPEC", "DRAFT")
"""In the names of llama-server's variables that are about it."""


def check_alone(server: LlamaClient, program: str) -> None:
    """Ask a server that was started without speculation whether it speculates.

    Raises:
        HopelessError: it does.
    """
    if server.speculates():
        raise _not_alone(program)


def check_answer(setup: Setup, done: Completion, program: str) -> None:
    """Hold an answer against what its server was started with.

    Raises:
        HopelessError: it cannot be of such a server.
    """
    speculation = setup.speculation
    if speculation is None:
        if done.n_drafted:
            raise _not_alone(program)
        return
    n_rounds = most_rounds(done)
    if done.n_drafted > n_rounds * speculation.longest:
        raise HopelessError(
            f"the llama-server with speculation drafted {counted(done.n_drafted, 'token')} in "
            f"{counted(n_rounds, 'round')}, and was started with drafts of {speculation.longest} "
            f"at most, so that another setting is measured; {_by_program(program)}"
        )


def most_rounds(done: Completion) -> int:
    """As many as there can have been: each emits a token, and those that it accepted.

    Of a text that ended within a draft, more was accepted than emitted.
    """
    n_decoded = max(done.n_predicted - 1, 0)
    return max(n_decoded - done.n_accepted, 0) if done.stop == "limit" else n_decoded


def _not_alone(program: str) -> HopelessError:
    return HopelessError(
        "the llama-server without speculation drafts as well, so that nothing is compared with the "
        f"target alone; {_remedy(program)}"
    )


def _remedy(program: str, environment: Mapping[str, str] = os.environ) -> str:
    names = sorted(
        name
        for name in environment
        if name.startswith(_PREFIX) and any(word in name for word in _DRAFTING)
    )
    if names:
        return f"unset {' and '.join(names)}, which every llama-server reads"
    return _by_program(program)


def _by_program(program: str) -> str:
    return (
        f"{program} seems to add options of its own: give --server-bin the llama-server itself, or "
        "leave them out there"
    )
