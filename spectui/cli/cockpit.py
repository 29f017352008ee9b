"""``spectui`` without a command: the interactive screen."""

from typing import Any

import click

from spectui.cli.options import COCKPIT, SPECULATION, add_options, cockpit_options


@click.command(name="cockpit")
@cockpit_options
@add_options(*SPECULATION, *COCKPIT)
def command(**options: Any) -> None:
    """Chat with a pair, and watch and tune what speculation does on this machine.

    This is what spectui does without a command. Without models it lets you choose.
    """
    from spectui.cli.run_cockpit import run

    run(options)
