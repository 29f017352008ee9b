"""``spectui`` without a command: the interactive screen."""

from typing import Any

import click

from spectui.cli.drafting import DRAFTING
from spectui.cli.options import COCKPIT, add_options, cockpit_options


class _Context(click.Context):
    @property
    def command_path(self) -> str:
        # As it is called: without a command's name.
        return "spectui"


class _Command(click.Command):
    context_class = _Context


@click.command(name="cockpit", cls=_Command)
@cockpit_options
@add_options(*DRAFTING, *COCKPIT)
def command(**options: Any) -> None:
    """Chat with a pair, and watch and tune what speculation does on this machine.

    This is what spectui does without a command. Without models it lets you choose.
    """
    from spectui.cli.run_cockpit import run

    run(options)
