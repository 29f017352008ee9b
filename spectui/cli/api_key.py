"""The API key of a server: from the environment, or typed without echo."""

import os
import sys

import click

from spectui.errors import UsageError
from spectui.server.watch.sample import API_KEY_VARIABLES


def api_key_from_environment() -> str | None:
    """Return the key, None if there is none.

    Raises:
        UsageError: it holds what no HTTP header can carry.
    """
    for name in API_KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            return _checked(key, name)
    return None


def can_ask() -> bool:
    """Whether a user can be asked on a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def ask_for_api_key(reason: str) -> str:
    """Ask the user for the key, without echo.

    Raises:
        UsageError: what was typed is no key.
    """
    click.echo(f"{reason}.", err=True)
    key: str = click.prompt("API key (it is not shown)", hide_input=True, err=True)
    return _checked(key.strip(), "what was typed")


def _checked(key: str, where: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"{where} is no API key: it holds characters that no HTTP header can carry; set "
            f"{API_KEY_VARIABLES[-1]} to the key alone"
        )
    return key
