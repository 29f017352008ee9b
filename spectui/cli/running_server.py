"""A running server, asked with the API key that it wants: from the environment, or typed."""

import asyncio
import os
import sys
from dataclasses import replace

import click

from spectui.cli.output import complain
from spectui.errors import ServerError, UsageError
from spectui.server.watch.poller import Attachment, ask
from spectui.server.watch.sample import (
    API_KEY_VARIABLES,
    Failure,
    Sample,
    ServerSample,
    Trouble,
    unrouted,
)
from spectui.server.watch.tracker import AttachState, Tracker

_TRIES = 3
"""Attempts to type the key."""
_PROBE_S = 2.0


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
    complain(f"{reason}.")
    key: str = click.prompt("API key (it is not shown)", hide_input=True, err=True)
    return _checked(key.strip(), "what was typed")


def _checked(key: str, where: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"{where} is no API key: it holds characters that no HTTP header can carry; set "
            f"{API_KEY_VARIABLES[-1]} to the key alone"
        )
    return key


def look(attachment: Attachment, interval_s: float) -> AttachState:
    """Ask the server twice, or once without an interval; return its state.

    Raises:
        ServerError: the server tells nothing.
        UsageError: it is a router.
    """
    _attachment, samples = _asked(attachment, interval_s)
    tracker = Tracker(attachment.address.url)
    for sample in samples:
        _check_runs_model(attachment, sample)
        tracker.add(_answer(sample))
    return tracker.state


def unlocked(attachment: Attachment) -> Attachment:
    """Return the attachment with the required key, asking for it on a terminal.

    A server that does not answer within two seconds is left to the screen.

    Raises:
        UsageError: it is a router.
    """
    with_key, (sample,) = _asked(replace(attachment, timeout_s=_PROBE_S))
    _check_runs_model(attachment, sample)
    return replace(attachment, api_key=with_key.api_key)


def _answer(sample: Sample) -> ServerSample:
    """Return a sample that tells something.

    Raises:
        ServerError: it is none.
    """
    if isinstance(sample, Failure):
        raise ServerError(sample.reason)
    return sample


def _check_runs_model(attachment: Attachment, sample: Sample) -> None:
    """Refuse a router as the server to watch: it lists models and runs none itself.

    Raises:
        UsageError: it is one.
    """
    facts = None if isinstance(sample, Failure) else sample.facts.value
    if facts is not None and facts.is_router:
        raise UsageError(unrouted(attachment.address.url, facts))


def _asked(
    attachment: Attachment, interval_s: float = 0.0
) -> tuple[Attachment, tuple[Sample, ...]]:
    """Ask once, or twice with an interval; on a terminal the user may type a missing key."""
    samples = asyncio.run(ask(attachment, interval_s))
    for _ in range(_TRIES):
        first = samples[0]
        if not isinstance(first, Failure) or first.trouble is not Trouble.LOCKED or not can_ask():
            break
        attachment = replace(attachment, api_key=ask_for_api_key(first.reason))
        samples = asyncio.run(ask(attachment, interval_s))
    return attachment, samples
