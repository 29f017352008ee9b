"""The command group. Commands are imported when they are named."""

import os
from importlib import import_module

import click

from spectui import __version__
from spectui.cli.help import Group
from spectui.cli.output import reader

_COMMANDS = {
    "cockpit": "Chat with a pair, and watch and tune what speculation does.",
    "attach": "Watch a llama-server that is already running.",
    "bench": "Measure one setting against the target alone.",
    "doctor": "Examine the machine, and a pair before it is loaded.",
    "export": "Write the flags that tune advised, or rewrite a command.",
    "lint": "Check an existing llama-server command, without running it.",
    "models": "Find models and drafts, or build the demo's.",
    "presets": "List presets, or show one.",
    "replay": "Predict settings from a trace, without loading a model.",
    "report": "Write a report of a study, to show to others.",
    "studies": "List, show, move and delete what tune has kept.",
    "sweep": "Measure a grid of settings against the target alone.",
    "trace": "Record what settings can be predicted from.",
    "tune": "Find the fastest draft and settings, and whether they pay.",
    "verify": "Run your own llama-server with and without the flags.",
}
"""One-line help of each command in the module of its name: listing must not import them all."""


_EXAMPLES = (
    ("See what a verdict looks like, on the demo models", "spectui tune --demo --time-budget 4m"),
    ("Choose among the models of this machine, and chat", "spectui"),
    ("Check a command that you have", "spectui lint serve.sh"),
)
_OF_THE_GROUP = ("-h", "--help", "--version")
_WIDEST = 100
"""Columns of help on a terminal that has them."""


class _Commands(Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Without a command it is the cockpit: `spectui`, `spectui --demo`, `spectui -m model.gguf`.
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in _OF_THE_GROUP)
        # A shell that completes the first word may mean a command.
        is_open = not args and ctx.resilient_parsing
        return super().parse_args(ctx, args if is_named or is_open else ["cockpit", *args])

    def invoke(self, ctx: click.Context) -> object:
        with reader.awaited():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click looks among those that are imported. A model, and the demo, are options.
            name = error.command_name
            known = [*_COMMANDS, "--demo"]
            if os.path.isfile(name):  # noqa: PTH113 - Path raises on long names
                known = [f"-m {name}" if name.endswith(".gguf") else f"--from {name}"]
            raise click.NoSuchCommand(name, possibilities=known, ctx=ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"spectui.cli.{cmd_name}").command
        return command


@click.group(
    cls=_Commands,
    examples=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
)
@click.version_option(__version__, prog_name="spectui")
def app() -> None:
    """The cockpit for speculative decoding in llama.cpp.

    Without a command, it opens the interactive screen: a chat with your models, and beside it what
    a draft does for it on this machine. The commands measure whether a draft pays, and hand over
    the flags that llama-server needs.
    """
