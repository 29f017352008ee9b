"""Runs ``spectui attach`` with parsed options."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spectui.cli.api_key import api_key_from_environment, ask_for_api_key, can_ask
from spectui.cli.attach_view import told
from spectui.cli.documents.attach import attach_document
from spectui.cli.output import check_writable, write_result
from spectui.errors import ServerError, UsageError
from spectui.monitor.readings import Snapshot
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment, ask_once, ask_twice
from spectui.server.watch.sample import FailedSample, Failure, Sample, ServerSample, Trouble
from spectui.server.watch.tracker import Tracker
from spectui.server.watch.words import sentence_of, unchosen

if TYPE_CHECKING:
    from spectui.server.watch.state import AttachState

_TRIES = 3
"""Attempts to type the key."""
_PROBE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Options of ``spectui attach``."""

    address: str
    model: str | None
    once: bool
    interval_s: float
    json_path: str | None
    theme: str | None
    ascii: bool


def attach(wanted: Wanted) -> None:
    """Watch a server, or print its present state.

    Raises:
        UsageError: the address is none, is that of a router of which no model was chosen, or there
            is no terminal for the screen.
        ServerError: with ``--once``, the server tells nothing.
    """
    attachment = Attachment(
        address=parse_address(wanted.address),
        api_key=api_key_from_environment(),
        model=wanted.model,
    )
    if wanted.once:
        check_writable(wanted.json_path, ())
        state = look(attachment, wanted.interval_s)
        snapshot = read_machine() if state.host.is_here else None
        document = attach_document(state, snapshot, interval_s=wanted.interval_s)
        write_result(document, told(state), wanted.json_path)
        return
    from spectui.cli.run_attach_screen import show

    show(unlocked(attachment), wanted)


def look(attachment: Attachment, interval_s: float) -> "AttachState":
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


def read_machine() -> Snapshot:
    """Read the state of this machine."""
    from spectui.monitor.sampler import LiveSource

    with closing(LiveSource()) as source:
        return source.read()


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
