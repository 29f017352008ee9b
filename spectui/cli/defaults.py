"""Where the defaults of a command come from: a preset, the demo, an existing command."""

from typing import Any

import click

from spectui.errors import BadInputError
from spectui.presets import Options, Preset, find_preset

EXTRA = "spectui.extra"
"""Key under which click's context keeps the arguments that ``--from`` did not know."""


class FromUserOnly(click.Option):
    """An option that a preset means otherwise: its n-predict is the length of a measurement."""


def _apply_preset(ctx: click.Context, preset: Preset) -> None:
    """Make the preset's options the command's defaults; what the user types still wins.

    Raises:
        BadInputError: the preset names an option that no command has, or a wrong value.
    """
    for options in preset.placement.by_vram_gb().values():
        # None is applied, but a mistake is said now, not when somebody copies them.
        _defaults(ctx, preset, options)
    ctx.default_map = {**(ctx.default_map or {}), **_defaults(ctx, preset, preset.options)}


def _defaults(ctx: click.Context, preset: Preset, options: Options) -> dict[str, Any]:
    """Values of those ``options`` that the command has, by click's parameter names."""
    from spectui.cli import preset_options

    by_name = {
        name.lstrip("-"): param
        for param in ctx.command.params
        for name in param.opts
        if name.startswith("--")
    }
    defaults: dict[str, Any] = {}
    for key, value in options.items():
        param = by_name.get(key)
        if key not in preset_options.names():
            raise _refused(preset, key, ctx.command)
        # A preset serves all commands: bench has a draft-max, tune looks for one.
        if param is None or isinstance(param, FromUserOnly):
            continue
        defaults[param.name] = _checked(ctx, param, value, f"{preset.path}: option {key}")
    return defaults


def _refused(preset: Preset, key: str, command: click.Command) -> BadInputError:
    known = {name.lstrip("-") for param in command.params for name in param.opts}
    if key in known:
        return BadInputError(
            f"{preset.path}: a preset may not set {key}, which is for the command line alone; take "
            "it out"
        )
    return BadInputError(
        f"{preset.path}: unknown option {key} for {command.name}; "
        f"spectui {command.name} --help lists what there is"
    )


def _checked(ctx: click.Context, param: click.Parameter, value: object, where: str) -> object:
    """Return a value that the option takes.

    Raises:
        BadInputError: it takes none such.
    """
    try:
        param.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise BadInputError(f"{where}: {error.message.rstrip('.')}; correct it") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInputError(f"{where} cannot be {value!r}; correct it") from error
    return value


def preset_option(ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Callback of ``--preset``."""
    if name is not None:
        _apply_preset(ctx, find_preset(name))
    return name


def demo_option(
    ctx: click.Context,
    _param: click.Parameter,
    wanted: bool,  # noqa: FBT001 - click passes values by position
) -> bool:
    """Callback of ``--demo``: as ``--preset demo``, unless another preset is named."""
    if wanted and ctx.default_map is None:
        _apply_preset(ctx, find_preset("demo"))
    return wanted


def from_option(ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    """Make an existing command's options the defaults; what the user types still wins."""
    if text is not None:
        from spectui.export.takeover import read_command

        taken = read_command(text)
        ctx.default_map = {**dict(ctx.default_map or {}), **taken.default_map()}
        ctx.meta[EXTRA] = taken.extra
    return text
