"""``spectui completion``: the script with which a shell completes spectui's commands."""

import click
from click.shell_completion import get_completion_class

from spectui.cli.click_options import argument, request, request_command
from spectui.cli.output import say_exactly

_EXAMPLES = (
    ("For every bash from now on", "spectui completion bash >> ~/.bashrc"),
    ("For every zsh from now on", "spectui completion zsh >> ~/.zshrc"),
    (
        "For every fish from now on",
        "spectui completion fish > ~/.config/fish/completions/spectui.fish",
    ),
)


@request
class Completion:
    """Print the script with which SHELL completes commands, options and values.

    Values are files, presets, grids, studies, and words that an option can have.
    """

    shell: str = argument(type=click.Choice(["bash", "zsh", "fish"]))


def complete(request: Completion) -> None:
    """Print the script."""
    found = get_completion_class(request.shell)
    assert found is not None  # noqa: S101 - click has one for each
    program = click.get_current_context().find_root()
    script = found(program.command, {}, "spectui", "_SPECTUI_COMPLETE").source()
    say_exactly(script.removesuffix("\n"))


command = request_command(Completion, "completion", "completion:complete", examples=_EXAMPLES)
