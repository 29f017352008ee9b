"""``spectui presets``: what ``--preset`` can name."""

import json

import click

from spectui.cli.output import say
from spectui.presets import find_preset, list_presets


@click.group(name="presets")
def command() -> None:
    """List presets, or show one."""


@command.command(name="list")
def list_() -> None:
    """List the shipped presets and your own."""
    for preset in list_presets():
        say(f"{preset.name}\t{preset.description}")


@command.command(name="show")
@click.argument("name")
def show(name: str) -> None:
    """Show the options of the preset NAME."""
    preset = find_preset(name)
    say(f"# {preset.path}\ndescription = {json.dumps(preset.description)}\n\n[options]")
    for key, value in preset.options.items():
        say(f"{key} = {json.dumps(value)}")
