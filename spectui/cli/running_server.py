"""A running server, asked with the API key that it wants: from the environment, or typed."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace

import click

from spectui.cli.output import complain
from spectui.errors import ServerError, UsageError
from spectui.server.watch.poller import Attachment, ask_once, ask_twice
from spectui.server.watch.sample import (
    API_KEY_VARIABLES,
    FailedSample,
    Failure,
    Sample,
    ServerSample,
    Trouble,
    sentence_of,
    unchosen,
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
        UsageError: it is a router, and no model of it was chosen.
    """

    def ask(with_key: Attachment) -> tuple[Sample, ...]:
        if interval_s == 0:
            return (asyncio.run(ask_once(with_key)),)
        return asyncio.run(ask_twice(with_key, interval_s))

    _attachment, samples = _asked(attachment, ask)
    tracker = Tracker(attachment.address.url)
    for sample in samples:
        if isinstance(sample, FailedSample):
            raise ServerError(sentence_of(sample.failure))
        _check_chosen(attachment, sample)
        tracker.add(sample)
    return tracker.state()


def questioned(attachment: Attachment) -> tuple[Attachment, ServerSample]:
    """Return the attachment with the key that the server requires, and the server's answer.

    Raises:
        ServerError: the server reports nothing.
    """
    attachment, (sample,) = _asked(attachment, lambda one: (asyncio.run(ask_once(one)),))
    if isinstance(sample, FailedSample):
        raise ServerError(sentence_of(sample.failure))
    return attachment, sample


def unlocked(attachment: Attachment) -> Attachment:
    """Return the attachment with the required key, asking for it on a terminal.

    A server that does not answer within two seconds is left to the screen.

    Raises:
        UsageError: it is a router, and no model of it was chosen.
    """

    def ask(with_key: Attachment) -> tuple[Sample, ...]:
        return (asyncio.run(ask_once(replace(with_key, timeout_s=_PROBE_S))),)

    with_key, samples = _asked(attachment, ask)
    for sample in samples:
        if isinstance(sample, ServerSample):
            _check_chosen(with_key, sample)
    return with_key


def _check_chosen(attachment: Attachment, sample: ServerSample) -> None:
    """Refuse a router as the server to watch: it lists models and serves none itself.

    Raises:
        UsageError: it is one.
    """
    facts = sample.facts.value
    if facts is not None and facts.is_router and attachment.model is None:
        raise UsageError(unchosen(attachment.address.url, facts))


def _asked(
    attachment: Attachment, ask: Callable[[Attachment], tuple[Sample, ...]]
) -> tuple[Attachment, tuple[Sample, ...]]:
    samples = ask(attachment)
    for _ in range(_TRIES):
        locked = _locked(samples)
        if locked is None or not can_ask():
            break
        attachment = replace(attachment, api_key=ask_for_api_key(locked.reason))
        samples = ask(attachment)
    return attachment, samples


def _locked(samples: tuple[Sample, ...]) -> Failure | None:
    for sample in samples:
        if isinstance(sample, FailedSample) and sample.failure.trouble is Trouble.LOCKED:
            return sample.failure
    return None
