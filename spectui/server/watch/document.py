"""The document of a watched server."""

from collections.abc import Mapping

from spectui.documents import Json, fields_of, head, known, or_reason
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.sample import ServerFacts
from spectui.server.watch.tracker import AttachState

_UNTOLD = "the server does not tell"
_NEVER = "no request has ended since the server was started"


def attach_document(state: AttachState, *, interval_s: float) -> Json:
    """``spectui.attach/1``.

    Args:
        state: state of the server.
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
            **or_reason("tokens_per_s", state.now_tokens_per_s, _UNTOLD),
            **or_reason("mean_tokens_per_s", counters and counters.tokens_per_s, unseen),
            **or_reason(
                "mean_prompt_tokens_per_s", counters and counters.prompt_tokens_per_s, unseen
            ),
            **known("counters", sample.counters, _counters, _UNTOLD),
        },
        **or_reason("acceptance", counts and _acceptance(counts), sample.undrafted or _UNTOLD),
        **known("slots", sample.slots, lambda each: [_slot(one, speeds) for one in each], _UNTOLD),
        "machine": {
            "is_this_machine": sample.host.is_here,
            **fields_of(sample.host, _UNTOLD, "process"),
        },
    }


def _server(facts: ServerFacts) -> Json:
    own = ("build", "alias", "model_path", "quantization", "n_ctx", "n_slots", "n_params")
    return fields_of(facts, _UNTOLD, *own, "size_bytes", "is_sleeping")


def _counters(counters: Counters) -> Json:
    counts = ("n_prompt", "n_predicted", "n_deferred")
    return fields_of(counters, _UNTOLD, *counts, "prompt_s", "predicted_s")


def _acceptance(counts: DraftCounts) -> Json:
    totals = ("n_drafts", "n_drafted", "n_accepted", "accepted_per_position")
    rates = ("acceptance_rate", "mean_accepted_length")
    return fields_of(counts, "nothing was drafted", *totals, *rates)


def _slot(slot: SlotReply, tokens_per_s: Mapping[int, float | None]) -> Json:
    own = ("id", "n_ctx", "speculates", "drafters", "task", "n_used", "n_decoded")
    idle = "it generates nothing, or was seen once"
    return {
        "state": str(slot.phase),
        **fields_of(slot, "the server does not tell, or has had no request", *own),
        **or_reason("tokens_per_s", tokens_per_s.get(slot.id), idle),
    }
