"""The command group. Commands are imported when they are named."""

from importlib import import_module

import click

from spectui import __version__

_COMMANDS = ("bench", "models", "presets", "tune")
"""Each lives in the module of the same name, as ``command``."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"spectui.cli.{cmd_name}").command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spectui")
def app() -> None:
    """The cockpit for speculative decoding in llama.cpp.

    Measures on this machine, with your models and prompts, whether a draft pays, and hands over
    the flags that llama-server needs.
    """
