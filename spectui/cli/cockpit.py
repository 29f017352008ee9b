"""``spectui`` without a command: the interactive screen."""

from typing import Any

import click

from spectui.cli.drafting import DRAFTING
from spectui.cli.given import Given
from spectui.cli.help import Command
from spectui.cli.options import COCKPIT, add_options, cockpit_options


class _Context(click.Context):
    @property
    def command_path(self) -> str:
        # As it is called: without a command's name.
        return "spectui"


class _Command(Command):
    context_class = _Context


_EXAMPLES = (
    ("Choose among the models of this machine", "spectui"),
    ("Try it on the demo models", "spectui --demo"),
    (
        "Chat with a pair, its experts in RAM",
        "spectui -m target.gguf -md draft.gguf --cpu-moe -c 16384",
    ),
)


@click.command(name="cockpit", cls=_Command, examples=_EXAMPLES)
@cockpit_options
@add_options(*DRAFTING, *COCKPIT)
@click.pass_context
def command(context: click.Context, /, **_options: Any) -> None:
    """Chat with a pair, and watch and tune what speculation does on this machine.

    This is what spectui does without a command. Without models it lets you choose.
    """
    from spectui.cli.run_cockpit import run

    run(Given.of(context))
