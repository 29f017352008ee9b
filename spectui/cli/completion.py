"""``spectui completion``: the script with which a shell completes spectui's commands."""

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from spectui.cli.click_options import argument, request, request_command
from spectui.cli.output import say_exactly

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


_PATIENCE_S = 0.2
"""Time for which a storage that is being written is waited for."""


def files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem[Any]]":
    """Files, for a value that may be a path; the shell finds them."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def presets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of presets."""
    from spectui.presets import preset_names

    return _beginning(preset_names(), incomplete)


def studies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the studies in spectui's own file, the latest first.

    Optuna, which could tell of every storage, takes long to load.
    """
    import sqlite3

    from spectui.paths import own_storage_file

    try:
        address = f"{own_storage_file().absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, timeout=_PATIENCE_S, uri=True)) as storage:
            rows = storage.execute("SELECT study_name FROM studies ORDER BY study_id DESC")
            return _beginning((str(name) for (name,) in rows), incomplete)
    except sqlite3.Error:
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
