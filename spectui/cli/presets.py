"""``spectui presets``: lists and shows presets."""

import click

from spectui.cli.output import complain, say
from spectui.presets import find_preset, list_presets


@click.group(name="presets")
def command() -> None:
    """List presets, or show one."""


@command.command(name="list")
def list_() -> None:
    """List the shipped presets and your own."""
    presets = list_presets(lambda reason: complain(f"passed over: {reason}"))
    width = max((len(preset.name) for preset in presets), default=0)
    for preset in presets:
        say(f"{preset.name:<{width}}  {preset.description}")


@command.command(name="show")
@click.argument("name")
def show(name: str) -> None:
    """Show what the preset NAME says: options, models, placement, expected numbers, traps."""
    path = find_preset(name).path
    say(f"# {path}\n{path.read_text(encoding='utf-8').rstrip()}")
