"""The document of ``attach --once``."""

from dataclasses import asdict

from spectui import __version__
from spectui.documents import Json, or_reason
from spectui.monitor.readings import GpuReading, Reading, Snapshot
from spectui.server.metrics import DraftCounts
from spectui.server.watch.sample import ServerFacts
from spectui.server.watch.state import (
    AttachState,
    DraftState,
    HostState,
    ServedState,
    SlotsState,
    SlotState,
)

_UNTOLD = "the server does not tell"
_NOTHING_DRAFTED = "nothing was drafted"


def attach_document(state: AttachState, snapshot: Snapshot | None, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
        snapshot: readings of this machine, if the server runs here.
        interval_s: between two looks.
    """
    facts = state.facts.value
    server = None if facts is None else _facts(facts)
    return {
        "schema": "spectui.attach/1",
        "spectui": __version__,
        "url": state.link.url,
        "interval_s": interval_s,
        "answered_in_s": state.link.took_s,
        **or_reason("server", server, state.facts.reason or _UNTOLD),
        "throughput": _throughput(state.served),
        **_acceptance(state.drafts),
        **_slots(state.slots),
        "machine": {**_process(state.host), **_readings(snapshot)},
    }


def _facts(facts: ServerFacts) -> Json:
    return {
        **or_reason("build", facts.build, _UNTOLD),
        **or_reason("alias", facts.alias, _UNTOLD),
        **or_reason("model_path", facts.model_path, _UNTOLD),
        **or_reason("quantization", facts.quantization, _UNTOLD),
        **or_reason("n_params", facts.n_params, facts.models_reason or _UNTOLD),
        **or_reason("size_bytes", facts.size_bytes, facts.models_reason or _UNTOLD),
        **or_reason("n_ctx", facts.n_ctx, _UNTOLD),
        **or_reason("n_ctx_train", facts.n_ctx_train, facts.models_reason or _UNTOLD),
        **or_reason("n_slots", facts.n_slots, _UNTOLD),
        **or_reason("models", _models(facts), facts.models_reason or _UNTOLD),
        "is_router": facts.is_router,
        "is_sleeping": facts.is_sleeping,
    }


def _models(facts: ServerFacts) -> list[str] | None:
    return list(facts.models) if facts.models_reason is None else None


def _throughput(served: ServedState) -> Json:
    return {
        "state": str(served.work),
        **_reading("tokens_per_s", served.now_tokens_per_s),
        **_reading("mean_tokens_per_s", served.mean_tokens_per_s),
        **_reading("mean_prompt_tokens_per_s", served.mean_prompt_tokens_per_s),
        **_counters(served),
    }


def _counters(served: ServedState) -> Json:
    counters = served.counters.value
    if counters is None:
        return {"counters": None, "counters_reason": served.counters.reason}
    counted = {
        "n_prompt": counters.n_prompt,
        "prompt_s": counters.prompt_s,
        **or_reason("n_prompt_cached", counters.n_prompt_cached, _UNTOLD),
        "n_predicted": counters.n_predicted,
        "predicted_s": counters.predicted_s,
        "n_processing": counters.n_processing,
        "n_deferred": counters.n_deferred,
    }
    return {"counters": counted}


def _acceptance(drafts: DraftState) -> Json:
    if drafts.overall is None:
        return {"acceptance": None, "acceptance_reason": drafts.reason}
    return {"acceptance": _counts(drafts.overall)}


def _counts(counts: DraftCounts) -> Json:
    return {
        "n_drafts": counts.n_drafts,
        "n_drafted": counts.n_drafted,
        "n_accepted": counts.n_accepted,
        **or_reason("acceptance_rate", counts.acceptance_rate, _NOTHING_DRAFTED),
        **or_reason("mean_accepted_length", counts.mean_accepted_length, _NOTHING_DRAFTED),
        "accepted_per_position": list(counts.accepted_per_position),
    }


def _slots(slots: SlotsState) -> Json:
    if slots.reason is not None:
        return {"slots": None, "slots_reason": slots.reason}
    return {"slots": [_slot(slot) for slot in slots.slots]}


def _slot(slot: SlotState) -> Json:
    sample = slot.sample
    return {
        "id": sample.id,
        "state": str(slot.phase),
        **or_reason("n_ctx", sample.n_ctx, _UNTOLD),
        **or_reason("n_used", sample.n_used, "it has had no request, or the server does not tell"),
        **or_reason("n_decoded", sample.n_decoded, "it has had no request"),
        **or_reason("n_remaining", sample.n_remaining, "there is no limit, or no request"),
        **or_reason("tokens_per_s", slot.tokens_per_s, "it generates nothing, or was seen once"),
        **or_reason("task", sample.task, "it has had no request"),
        **or_reason("speculates", sample.speculates, _UNTOLD),
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


def _gpu(gpu: GpuReading) -> Json:
    return {
        "index": gpu.index,
        "name": gpu.name,
        **_reading("memory_used_bytes", gpu.memory_used_bytes),
        **_reading("memory_total_bytes", gpu.memory_total_bytes),
        **_reading("utilisation", gpu.utilisation),
        **_reading("power_w", gpu.power_w),
        **_reading("temperature_c", gpu.temperature_c),
    }


def _process(host: HostState) -> Json:
    if host.process.value is None:
        process: Json = {"process": None, "process_reason": host.process.reason}
        return {"is_this_machine": host.is_here, **process}
    fields = asdict(host.process.value)
    del fields["read_bytes"]
    return {
        "is_this_machine": host.is_here,
        "process": {
            **fields,
            **or_reason("cores", host.cores, "a rate needs two readings"),
            **_reading("read_bytes_per_s", host.read_bytes_per_s),
        },
    }


def _reading(name: str, reading: Reading) -> Json:
    return or_reason(name, reading.value, reading.reason or _UNTOLD)
