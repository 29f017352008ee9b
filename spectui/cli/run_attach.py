"""Runs ``spectui attach`` with parsed options: the screen, or the state as text and document."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spectui import __version__
from spectui.cli.drawing import drawn, wrapped
from spectui.cli.failure import report_failure
from spectui.cli.guard import greet, in_child, let_end, take_back_greeting, writable_log
from spectui.cli.output import check_writable, write_result
from spectui.cli.running_server import api_key_from_environment, look, unlocked
from spectui.documents import Json, fields_of, or_reason
from spectui.errors import UsageError
from spectui.format import bytes_text, counted
from spectui.monitor.readings import GpuReading, Reading, Snapshot
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment
from spectui.server.watch.sample import HostState, ServerFacts, model_name, model_text
from spectui.server.watch.tracker import (
    AttachState,
    DraftState,
    ServedState,
    SlotsState,
    SlotState,
    Work,
)
from spectui.settings import read_settings


def attach(
    address: str,
    *,
    model: str | None,
    once: bool,
    interval_s: float,
    json_path: str | None,
    theme: str | None,
    ascii: bool,  # noqa: A002 - the option's name
) -> None:
    """Watch a server, or print its present state.

    Raises:
        UsageError: the address is none, is that of a router of which no model was chosen, or there
            is no terminal for the screen.
        ServerError: with ``--once``, the server tells nothing.
    """
    attachment = Attachment(
        address=parse_address(address), api_key=api_key_from_environment(), model=model
    )
    if once:
        check_writable(json_path, ())
        state = look(attachment, interval_s)
        snapshot = _read_machine() if state.host.is_here else None
        document = _document(state, snapshot, interval_s=interval_s)
        write_result(document, drawn(*_parts(state)), json_path)
        return
    _show(unlocked(attachment), interval_s, theme=theme, is_ascii=ascii)


def _read_machine() -> Snapshot:
    """Read the state of this machine."""
    from spectui.monitor.sampler import LiveSource

    with closing(LiveSource()) as source:
        return source.read()


def _show(attachment: Attachment, interval_s: float, *, theme: str | None, is_ascii: bool) -> None:
    """Show the screen until the user quits.

    Raises:
        UsageError: there is no terminal.
    """
    settings = read_settings()
    log, _problem = writable_log()
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
        interval_s=interval_s,
        settings=settings,
        theme=theme,
        ascii=is_ascii,
    )
    with private_terminal(log):
        app = AttachApp(launch)
        app.run()
    let_end()
    app.close()
    code = app.return_code or 0 if app.crash is None else report_failure(app.crash)
    # A thread may still be inside a driver or a resolver that nobody waits for any more.
    os._exit(code)


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


_UNTOLD = "the server does not tell"
_NOTHING_DRAFTED = "nothing was drafted"


def _document(state: AttachState, snapshot: Snapshot | None, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
        snapshot: readings of this machine, if the server runs here.
        interval_s: between two looks.
    """
    facts = state.facts.value
    server = None if facts is None else _server_document(facts)
    return {
        "schema": "spectui.attach/1",
        "spectui": __version__,
        "url": state.link.url,
        "interval_s": interval_s,
        "answered_in_s": state.link.took_s,
        **or_reason("server", server, state.facts.reason or _UNTOLD),
        "throughput": _throughput_document(state.served),
        **_acceptance_document(state.drafts),
        **_slots_document(state.slots),
        "machine": {**_process(state.host), **_readings(snapshot)},
    }


def _server_document(facts: ServerFacts) -> Json:
    models = list(facts.models) if facts.models_reason is None else None
    of_models = facts.models_reason or _UNTOLD
    return {
        **fields_of(facts, _UNTOLD, "build", "alias", "model_path", "quantization"),
        **fields_of(facts, of_models, "n_params", "size_bytes"),
        **fields_of(facts, _UNTOLD, "n_ctx"),
        **fields_of(facts, of_models, "n_ctx_train"),
        **fields_of(facts, _UNTOLD, "n_slots"),
        **or_reason("models", models, of_models),
        "is_router": facts.is_router,
        "is_sleeping": facts.is_sleeping,
    }


