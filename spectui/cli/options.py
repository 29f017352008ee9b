"""Options shared by the commands that load models, under llama-server's own names."""

from dataclasses import replace
from pathlib import Path

import click

from spectui.cli.click_options import Decorator, click_option, option, switch
from spectui.cli.completion import files, presets
from spectui.cli.defaults import FromUserOnly, demo_option, from_option, preset_option
from spectui.cli.options_common import JSON_FILE, QUIET, YES
from spectui.cli.values import DrafterKind, ListOf
from spectui.options import catalogue, context, placement
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND
from spectui.options.option import File, Whole

_MODEL = click_option(placement.MODEL)
_DRAFT = click_option(replace(placement.MODEL_DRAFT, help="The draft, a GGUF file."))
"""The option of a command that takes one draft."""
_DRAFTS = click_option(placement.MODEL_DRAFT)
_PLACEMENT = tuple(map(click_option, placement.PLACEMENT))
_CONTEXT = tuple(map(click_option, context.CONTEXT))
_CONTEXT_OF_GRID = tuple(click_option(one) for one in context.CONTEXT if one is not context.THREADS)
"""Context options of a command to which threads are an axis."""

_PRESET: Decorator = click.option(
    "--preset",
    is_eager=True,
    callback=preset_option,
    metavar="NAME",
    shell_complete=presets,
    help="Take options from a preset (see: spectui presets list).",
)

_FROM: Decorator = click.option(
    "--from",
    "command_line",
    metavar="COMMAND",
    shell_complete=files,
    is_eager=True,
    expose_value=False,
    callback=from_option,
    help=(
        'Take the options of an existing command, its sampling among them: "llama-server -m '
        '...", a file that holds one (a script, a Compose, llama-swap or models '
        "preset file; FILE:NAME for one of several), or pid:NUMBER of a llama-server that runs."
    ),
)

_DEMO: tuple[Decorator, ...] = (
    click.option(
        "--demo",
        is_flag=True,
        is_eager=True,
        callback=demo_option,
        help="Use the demo models; they are built on first use.",
    ),
    option(
        "--target",
        type=click.Choice(["dense", "moe"]),
        default="dense",
        help="Which demo target.",
    ),
)

_MODELS = (_MODEL, _DRAFT, _PRESET, _FROM, *_DEMO)

_TEMPERATURE = click_option(catalogue.TEMPERATURE)
_SAMPLING = tuple(map(click_option, catalogue.SAMPLING))

_DRAFT_DIR: Decorator = click.option(
    "--draft-dir",
    "draft_dirs",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A folder of drafts: every GGUF in it that fits is a candidate. May be repeated.",
)


def _drafters(*more: str) -> Decorator:
    with_server = f" {', '.join(more)} with --backend server." if more else ""
    return click.option(
        "--spec-type",
        cls=FromUserOnly,
        type=ListOf(DrafterKind([MODEL_KIND, MTP_KIND, *more])),
        default=(),
        metavar="LIST",
        help=(
            f"Who may draft beside n-gram drafters: {MODEL_KIND} (the drafts of -md), {MTP_KIND} "
            f"(MTP layers, the target's own or those of -md) (default: all that there "
            f"are).{with_server}"
        ),
    )


_DRAFTERS = _drafters()

_LENGTH: Decorator = option(
    "-n", "--n-predict", type=Whole(2), default=64, help="Tokens to generate per prompt."
)


OF_A_RUN: tuple[Decorator, ...] = (
    _LENGTH,
    _MODEL,
    _DRAFTS,
    _DRAFT_DIR,
    _DRAFTERS,
    *_DEMO,
    *_PLACEMENT,
    *_CONTEXT,
    _TEMPERATURE,
    *_SAMPLING,
    _LENGTH,
)
"""Options for the content of a run, which a preset may set; the others concern its output."""

_RUN: tuple[Decorator, ...] = (
    _LENGTH,
    option(
        "--prompts",
        type=File(),
        help="Your prompts: JSONL, JSON, CSV, text, or a folder of them (default: a suite).",
    ),
    JSON_FILE,
    QUIET,
    switch("--verbose", help="Show llama.cpp's log on stderr."),
)


DEMO_TOKENS = 128
"""Most tokens per answer of a demo model on the screen, unless the user says otherwise."""
COCKPIT: tuple[Decorator, ...] = (*_MODELS, *_PLACEMENT, *_CONTEXT, _TEMPERATURE, *_SAMPLING)
"""Options of the interactive screen that other commands have, too."""
OF_TEMPERATURES: tuple[Decorator, ...] = (*_MODELS, *_PLACEMENT, *_CONTEXT, *_SAMPLING, *_RUN, YES)
"""Shared options of a command that takes one draft, and has temperatures of its own."""
OF_ONE_DRAFT: tuple[Decorator, ...] = (*OF_TEMPERATURES, _TEMPERATURE)
OF_GRID: tuple[Decorator, ...] = (
    *(_MODEL, _DRAFTS, _DRAFT_DIR, _PRESET, _FROM, *_DEMO),
    *_PLACEMENT,
    *_CONTEXT_OF_GRID,
    *_SAMPLING,
    *_RUN,
    YES,
)
"""Shared options of a command whose axes are drafters, threads and temperatures."""


def _of_several_drafts(drafters: Decorator) -> tuple[Decorator, ...]:
    return (
        *(_MODEL, _DRAFTS, _DRAFT_DIR, drafters, _PRESET, _FROM, *_DEMO),
        *(*_PLACEMENT, *_CONTEXT, _TEMPERATURE, *_SAMPLING, *_RUN),
    )


OF_CANDIDATES = _of_several_drafts(_DRAFTERS)
"""Shared options of a command that takes several drafts."""
OF_SEARCH = _of_several_drafts(_drafters(*HIDDEN_STATE_KINDS))
"""The same where a llama-server may measure."""
