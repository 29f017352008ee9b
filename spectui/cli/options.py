"""Options that commands share: of runs, under llama-server's own names, output, and servers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from spectui.cli.click_options import ListOf, click_option, files, option, switch
from spectui.cli.given import demo_option, from_option, preset_option, target_option
from spectui.cli.help import CommandOption, FromUserOnly
from spectui.errors import UsageError
from spectui.options import catalogue, placement
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND, NGRAM_KINDS
from spectui.options.option import Dialect, Form, Option, Whole
from spectui.options.setup import MOST_SLOTS
from spectui.paths import STORAGE_VARIABLE
from spectui.secret import without_passwords

_MODELS, _DRAFTING, _IN_RUN = "Models", "Speculation", "Run"
_SERVER, _OUTPUT = "llama-server", "Output"
"""Subjects of the help."""


def json_option(what: str = "Write the result as JSON; - for stdout.") -> Any:
    """``--json``, with a description of the document."""
    kind = click.Path(allow_dash=True)
    return option("--json", "json_path", type=kind, metavar="FILE", help=what, subject=_OUTPUT)


JSON_FILE: click.Option = json_option()
QUIET = switch(
    "--quiet", help="Say nothing but results, notes on them, and errors.", subject=_OUTPUT
)
YES = switch(
    "--yes",
    help=(
        "Load a pair even if RAM has no room for all of its weights, which are then read from disk "
        "again and again."
    ),
    subject=_IN_RUN,
)
DIALECTS = click.Choice(list(map(str, Dialect)))


def repeats_option(what: str) -> Any:
    """``--repeats``, with a description of what is repeated."""
    return option("--repeats", type=Whole(1), default=1, help=what, subject=_IN_RUN)


TIMEOUT = option(
    "--timeout",
    type=Form.SECONDS,
    default="10m",
    help="How long a server may take to load its models, or to answer.",
    subject=_SERVER,
)

BACKEND = option(
    "--backend",
    type=click.Choice(["engine", "server"]),
    default="engine",
    help=(
        "What decodes: spectui's own engine, or your llama-server (--server-bin), which also "
        "runs what the engine cannot."
    ),
    subject=_SERVER,
)
BACKEND_OPTIONS: tuple[click.Option, ...] = (BACKEND, TIMEOUT)


def _without_password(_ctx: click.Context, _param: click.Parameter, url: str | None) -> str | None:
    if url is not None and without_passwords(url) != url:
        raise UsageError(
            "--storage: everybody on this machine can read the password of a command line; set "
            f"{STORAGE_VARIABLE} to the address, or leave the password to ~/.pgpass"
        )
    return url


STORAGE = option(
    "--storage",
    metavar="URL",
    callback=_without_password,
    help=(
        "Where studies are: sqlite:///FILE, or postgresql://USER@HOST/NAME for several machines "
        f"(default: {STORAGE_VARIABLE}, or a SQLite file of spectui's own)."
    ),
)


def server_bin_option(what: str) -> Any:
    """``--server-bin``, with a description of what the llama-server does."""
    return option("--server-bin", metavar="PATH", shell_complete=files, help=what, subject=_SERVER)


SERVER_BIN = server_bin_option(
    "Your llama-server, which measures then (with --backend server alone: one that is found)."
)
REQUEST = option(
    "--request",
    type=Form.LENGTHS,
    multiple=True,
    help=(
        "Tokens of the prompt and of the answer of a request that you run, such as 4096+512, whose "
        "seconds are told with the prompt's (default: the median prompt, and -n). May be repeated."
    ),
    subject=_IN_RUN,
)
CHATS = option(
    "--chats",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help=(
        "Chats as prompts, beside --prompts or in place of the built-in suite: an export of Open "
        "WebUI, LM Studio, llama-server's page, SillyTavern or ShareGPT, a log of OpenAI-style "
        "requests, or a folder of them. Answers that the target has written itself are recorded as "
        "they are. May be repeated."
    ),
    subject=_IN_RUN,
)


def parallel_option(kind: Whole | ListOf, **attributes: Any) -> Any:
    """``-np``: one number of streams, or a list of them."""
    return option(
        *("-np", "--parallel"),
        type=kind,
        help=(
            "With --backend server: as many streams at once, on a server with as many slots, each "
            "with a context of -c (default: as the command of --from, else 1)."
        ),
        subject=_SERVER,
        **attributes,
    )


SLOTS = Whole(1, MOST_SLOTS)
PARALLEL = parallel_option(SLOTS)


def _under(subject: str, *options: Option) -> tuple[CommandOption, ...]:
    return tuple(click_option(one, subject) for one in options)


_MODEL, _DRAFTS, _DRAFT = _under(
    _MODELS,
    *(placement.MODEL, placement.MODEL_DRAFT),
    replace(placement.MODEL_DRAFT, help="The draft, a GGUF file."),
)
"""The last is the option of a command that takes one draft."""
_PLACEMENT = _under("Placement", *placement.PLACEMENT)
_CONTEXT = _under("Context", *catalogue.SIZES)
_THREADS, *_OTHER_THREADS = _under("Threads", *catalogue.COMPUTE)

_PRESET: click.Option = option(
    "--preset",
    is_eager=True,
    callback=preset_option,
    metavar="NAME",
    help="Take options from a preset (see: spectui presets list).",
    subject=_MODELS,
)
_FROM: click.Option = option(
    "--from",
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
    subject=_MODELS,
)
_DEMO: tuple[click.Option, ...] = (
    switch(
        "--demo",
        is_eager=True,
        callback=demo_option,
        help="Use the demo models; they are built on first use.",
        subject=_MODELS,
    ),
    option(
        "--target",
        type=("dense", "moe"),
        default="dense",
        callback=target_option,
        help="Which demo target.",
        subject=_MODELS,
    ),
)

_TEMPERATURE, *_SAMPLING = _under("Sampling", catalogue.TEMPERATURE, *catalogue.SAMPLING)


def _spec_type(
    what: str, *kinds: str, by_server: bool, cls: type[CommandOption] = CommandOption
) -> Any:
    """``--spec-type``; ``by_server`` where a llama-server may measure what it alone runs."""
    more = HIDDEN_STATE_KINDS if by_server else ()
    note = f" {', '.join(more)} with --backend server." if more else ""
    return option(
        "--spec-type",
        cls=cls,
        type=ListOf(click.Choice([MODEL_KIND, MTP_KIND, *kinds, *more])),
        default=(),
        metavar="LIST",
        help=f"{what}{note}",
        subject=_DRAFTING,
    )


_WHO_MAY = (
    f"Who may draft beside n-gram drafters: {MODEL_KIND} (the drafts of -md), {MTP_KIND} "
    f"(MTP layers, the target's own or those of -md) (default: all that there are)."
)
_WHO_DRAFTS = (
    f"Who drafts: {MODEL_KIND}, {MTP_KIND} (MTP layers, the target's own or those of -md), "
    f"{', '.join(NGRAM_KINDS)}; of several, separated by commas, the first that has "
    f"something to propose (default: {MODEL_KIND})."
)
_DRAFTERS, _SEARCHED = (
    _spec_type(_WHO_MAY, by_server=by_server, cls=FromUserOnly) for by_server in (False, True)
)

_LENGTH: click.Option = option(
    "-n",
    "--n-predict",
    type=Whole(2),
    default=64,
    help="Tokens to generate per prompt.",
    subject=_IN_RUN,
)
_CONTENT = (
    *(*_DEMO, *_PLACEMENT, *_CONTEXT, _THREADS, *_OTHER_THREADS),
    *(_TEMPERATURE, *_SAMPLING),
)
CONTENT_OPTIONS: tuple[click.Option, ...] = (_MODEL, _DRAFTS, _DRAFTERS, *_CONTENT, _LENGTH)
"""Options for the content of a run, which a preset may set; the others concern its output."""

_RUN: tuple[click.Option, ...] = (
    _LENGTH,
    option(
        "--prompts",
        type=Form.FILE,
        help="Your prompts: JSONL, JSON, CSV, text, or a folder of them (default: a suite).",
        subject=_IN_RUN,
    ),
    JSON_FILE,
    QUIET,
    switch("--verbose", help="Show llama.cpp's log on stderr.", subject=_OUTPUT),
)


COCKPIT: tuple[click.Option, ...] = (_MODEL, _DRAFT, _PRESET, _FROM, *_CONTENT)
"""Options of the interactive screen that other commands have, too."""
PAIR_OPTIONS: tuple[click.Option, ...] = (*COCKPIT, *_RUN, YES)
CANDIDATE_OPTIONS = (_MODEL, _DRAFTS, _DRAFTERS, _PRESET, _FROM, *_CONTENT, *_RUN)
"""Shared options of a command that takes several drafts."""
SEARCH_OPTIONS = tuple(_SEARCHED if one is _DRAFTERS else one for one in CANDIDATE_OPTIONS)
"""The same where a llama-server may measure."""
GRID_OPTIONS = tuple(
    one for one in (*CANDIDATE_OPTIONS, YES) if one not in (_DRAFTERS, _THREADS, _TEMPERATURE)
)
"""Shared options of a command whose axes are drafters, threads and temperatures."""

_NUMBERS = _under(_DRAFTING, *catalogue.NUMBERS)
DRAFTING, MEASURED = (
    (_spec_type(_WHO_DRAFTS, *NGRAM_KINDS, by_server=by_server), *_NUMBERS)
    for by_server in (False, True)
)
"""Drafting options; the latter of commands that can measure through llama-server."""
