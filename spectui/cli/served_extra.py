"""The arguments of an existing command for a server that is started in its place."""

import click
from click.core import ParameterSource

from spectui.cli.defaults import given_extra, taken_command

_FLAGS = {"gpu_layers": "-ngl", "gpu_layers_draft": "-ngld"}
_LEFT = frozenset({None, "auto", "-1"})
"""Values that leave a size to the server; llama-server's number for ``auto`` is -1."""


def served_extra() -> tuple[str, ...]:
    """The command's own arguments for a server that is started in its place.

    What it leaves to its server is left to this one as well; in-process nothing is fitted, so that
    all layers are on the GPU there. Nothing without ``--from``.
    """
    if taken_command() is None:
        return ()
    return (*given_extra(), *_left_layers(click.get_current_context()))


def _left_layers(ctx: click.Context) -> tuple[str, ...]:
    words: list[str] = []
    for name, flag in _FLAGS.items():
        is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_typed and (ctx.default_map or {}).get(name) in _LEFT:
            words += [flag, "auto"]
    return tuple(words)
