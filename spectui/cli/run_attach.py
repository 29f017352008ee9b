"""Runs ``spectui attach`` with parsed options."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.api_key import api_key_from_environment, ask_for_api_key, can_ask
from spectui.cli.documents.attach import attach_document
from spectui.cli.drawing import drawn, wrapped
from spectui.cli.failure import report_failure
from spectui.cli.guard import greet, in_child, let_end, take_back_greeting
from spectui.cli.output import check_writable, write_result
from spectui.errors import ServerError, UsageError
from spectui.format import bytes_text, counted
from spectui.monitor.readings import Reading, Snapshot
from spectui.paths import data_dir, ensure_dir
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment, ask_once, ask_twice
from spectui.server.watch.sample import (
    FailedSample,
    Failure,
    Sample,
    ServerSample,
    Trouble,
    model_name,
    model_text,
    sentence_of,
    unchosen,
)
from spectui.server.watch.state import AttachState, DraftState, ServedState, SlotsState, Work
from spectui.server.watch.tracker import Tracker
from spectui.settings import read_settings

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
        snapshot = _read_machine() if state.host.is_here else None
        document = attach_document(state, snapshot, interval_s=wanted.interval_s)
        write_result(document, _render(state), wanted.json_path)
        return
    _show(unlocked(attachment), wanted)


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


def _read_machine() -> Snapshot:
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


def _show(attachment: Attachment, wanted: Wanted) -> None:
    """Show the screen until the user quits.

    Raises:
        UsageError: there is no terminal.
    """
    settings = read_settings()
    log = ensure_dir(data_dir() / "logs") / "spectui.log"
    if not in_child():
        raise UsageError(
            "the interactive screen needs a terminal; run spectui attach in one, or give --once "
            "in scripts"
        )
    greet()
    try:
        from spectui.tui.attach.app import AttachApp, AttachLaunch
        from spectui.tui.terminal import private_terminal
    except BaseException:
        take_back_greeting()
        raise
    launch = AttachLaunch(
        attachment=attachment,
        interval_s=wanted.interval_s,
        settings=settings,
        theme=wanted.theme,
        ascii=wanted.ascii,
    )
    with private_terminal(log):
        app = AttachApp(launch)
        app.run()
    let_end()
    app.close()
    code = app.return_code or 0 if app.crash is None else report_failure(app.crash)
    # A thread may still be inside a driver or a resolver that nobody waits for any more.
    os._exit(code)


def _render(state: AttachState) -> str:
    """Render all sections."""
    return drawn(*_parts(state))


def _parts(state: AttachState) -> Iterator[RenderableType]:
    yield from _section("Server", _server(state))
    yield from _section("Throughput", _throughput(state.served))
    yield from _section("Acceptance", _acceptance(state.drafts))
    yield Text("Slots", style="bold")
    yield _slots(state.slots)


def _section(title: str, lines: Iterator[str]) -> Iterator[RenderableType]:
    yield Text(title, style="bold")
    yield from (Text(wrapped(line)) for line in lines)
    yield Text("")


def _server(state: AttachState) -> Iterator[str]:
    facts = state.facts.value
    if facts is None:
        yield f"{state.link.url}: {state.facts.reason}"
    else:
        build = "" if facts.build is None else f", llama.cpp {facts.build}"
        yield f"{state.link.url}{build}"
        yield f"{model_name(facts)}: {model_text(facts)}"
        if facts.models_reason is not None:
            yield f"size and parameters: {facts.models_reason}"
        if facts.is_sleeping:
            yield "it sleeps: the model is unloaded until the next request"
    process = state.host.process.value
    if process is None:
        yield f"process: {state.host.process.reason}"
        return
    busy = "" if state.host.cores is None else f", {state.host.cores:.1f} cores busy"
    memory = bytes_text(process.rss_bytes)
    yield f"{process.name}, process {process.pid} on this machine: {memory} of RAM{busy}"


def _throughput(served: ServedState) -> Iterator[str]:
    now = served.now_tokens_per_s
    rests = served.work is Work.IDLE
    yield str(served.work) if rests else f"{served.work}: {_speed(now)}"
    counters = served.counters.value
    if counters is None:
        if served.counters.reason != now.reason:
            yield f"since the start: {served.counters.reason}"
        return
    yield f"generation since the start: {_speed(served.mean_tokens_per_s)}"
    yield f"prompts since the start: {_speed(served.mean_prompt_tokens_per_s)}"
    cached = "" if counters.n_prompt_cached is None else f", {counters.n_prompt_cached} cached"
    yield (
        f"{counters.n_predicted} generated; prompts: {counters.n_prompt} evaluated{cached}; "
        f"{counted(counters.n_processing, 'request')} at work, {counters.n_deferred} waiting"
    )


def _speed(reading: Reading) -> str:
    return str(reading.reason) if reading.value is None else f"{reading.value:.1f} tokens/s"


def _acceptance(drafts: DraftState) -> Iterator[str]:
    counts = drafts.overall
    if drafts.reason is not None or counts is None or counts.acceptance_rate is None:
        yield str(drafts.reason)
        return
    yield (
        f"{counts.acceptance_rate:.2f} of {counted(counts.n_drafted, 'drafted token')} accepted, "
        f"{counts.mean_accepted_length:.2f} tokens per round"
    )
    if counts.share_per_position:
        shares = ", ".join(f"{share:.2f}" for share in counts.share_per_position)
        yield f"accepted at position 1, 2, ... of all {counts.n_drafts} drafts: {shares}"


def _slots(slots: SlotsState) -> RenderableType:
    if slots.reason is not None:
        return Text(wrapped(slots.reason))
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("slot", justify="right")
    table.add_column("state")
    for heading in ("context", "of", "generated", "left", "tokens/s"):
        table.add_column(heading, justify="right")
    for slot in slots.slots:
        sample = slot.sample
        numbers = (sample.n_used, sample.n_ctx, sample.n_decoded, sample.n_remaining)
        speed = "" if slot.tokens_per_s is None else f"{slot.tokens_per_s:.1f}"
        table.add_row(str(sample.id), str(slot.phase), *map(_count, numbers), speed)
    return table


def _count(value: int | None) -> str:
    return "" if value is None else str(value)