def _throughput_document(served: ServedState) -> Json:
    counters = served.counters.value
    counted_since: Json | None = None
    if counters is not None:
        counted_since = {
            "n_prompt": counters.n_prompt,
            "prompt_s": counters.prompt_s,
            **fields_of(counters, _UNTOLD, "n_prompt_cached"),
            "n_predicted": counters.n_predicted,
            "predicted_s": counters.predicted_s,
            "n_processing": counters.n_processing,
            "n_deferred": counters.n_deferred,
        }
    return {
        "state": str(served.work),
        **_reading("tokens_per_s", served.now_tokens_per_s),
        **_reading("mean_tokens_per_s", served.mean_tokens_per_s),
        **_reading("mean_prompt_tokens_per_s", served.mean_prompt_tokens_per_s),
        **or_reason("counters", counted_since, served.counters.reason or _UNTOLD),
    }


def _acceptance_document(drafts: DraftState) -> Json:
    counts = drafts.overall
    if counts is None:
        return or_reason("acceptance", None, drafts.reason or _UNTOLD)
    return {
        "acceptance": {
            "n_drafts": counts.n_drafts,
            "n_drafted": counts.n_drafted,
            "n_accepted": counts.n_accepted,
            **fields_of(counts, _NOTHING_DRAFTED, "acceptance_rate", "mean_accepted_length"),
            "accepted_per_position": list(counts.accepted_per_position),
        }
    }


def _slots_document(slots: SlotsState) -> Json:
    if slots.reason is not None:
        return or_reason("slots", None, slots.reason)
    return {"slots": [_slot(slot) for slot in slots.slots]}


def _slot(slot: SlotState) -> Json:
    sample, no_request = slot.sample, "it has had no request"
    return {
        "id": sample.id,
        "state": str(slot.phase),
        **fields_of(sample, _UNTOLD, "n_ctx"),
        **fields_of(sample, f"{no_request}, or the server does not tell", "n_used"),
        **fields_of(sample, no_request, "n_decoded"),
        **fields_of(sample, "there is no limit, or no request", "n_remaining"),
        **fields_of(slot, "it generates nothing, or was seen once", "tokens_per_s"),
        **fields_of(sample, no_request, "task"),
        **fields_of(sample, _UNTOLD, "speculates"),
        "drafters": list(sample.drafters),
    }


def _readings(snapshot: Snapshot | None) -> Json:
    if snapshot is None:
        reason = "the server does not run on this machine"
        return {**or_reason("memory", None, reason), **or_reason("gpus", None, reason)}
    host = snapshot.host
    memory = {
        "total_bytes": host.memory_total_bytes,
        "available_bytes": host.memory_available_bytes,
        "swap_used_bytes": host.swap_used_bytes,
    }
    gpus = [_gpu(gpu) for gpu in snapshot.gpus] or None
    return {"memory": memory, **or_reason("gpus", gpus, snapshot.gpu_reason or _UNTOLD)}


_GPU_READINGS = (
    "memory_used_bytes",
    "memory_total_bytes",
    "utilisation",
    "power_w",
    "temperature_c",
    "clock_hz",
    "memory_clock_hz",
)


def _gpu(gpu: GpuReading) -> Json:
    found: Json = {
        "index": gpu.index,
        "name": gpu.name,
        "source": str(gpu.source),
        **or_reason("pci_address", gpu.address, _UNTOLD),
        "in_ram": gpu.in_ram,
    }
    for name in _GPU_READINGS:
        found |= _reading(name, getattr(gpu, name))
    throttles = gpu.throttled_by
    told = None if throttles.value is None else [str(one) for one in throttles.value]
    return found | or_reason("throttled_by", told, throttles.reason or _UNTOLD)


def _process(host: HostState) -> Json:
    process = host.process.value
    if process is None:
        return {
            "is_this_machine": host.is_here,
            **or_reason("process", None, host.process.reason or _UNTOLD),
        }
    fields = asdict(process)
    del fields["read_bytes"]
    return {
        "is_this_machine": host.is_here,
        "process": {
            **fields,
            **fields_of(host, "a rate needs two readings", "cores"),
            **_reading("read_bytes_per_s", host.read_bytes_per_s),
        },
    }


def _reading(name: str, reading: Reading) -> Json:
    return or_reason(name, reading.value, reading.reason or _UNTOLD)
