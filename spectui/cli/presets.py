"""``spectui presets``: lists and shows presets."""

import click

from spectui.cli.help import Group
from spectui.cli.output import complain, say
from spectui.files import SMALL_BYTES, read_file
from spectui.presets import find_preset, list_presets


@click.group(name="presets", cls=Group)
def command() -> None:
    """List presets, or show one."""


@command.command(name="list")
def list_() -> None:
    """List the shipped presets and your own."""
    # It loads rich.
    from spectui.cli.page import page_text
    from spectui.page import Table, Words

    presets = list_presets(lambda reason: complain(f"passed over: {reason}"))
    columns = (Words("preset", is_whole=True), Words("description"))
    say(page_text([Table(columns, [(one.name, one.description) for one in presets])]))


@command.command(name="show")
@click.argument("name")
def show(name: str) -> None:
    """Show what the preset NAME says: options, models, placement, expected numbers, traps.

    Its first lines are commands that fetch its models, with Hugging Face's own program, hf.
    """
    preset = find_preset(name)
    content = read_file(preset.path, SMALL_BYTES).decode().rstrip()
    say("\n".join(f"# {line}" for line in (preset.path, *preset.downloads)) + f"\n{content}")
