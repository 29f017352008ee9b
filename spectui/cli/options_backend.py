"""Options for the backend that measures: the engine in this process, or llama-server."""

from enum import StrEnum

import click

from spectui.cli.click_options import Decorator
from spectui.cli.duration import DURATION


class BackendKind(StrEnum):
    """Values of ``--backend``."""

    ENGINE = "engine"
    """Llama.cpp in this process, which sees every round."""
    SERVER = "server"
    """The user's own llama-server."""


TIMEOUT: Decorator = click.option(
    "--timeout",
    type=DURATION,
    default="10m",
    show_default=True,
    metavar="TIME",
    help="How long a server may take to load its models, or to answer.",
)

BACKEND: tuple[Decorator, ...] = (
    click.option(
        "--backend",
        type=click.Choice([str(kind) for kind in BackendKind]),
        default=str(BackendKind.ENGINE),
        show_default=True,
        help=(
            "What decodes: spectui's own engine, or your llama-server (--server-bin), which also "
            "runs what the engine cannot."
        ),
    ),
    click.option(
        "--keep-both/--one-at-a-time",
        "keeps_both",
        default=None,
        help=(
            "With --backend server: let the target alone run beside a server that speculates, or "
            "end one before the other starts (default: both, where memory has room)."
        ),
    ),
    TIMEOUT,
)

SERVER_BIN: Decorator = click.option(
    "--server-bin", metavar="PATH", help="Your llama-server, for --backend server."
)
