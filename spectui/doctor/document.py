"""The document of a diagnosis."""

from collections.abc import Sequence

from spectui.commands.finding import Finding
from spectui.doctor.examination import Examination, ExaminedDraft, HeaderLook, Surroundings
from spectui.doctor.libraries import FoundLibrary
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.documents import Json, encoded, fields_of, heading, or_reason
from spectui.engine.demand import Demand
from spectui.llama.planned import ModelPlan
from spectui.models.facts import ModelFacts
from spectui.models.pairs import Outline, PairReport
from spectui.models.ranking import read_share
from spectui.options.drafters import MTP_KIND
from spectui.presets import Preset

LookedAt = Examination | HeaderLook | None
"""The models, looked at by plans, or by headers alone; None for no models."""
_UNKNOWN_SPEED = "weights lie in a memory of unknown speed"
_UNUSABLE = "it could not be planned beside the target"


def doctor_document(
    around: Surroundings,
    looked_at: LookedAt,
    found: Sequence[Finding],
    preset: Preset | None,
    libraries: Sequence[FoundLibrary] | None = None,
) -> Json:
    """``spectui.doctor/1``; arguments are those of ``diagnosis``."""
    backend = around.backend
    device = ("name", "description", "in_ram", "free_bytes", "total_bytes")
    no_room = "there is no room for what measuring takes, up to half a gigabyte"
    no_driver = "no NVIDIA driver tells it of a GPU that llama.cpp uses"
    return {
        **heading(
            "doctor",
            around.machine.document(),
            llama_cpp_python=backend.llama_cpp_python,
            llama_cpp=backend.llama_cpp,
            library=None if backend.library is None else backend.library.document(),
        ),
        "gpus": [fields_of(gpu, "the device does not tell", *device) for gpu in backend.gpus],
        "free_bytes": dict(around.free.by_memory),
        **fields_of(around.bandwidth, no_room, "ram_bytes_per_s"),
        **fields_of(around.bandwidth, no_driver, "gpu_bytes_per_s"),
        **_looked_at(looked_at, preset),
        "findings": [{"severity": str(one.severity), "text": one.what} for one in found],
        **({} if libraries is None else {"libraries": [one.document() for one in libraries]}),
    }


def _looked_at(looked_at: LookedAt, preset: Preset | None) -> Json:
    match looked_at:
        case None if preset is not None and preset.target is not None:
            return or_reason("target", None, f"models of {preset.name} are missing")
        case None:
            return or_reason("target", None, "no target was given")
        case HeaderLook():
            return _read(looked_at)
        case Examination():
            return {**_examined(looked_at), **_chosen(looked_at, preset)}


def _read(look: HeaderLook) -> Json:
    """Facts from the headers; the examination of a target has more."""
    return {
        "target": _facts(look.target),
        "drafts": [
            {
                "name": name,
                "path": str(one.path),
                **fields_of(one, "its header does not speak against it", "reason"),
                **or_reason("model", one.facts and _facts(one.facts), "it is unusable"),
                **or_reason(
                    "read_share_of_target",
                    read_share(look.target, one.facts),
                    "a file has no weights",
                ),
            }
            for name, one in look.drafts.items()
        ],
    }


def _facts(facts: ModelFacts) -> Json:
    return fields_of(
        facts,
        "no single number holds, or the file has no weights",
        *("path", "arch", "name", "n_params", "size_bytes", "n_layers", "n_ctx_train", "n_vocab"),
        *("n_experts", "mtp_layers", "has_chat_template"),
        *("kv_bytes_per_token", "read_bytes_per_token"),
    )


def _chosen(examination: Examination, preset: Preset | None) -> Json:
    chosen, no_draft = examination.chosen, "no draft was given"
    if preset is not None and preset.draft:
        no_draft = f"drafts of {preset.name} are missing"
    if examination.drafts:
        no_draft = "none can serve"
    draft = chosen and (MTP_KIND if chosen.is_mtp else str(chosen.options.path))
    return or_reason("draft", draft, no_draft)


def _examined(examination: Examination) -> Json:
    plan, bound = examination.plan, examination.bound
    unplaced = "without a GPU, without experts, with -ngl 0, or without room even so"
    return {
        "target": {
            **_model(plan.target),
            **or_reason("expected", bound and _bound(bound), _UNKNOWN_SPEED),
        },
        "drafts": list(map(_draft, examination.drafts)),
        "memory": list(map(_demand, examination.demands)),
        "buffers": [
            {"model": role, **encoded(buffer)}
            for role, model in (("target", plan.target), ("draft", plan.draft))
            if model is not None
            for buffer in model.buffers
        ],
        **fields_of(examination, "", "fits", "fits_alone", "from_disk", "always_from_disk"),
        **fields_of(examination, "no context fits", "largest_context"),
        **fields_of(examination, unplaced, "smallest_n_cpu_moe"),
    }


def _model(plan: ModelPlan) -> Json:
    return {
        **plan.info.document(rollback=str(plan.rollback), n_ctx=plan.n_ctx),
        **fields_of(plan.info, "", "n_layers", "n_experts", "n_ctx_train", "mtp_layers"),
    }


def _draft(one: ExaminedDraft) -> Json:
    own = None if one.plan is None else one.plan.draft
    unbound = _UNKNOWN_SPEED if one.is_compatible else "it cannot serve the target"
    uncompared = "it is unusable" if one.plan is None else "it has MTP layers alone"
    if one.is_mtp:
        uncompared = "they are the target's own layers"
    return {
        "name": one.name,
        "path": str(one.options.path),
        **or_reason("compatible", one.is_compatible, _UNUSABLE),
        **fields_of(one, _UNUSABLE, "fits"),
        **fields_of(one, "it can serve the target, and be loaded beside it", "reason"),
        **or_reason("model", own and _model(own), _UNUSABLE),
        **or_reason("comparison", one.report and _compared(one.report), uncompared),
        **or_reason("bound", one.bound and _draft_bound(one.bound), unbound),
    }


def _draft_bound(bound: DraftBound) -> Json:
    random = "if tokens were routed to experts at random, " if bound.can_pay else ""
    never = f"{random}not even α = 1 would be enough"
    return fields_of(bound, never, "draft_step", "break_even_alpha", "speedup_if_perfect")


def _compared(report: PairReport) -> Json:
    return {
        "target": _tokenizer(report.target),
        "draft": _tokenizer(report.draft),
        **fields_of(report, "", "n_equal", "differences", "templates"),
        **fields_of(report, "llama.cpp accepts the pair", "reason"),
        **fields_of(report, "one of them has no tokens", "overlap_percent"),
    }


def _tokenizer(model: Outline) -> Json:
    names = ("type_name", "pre", "n_tokens", "bos", "eos", "end_tokens")
    return fields_of(model, "its file does not say", *names)


def _bound(bound: SpeedBound) -> Json:
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**encoded(bound), "tokens_per_s": bound.tokens_per_s, "verify": verify}


def _demand(demand: Demand) -> Json:
    return {
        **encoded(demand),
        "title": demand.where,
        **fields_of(demand, "nobody tells what is free", "free_bytes", "left_bytes"),
        **fields_of(demand, "", "fits", "can_load"),
    }
