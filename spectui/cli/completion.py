"""``spectui completion``: the script with which a shell completes spectui's commands."""

import click
from click.shell_completion import get_completion_class

from spectui.cli.help import Command
from spectui.cli.output import say_exactly

_EXAMPLES = (
    ("For every bash from now on", "spectui completion bash >> ~/.bashrc"),
    ("For every zsh from now on", "spectui completion zsh >> ~/.zshrc"),
    (
        "For every fish from now on",
        "spectui completion fish > ~/.config/fish/completions/spectui.fish",
    ),
)


@click.command(name="completion", cls=Command, examples=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> None:
    """Print the script with which SHELL completes commands, options and values.

    Values are files, presets, grids, studies, and words that an option can have.
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has one for each
    program = ctx.find_root()
    script = found(program.command, {}, "spectui", "_SPECTUI_COMPLETE").source()
    say_exactly(script.removesuffix("\n"))
