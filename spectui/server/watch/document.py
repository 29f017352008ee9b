"""The document of a watched server."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from operator import or_

from spectui.documents import Json, fields_of, head, known, or_reason
from spectui.monitor.readings import GpuReading, Snapshot
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.sample import HostState, ServerFacts
from spectui.server.watch.tracker import AttachState

_UNTOLD = "the server does not tell"
_NOTHING_DRAFTED = "nothing was drafted"
_NEVER = "no request has ended since the server was started"
_ELSEWHERE = "the server does not run on this machine"


def attach_document(state: AttachState, snapshot: Snapshot | None, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
        snapshot: readings of this machine, if the server runs here.
        interval_s: between two looks.
    """
    sample, speeds = state.sample, state.slot_tokens_per_s
    counters = sample.counters.value
    counts = None if counters is None else counters.drafts
    unseen = sample.counters.reason or _NEVER
    return {
        **head("attach"),
        "url": state.url,
        "interval_s": interval_s,
        "answered_in_s": sample.took_s,
        **known("server", sample.facts, _server, _UNTOLD),
        "throughput": {
            "state": str(sample.work),
            **or_reason("tokens_per_s", state.now_tokens_per_s, _UNTOLD),
            **or_reason("mean_tokens_per_s", counters and counters.tokens_per_s, unseen),
            **or_reason(
                "mean_prompt_tokens_per_s", counters and counters.prompt_tokens_per_s, unseen
            ),
            **known("counters", sample.counters, _counters, _UNTOLD),
        },
        **or_reason("acceptance", counts and _acceptance(counts), sample.undrafted or _UNTOLD),
        **known("slots", sample.slots, lambda each: [_slot(one, speeds) for one in each], _UNTOLD),
        "machine": {"is_this_machine": sample.host.is_here, **_machine(sample.host, snapshot)},
    }


def _server(facts: ServerFacts) -> Json:
    listed = facts.models if facts.models_reason is None else None
    unlisted = facts.models_reason or _UNTOLD
    own = ("build", "alias", "model_path", "quantization", "n_ctx", "n_slots")
    return {
        **fields_of(facts, _UNTOLD, *own, "is_router", "is_sleeping"),
        **fields_of(facts, unlisted, "n_params", "size_bytes", "n_ctx_train"),
        **or_reason("models", listed and list(listed), unlisted),
    }


def _counters(counters: Counters) -> Json:
    counts = ("n_prompt", "n_prompt_cached", "n_predicted", "n_processing", "n_deferred")
    return fields_of(counters, _UNTOLD, *counts, "prompt_s", "predicted_s")


def _acceptance(counts: DraftCounts) -> Json:
    totals = ("n_drafts", "n_drafted", "n_accepted", "accepted_per_position")
    return fields_of(counts, _NOTHING_DRAFTED, *totals, "acceptance_rate", "mean_accepted_length")


def _slot(slot: SlotReply, tokens_per_s: Mapping[int, float | None]) -> Json:
    no_request, idle = "it has had no request", "it generates nothing, or was seen once"
    return {
        "state": str(slot.phase),
        **fields_of(slot, _UNTOLD, "id", "n_ctx", "speculates", "drafters"),
        **fields_of(slot, f"{no_request}, or the server does not tell", "n_used"),
        **fields_of(slot, no_request, "n_decoded", "task"),
        **fields_of(slot, "there is no limit, or no request", "n_remaining"),
        **or_reason("tokens_per_s", tokens_per_s.get(slot.id), idle),
    }


def _machine(host: HostState, snapshot: Snapshot | None) -> Json:
    """The server's process, and readings of its machine where that is this one."""
    rates = {
        **fields_of(host, "a rate needs two readings", "cores"),
        **fields_of(host, _UNTOLD, "read_bytes_per_s"),
    }
    process = known("process", host.process, lambda one: {**asdict(one), **rates}, _UNTOLD)
    if snapshot is None:
        unread = (or_reason(name, None, _ELSEWHERE) for name in ("memory", "gpus"))
        return process | reduce(or_, unread)
    own = snapshot.host
    memory = {
        "total_bytes": own.memory_total_bytes,
        "available_bytes": own.memory_available_bytes,
        "swap_used_bytes": own.swap_used_bytes,
    }
    gpus = [_gpu(gpu) for gpu in snapshot.gpus] or None
    return {**process, "memory": memory, **or_reason("gpus", gpus, snapshot.gpu_reason or _UNTOLD)}


def _gpu(gpu: GpuReading) -> Json:
    return {
        **or_reason("pci_address", gpu.address, _UNTOLD),
        **fields_of(
            gpu,
            _UNTOLD,
            *("index", "name", "source", "in_ram", "memory_used_bytes", "memory_total_bytes"),
            *("utilisation", "power_w", "temperature_c", "clock_hz", "memory_clock_hz"),
            "throttled_by",
        ),
    }
