"""``spectui`` without a command: the interactive screen."""

from dataclasses import dataclass
from typing import Annotated

import click

from spectui.cli.click_options import option, request_command
from spectui.cli.defaults import FromUserOnly
from spectui.cli.drafting import DRAFTING
from spectui.cli.given import Given
from spectui.cli.help import Command
from spectui.cli.options import COCKPIT
from spectui.cli.options_common import ASCII, THEME, YES
from spectui.cli.values import Value
from spectui.options.option import Whole

DEMO_TOKENS = 128
"""Most tokens per answer of a demo model on the screen, unless the user says otherwise."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cockpit:
    """Chat with a pair, and watch and tune what speculation does on this machine.

    This is what spectui does without a command. Without models it lets you choose.
    """

    given: Given
    n_predict: Annotated[
        int,
        option(
            "-n",
            "--n-predict",
            cls=FromUserOnly,
            type=Value(Whole(-1)),
            metavar="N",
            help=(
                "Most tokens per answer (default: as many as the context holds; "
                f"{DEMO_TOKENS} for the demo models)."
            ),
        ),
    ] = -1
    yes: Annotated[bool, YES] = False
    theme: Annotated[str | None, THEME] = None
    ascii: Annotated[bool, ASCII] = False


command = request_command(
    Cockpit,
    "cockpit",
    "run_cockpit:run",
    shared=(*COCKPIT, *DRAFTING),
    cls=_Command,
    examples=_EXAMPLES,
)
