"""Options of a command's output, screen, and of what measures."""

import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from spectui.cli.click_options import Decorator, option, switch
from spectui.cli.completion import files
from spectui.cli.values import DURATION, ListOf, RequestLengths, Value
from spectui.errors import UsageError
from spectui.options.dialect import Dialect
from spectui.options.option import Whole
from spectui.options.setup import MOST_SLOTS
from spectui.paths import STORAGE_VARIABLE
from spectui.secret import without_passwords


def json_option(what: str = "Write the result as JSON; - for stdout.") -> Any:
    """``--json``, with a description of the document."""
    return option("--json", type=click.Path(allow_dash=True), metavar="FILE", help=what)


JSON_FILE: Decorator = json_option().named("json_path")
QUIET = switch("--quiet", help="Show no progress.")
YES = switch(
    "--yes",
    help=(
        "Load a pair even if RAM has no room for all of its weights, which are then read from disk "
        "again and again."
    ),
)
THEME = option("--theme", metavar="NAME", help="Look; the command palette lists them.")
ASCII = switch("--ascii", help="Draw with ASCII characters only.")
PIN = switch(
    "--pin",
    help="Write the layers and experts that --fit has chosen, not leave them to the server.",
)
DIALECTS = click.Choice([str(one) for one in Dialect])


def repeats_option(what: str) -> Any:
    """``--repeats``, with a description of what is repeated."""
    return option("--repeats", type=Whole(1), default=1, help=what)


class BackendKind(StrEnum):
    """Values of ``--backend``."""

    ENGINE = "engine"
    """spectui's own engine, which sees every round."""
    SERVER = "server"
    """The user's own llama-server."""


TIMEOUT = option(
    "--timeout",
    type=DURATION,
    default="10m",
    help="How long a server may take to load its models, or to answer.",
)

BACKEND = option(
    "--backend",
    type=click.Choice([str(kind) for kind in BackendKind]),
    default=str(BackendKind.ENGINE),
    help=(
        "What decodes: spectui's own engine, or your llama-server (--server-bin), which also "
        "runs what the engine cannot."
    ),
)
KEEP_BOTH = switch(
    "--keep-both/--one-at-a-time",
    default=None,
    help=(
        "With --backend server: let the target alone run beside a server that speculates, or "
        "end one before the other starts (default: both, where memory has room)."
    ),
)
OF_BACKEND: tuple[Decorator, ...] = (BACKEND, KEEP_BOTH.named("keeps_both"), TIMEOUT)


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


def _preferring(_ctx: click.Context, _param: click.Parameter, server: str | None) -> str | None:
    from spectui.llama.search import prefer

    if server is not None and (found := shutil.which(server)) is not None:
        prefer(Path(found))
    return server


SERVER_BIN = option(
    "--server-bin",
    metavar="PATH",
    callback=_preferring,
    shell_complete=files,
    help=(
        "Your llama-server (default: one that is found). With --backend server it measures; else "
        "the library beside it does, where it has one."
    ),
)


REQUEST = option(
    "--request",
    type=RequestLengths(),
    multiple=True,
    help=(
        "Tokens of the prompt and of the answer of a request that you run, such as 4096+512, whose "
        "seconds are told with the prompt's (default: the median prompt, and -n). May be repeated."
    ),
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
)


PARALLEL = option(
    "-np",
    "--parallel",
    type=ListOf(Value(Whole(1, MOST_SLOTS))),
    default=(),
    help=(
        "With --backend server: as many streams at once, on servers with as many slots, each with "
        "a context of -c (default: as the command of --from, else 1)."
    ),
)


def check_one_stream(*, is_one: bool) -> None:
    """Refuse several streams where nothing is served.

    Raises:
        UsageError: they were asked for.
    """
    if not is_one:
        raise UsageError(
            "-np: spectui's own engine has one stream; add --backend server --server-bin "
            "PATH, or leave out -np"
        )


def _check_library_beside(server_bin: str) -> None:
    """Refuse a llama-server without a library: the engine would take another one unasked."""
    from spectui.llama.search import Origin, places

    if (found := shutil.which(server_bin)) is None:
        raise UsageError(f"--server-bin {server_bin}: no such program; give the path of one")
    if Path(found) not in {place.server for place in places() if place.origin is Origin.SERVER}:
        raise UsageError(
            f"--server-bin {server_bin} has no llama.cpp library beside it, as a static build has "
            "none; add --backend server to measure through it, or leave it out"
        )


def check_no_servers(parsed: Mapping[str, Any]) -> None:
    """Refuse options of llama-servers for a run that starts none.

    Raises:
        UsageError: one was given, or a llama-server whose library cannot run the models instead.
    """
    if parsed["server_bin"] is not None:
        _check_library_beside(parsed["server_bin"])
    if parsed["keeps_both"] is not None:
        raise UsageError(
            "--keep-both and --one-at-a-time are for servers that spectui starts; add "
            "--backend server --server-bin PATH, or leave them out"
        )
