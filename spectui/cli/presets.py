"""``spectui presets``: lists and shows presets; and the models of ``--preset``."""

import shlex
from dataclasses import replace

import click

from spectui.cli.completion import presets
from spectui.cli.help import Group
from spectui.cli.output import complain, say
from spectui.cli.request import RunOptions
from spectui.errors import BadInputError
from spectui.files import SMALL_BYTES, read_file
from spectui.presets import Preset, find_preset, list_presets


@click.group(name="presets", cls=Group)
def command() -> None:
    """List presets, or show one."""


@command.command(name="list")
def list_() -> None:
    """List the shipped presets and your own."""
    # It loads rich.
    from spectui.cli.drawing import sentence

    presets = list_presets(lambda reason: complain(f"passed over: {reason}"))
    width = max((len(preset.name) for preset in presets), default=0)
    for preset in presets:
        line = f"{preset.name:<{width}}  {preset.description}"
        say(sentence(line, indent=" " * (width + 2)))


@command.command(name="show")
@click.argument("name", shell_complete=presets)
def show(name: str) -> None:
    """Show what the preset NAME says: options, models, placement, expected numbers, traps.

    Its first lines are commands that fetch its models: spectui's, which takes the first draft, and
    those of Hugging Face's own program, hf.
    """
    preset = find_preset(name)
    content = read_file(preset.path, SMALL_BYTES).decode().rstrip()
    fetch = [f"spectui models fetch {shlex.quote(name)}"] if preset.downloads else []
    lines = (str(preset.path), *fetch, *preset.downloads)
    say("\n".join(f"# {line}" for line in lines) + f"\n{content}")


def with_preset_models(options: RunOptions, *, most_drafts: int | None = None) -> RunOptions:
    """Fill in the preset's models for those that were not given.

    Args:
        options: as they were given; ``--demo`` brings models of its own.
        most_drafts: take the first ones that are there; None for all.

    Raises:
        BadInputError: files are missing; says how to get them and where they belong.
    """
    if options.preset is None or options.demo:
        return options
    preset = find_preset(options.preset)
    target, drafts = options.model, options.model_draft
    missing: list[str] = []
    if target is None and preset.target is not None:
        target = preset.find_target()
        if target is None:
            missing.append(f"the target {preset.target}")
    if preset.draft and most_drafts != 0 and not (drafts or options.draft_dirs):
        drafts = preset.find_drafts()[:most_drafts]
        if not drafts and preset.needs_draft:
            missing.append(f"the draft {' or '.join(str(draft) for draft in preset.draft)}")
    if missing:
        raise _missing(preset, options.preset, " and ".join(missing))
    return replace(options, model=target, model_draft=drafts)


def _missing(preset: Preset, name: str, what: str) -> BadInputError:
    return BadInputError(
        f"models of preset {preset.name} are missing: fetch {what} into {preset.models_folder} "
        f"with spectui models fetch {shlex.quote(name)}, or give your own with -m and -md"
    )
