"""Runs ``spectui attach`` with parsed options: the screen, or the state as a document."""

import os
from contextlib import closing
from dataclasses import asdict

from spectui import __version__
from spectui.cli.attach import JSON_S, SCREEN_S, Attach
from spectui.cli.failure import report_failure
from spectui.cli.guard import greet, ignore_signals, in_child, take_back_greeting, writable_log
from spectui.cli.output import check_writable, write_document
from spectui.cli.running_server import api_key_from_environment, look, unlocked
from spectui.documents import Json, fields_of, or_reason
from spectui.errors import UsageError
from spectui.monitor.readings import GpuReading, Reading, Snapshot
from spectui.server.address import parse_address
from spectui.server.replies import SlotReply
from spectui.server.watch.poller import Attachment
from spectui.server.watch.sample import HostState, ServerFacts
from spectui.server.watch.tracker import AttachState
from spectui.settings import read_settings

_SHORTEST_S = 0.1


def attach(request: Attach) -> None:
    """Watch a server, or write its present state.

    Raises:
        UsageError: the address is none, is that of a router of which no model was chosen, or there
            is no terminal for the screen; or options contradict each other.
        ServerError: with ``--json``, the server tells nothing.
    """
    json_path, interval_s = request.json_path, request.interval_s
    if json_path is not None and request.theme is not None:
        raise UsageError("--theme is for the screen; leave it out, or leave out --json")
    if json_path is None and interval_s is not None and interval_s < _SHORTEST_S:
        raise UsageError(f"--interval {interval_s:g} is too short; give {_SHORTEST_S} or more")
    if interval_s is None:
        interval_s = SCREEN_S if json_path is None else JSON_S
    attachment = Attachment(
        address=parse_address(request.address),
        api_key=api_key_from_environment(),
        model=request.model,
    )
    if json_path is not None:
        check_writable(json_path, ())
        state = look(attachment, interval_s)
        snapshot = _read_machine() if state.sample.host.is_here else None
        write_document(_document(state, snapshot, interval_s=interval_s), json_path)
        return
    _show(unlocked(attachment), interval_s, request)


def _read_machine() -> Snapshot:
    """Read the state of this machine."""
    from spectui.monitor.sampler import LiveSource

    with closing(LiveSource()) as source:
        return source.read()


def _show(attachment: Attachment, interval_s: float, request: Attach) -> None:
    """Show the screen until the user quits.

    Raises:
        UsageError: there is no terminal.
    """
    settings = read_settings()
    log, _problem = writable_log()
    if not in_child():
        raise UsageError(
            "the interactive screen needs a terminal; run spectui attach in one, or give "
            "--json - in scripts"
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
        theme=request.theme,
        ascii=request.ascii,
    )
    with private_terminal(log):
        app = AttachApp(launch)
        app.run()
    ignore_signals()
    app.close()
    code = app.return_code or 0 if app.crash is None else report_failure(app.crash)
    # A thread may still be inside a driver or a resolver that nobody waits for any more.
    os._exit(code)


_UNTOLD = "the server does not tell"
_NOTHING_DRAFTED = "nothing was drafted"
_NEVER = "no request has ended since the server was started"


def _document(state: AttachState, snapshot: Snapshot | None, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
        snapshot: readings of this machine, if the server runs here.
        interval_s: between two looks.
    """
    facts = state.sample.facts.value
    server = None if facts is None else _server_document(facts)
    return {
        "schema": "spectui.attach/1",
        "spectui": __version__,
        "url": state.url,
        "interval_s": interval_s,
        "answered_in_s": state.sample.took_s,
        **or_reason("server", server, state.sample.facts.reason or _UNTOLD),
        "throughput": _throughput_document(state),
        **_acceptance_document(state),
        **_slots_document(state),
        "machine": {**_process(state.sample.host), **_readings(snapshot)},
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


def _throughput_document(state: AttachState) -> Json:
    counters = state.sample.counters.value
    counted_since: Json | None = None
    mean = mean_prompt = None
    if counters is not None:
        mean, mean_prompt = counters.tokens_per_s, counters.prompt_tokens_per_s
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
        "state": str(state.sample.work),
        **_reading("tokens_per_s", state.now_tokens_per_s),
        **or_reason("mean_tokens_per_s", mean, state.sample.counters.reason or _NEVER),
        **or_reason(
            "mean_prompt_tokens_per_s", mean_prompt, state.sample.counters.reason or _NEVER
        ),
        **or_reason("counters", counted_since, state.sample.counters.reason or _UNTOLD),
    }


def _acceptance_document(state: AttachState) -> Json:
    counts = None if state.sample.counters.value is None else state.sample.counters.value.drafts
    if counts is None:
        return or_reason("acceptance", None, state.sample.undrafted or _UNTOLD)
    return {
        "acceptance": {
            "n_drafts": counts.n_drafts,
            "n_drafted": counts.n_drafted,
            "n_accepted": counts.n_accepted,
            **fields_of(counts, _NOTHING_DRAFTED, "acceptance_rate", "mean_accepted_length"),
            "accepted_per_position": list(counts.accepted_per_position),
        }
    }


def _slots_document(state: AttachState) -> Json:
    slots, speeds = state.sample.slots, state.slot_tokens_per_s
    found = None if slots.value is None else [_slot(one, speeds.get(one.id)) for one in slots.value]
    return or_reason("slots", found, slots.reason or _UNTOLD)


def _slot(slot: SlotReply, tokens_per_s: float | None) -> Json:
    no_request = "it has had no request"
    return {
        "id": slot.id,
        "state": str(slot.phase),
        **fields_of(slot, _UNTOLD, "n_ctx"),
        **fields_of(slot, f"{no_request}, or the server does not tell", "n_used"),
        **fields_of(slot, no_request, "n_decoded"),
        **fields_of(slot, "there is no limit, or no request", "n_remaining"),
        **or_reason("tokens_per_s", tokens_per_s, "it generates nothing, or was seen once"),
        **fields_of(slot, no_request, "task"),
        **fields_of(slot, _UNTOLD, "speculates"),
        "drafters": list(slot.drafters),
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
    return {
        "is_this_machine": host.is_here,
        "process": {
            **asdict(process),
            **fields_of(host, "a rate needs two readings", "cores"),
            **_reading("read_bytes_per_s", host.read_bytes_per_s),
        },
    }


def _reading(name: str, reading: Reading) -> Json:
    return or_reason(name, reading.value, reading.reason or _UNTOLD)
