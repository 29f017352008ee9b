"""Options that a preset may set: the content of a run, not its output."""

from functools import cache

import click

from spectui.cli.drafting import DRAFTING
from spectui.cli.options import OF_A_RUN, add_options


@cache
def names() -> frozenset[str]:
    """Long names, without dashes, of models, placement, context, sampling, drafting, lengths."""
    command = click.command()(add_options(*OF_A_RUN, *DRAFTING)(lambda: None))
    return frozenset(
        name.removeprefix("--")
        for param in command.params
        for name in param.opts
        if name.startswith("--")
    )
