"""The document of a diagnosis."""

from collections.abc import Sequence

from spectui.commands.finding import Finding
from spectui.doctor.examination import Examination, ExaminedDraft, Surroundings
from spectui.doctor.speed import SpeedBound
from spectui.documents import Json, encoded, fields_of, head, or_reason
from spectui.engine.demand import Demand
from spectui.llama.facts import engine_document
from spectui.llama.planned import ModelPlan
from spectui.options.drafters import MTP_KIND

_UNKNOWN_SPEED = "weights lie in a memory of unknown speed"
_UNUSABLE = "it could not be planned beside the target"


def doctor_document(
    around: Surroundings, examination: Examination | None, found: Sequence[Finding]
) -> Json:
    """``spectui.doctor/1``; arguments are those of ``diagnosis``."""
    backend = around.backend
    device = ("name", "description", "in_ram", "free_bytes", "total_bytes")
    no_room = "there is no room for what measuring takes, up to half a gigabyte"
    no_driver = "no NVIDIA driver tells it of a GPU that llama.cpp uses"
    no_target = or_reason("target", None, "no target was given, or no library is here")
    return {
        **head("doctor"),
        "engine": engine_document(backend.library, backend.llama_cpp_python),
        "machine": around.machine.document(),
        "gpus": [fields_of(gpu, "the device does not tell", *device) for gpu in backend.gpus],
        "free_bytes": dict(around.free.by_memory),
        **fields_of(around.bandwidth, no_room, "ram_bytes_per_s"),
        **fields_of(around.bandwidth, no_driver, "gpu_bytes_per_s"),
        **(no_target if examination is None else _examined(examination)),
        "findings": [{"severity": str(one.severity), "text": one.what} for one in found],
    }


def _examined(examination: Examination) -> Json:
    plan, bound, chosen = examination.plan, examination.bound, examination.chosen
    unplaced = "without a GPU, without experts, with -ngl 0, or without room even so"
    draft = chosen and (MTP_KIND if chosen.is_mtp else str(chosen.options.path))
    return {
        "target": {
            **_model(plan.target),
            **or_reason("expected", bound and _bound(bound), _UNKNOWN_SPEED),
        },
        "drafts": [_draft(one, bound) for one in examination.drafts],
        **or_reason("draft", draft, "none can serve" if examination.drafts else "none was given"),
        "memory": list(map(_demand, examination.demands)),
        **fields_of(examination, "", "fits", "fits_alone"),
        **fields_of(examination, "no context fits", "largest_context"),
        **fields_of(examination, unplaced, "smallest_n_cpu_moe"),
    }


def _model(plan: ModelPlan) -> Json:
    return {
        **plan.info.document(rollback=str(plan.rollback), n_ctx=plan.n_ctx),
        **fields_of(plan.info, "", "n_layers", "n_experts", "n_ctx_train", "mtp_layers"),
    }


def _draft(one: ExaminedDraft, target: SpeedBound | None) -> Json:
    own = None if one.plan is None else one.plan.draft
    unbound = _UNKNOWN_SPEED if one.is_compatible else "it cannot serve the target"
    never = "not even α = 1 would be enough, if tokens were routed to experts at random"
    numbers, bound = ("draft_step", "break_even_alpha", "speedup_if_perfect"), one.bound(target)
    return {
        "name": one.name,
        "path": str(one.options.path),
        **or_reason("compatible", one.is_compatible, _UNUSABLE),
        **fields_of(one, _UNUSABLE, "fits"),
        **fields_of(one, "it can serve the target, and be loaded beside it", "reason"),
        **or_reason("model", own and _model(own), _UNUSABLE),
        **or_reason("bound", bound and fields_of(bound, never, *numbers), unbound),
    }


def _bound(bound: SpeedBound) -> Json:
    numbers = ("token_s", "tokens_per_s", "ram_bytes_per_token", "gpu_bytes_per_token")
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**fields_of(bound, "", *numbers), "verify": verify}


def _demand(demand: Demand) -> Json:
    return {
        **encoded(demand),
        "title": demand.where,
        **fields_of(demand, "nobody tells what is free", "free_bytes", "left_bytes"),
        **fields_of(demand, "", "fits", "can_load"),
    }
