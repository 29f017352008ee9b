"""The existing command of ``--from``: the options taken from it, and those written back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.defaults import taken_command
from spectui.cli.output import complain
from spectui.commands.drafting import OLD_LENGTHS
from spectui.commands.measured import unmeasured
from spectui.commands.takeover import Takeover
from spectui.errors import UsageError
from spectui.options.drafters import NGRAMS, numbers_of
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation

_NGRAM_OPTIONS = frozenset(one.option for drafter in NGRAMS for one in numbers_of(drafter))
_SIZES = {"ctx-size": ("-c", "there it is what the model was trained for, if that fits")}
"""The flag, and llama-server's own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A command to be tuned anew, and the options that were typed beside it."""

    takeover: Takeover
    typed: frozenset[str]
    """Names of the options that were typed, which override the command's."""

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that are written back; drafting options always are."""
        return _NGRAM_OPTIONS | self.typed | self.takeover.settled.options.keys()

    @property
    def extra(self) -> tuple[str, ...]:
        """Arguments written back unchanged: unknown options, and sizes left to the server."""
        left = ((n, v) for n, v in self.takeover.left.items() if n not in self.typed)
        return (*(w for name, values in left for w in (f"--{name}", *values)), *self.takeover.extra)


def taken() -> Taken | None:
    """The command of ``--from``; None where it was not given."""
    takeover = taken_command()
    if takeover is None:
        return None
    context = click.get_current_context()
    typed = frozenset(
        (param.name or "").replace("_", "-")
        for param in context.command.params
        if context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    )
    return Taken(takeover=takeover, typed=typed)


def is_taken(name: str) -> bool:
    """Whether an option's value comes from the command of ``--from`` and was not typed."""
    found = taken()
    return found is not None and name not in found.typed and name in found.takeover.options


def taken_setup(takeover: Takeover) -> Setup:
    """Setup of a command, with llama-server's own defaults where it is silent.

    Raises:
        BadInputError: an option has a value that it cannot have.
        UsageError: options contradict each other.
    """
    try:
        return takeover.settled.to_setup()
    except UsageError as error:
        raise UsageError(f"--from: {error}") from error


def mind_defaults(speculation: Speculation, given: Mapping[str, object]) -> None:
    """Warn about drafting limits that a command leaves to server defaults that have changed."""
    numbers = speculation.own.numbers
    for name, old in OLD_LENGTHS.items():
        if name not in given:
            value = f"{numbers[name.replace('-', '_')]:g} (until spring 2026 it was {old})"
            complain(f"mind that the command gives no --{name}: today's default is {value}")


def mind_unmeasured(
    parsed: Mapping[str, Any], *, done: str = "measured", through_server: bool = False
) -> tuple[str, ...]:
    """Warn once about options of the ``--from`` command that the measurement does not apply.

    Returns what was said, for the document.

    Args:
        parsed: options as click parsed them.
        done: to the command.
        through_server: whether a llama-server gets the command's own arguments.
    """
    found = taken()
    if found is None:
        return ()
    takeover = found.takeover
    own = () if through_server else (*takeover.elsewhere, *takeover.extra)
    without = tuple(unmeasured(own))
    parts = [f"without {', '.join(without)}"] if without else []
    parts += _chosen(found, parsed)
    if not parts:
        return ()
    told = f"the command is {done} {'; '.join(parts)}"
    complain(f"mind that {told}")
    return (told,)


def _chosen(found: Taken, parsed: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on sizes that the command leaves to the server, with the values used here."""
    takeover = found.takeover
    for name, (flag, own) in _SIZES.items():
        is_left = name in takeover.left or name not in takeover.options
        if is_left and name not in found.typed:
            size = parsed[name.replace("-", "_")]
            yield f"with {flag} {size}, which it leaves to the server ({own}; {flag} changes it)"
