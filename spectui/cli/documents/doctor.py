"""The document of ``doctor``."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from spectui.cli.documents.base import header_with, model_with
from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.findings import Finding
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.documents import Json, or_reason
from spectui.engine.demand import Demand
from spectui.llama.planned import DeviceMemory, ModelPlan
from spectui.models.pairs import PairReport, Tokenizer
from spectui.options.drafters import MTP_KIND
from spectui.presets import Preset

if TYPE_CHECKING:
    from spectui.cli.run_doctor import Diagnosis


_UNKNOWN_SPEED = "weights lie in a memory of unknown speed"


def doctor_document(diagnosis: "Diagnosis") -> Json:
    """``spectui.doctor/1``."""
    around, examination = diagnosis.around, diagnosis.examination
    return {
        **header_with(
            "doctor",
            diagnosis.machine,
            llama_cpp_python=around.backend.llama_cpp_python,
            llama_cpp=around.backend.llama_cpp,
        ),
        "gpus": [_gpu(gpu) for gpu in around.backend.gpus],
        "free_bytes": dict(around.free.by_memory),
        **or_reason(
            "ram_bytes_per_s",
            around.bandwidth.ram_bytes_per_s,
            "there is no room for what measuring takes, up to half a gigabyte",
        ),
        **or_reason(
            "gpu_bytes_per_s",
            around.bandwidth.gpu_bytes_per_s,
            "no NVIDIA driver tells it of a GPU that llama.cpp uses",
        ),
        **(
            _nothing(diagnosis) if examination is None else _examined(examination, diagnosis.preset)
        ),
        "findings": [_finding(one) for one in diagnosis.findings],
    }


def _gpu(gpu: DeviceMemory) -> Json:
    untold = "the device does not tell"
    return {
        "name": gpu.name,
        "description": gpu.description,
        "in_ram": gpu.in_ram,
        **or_reason("free_bytes", gpu.free_bytes, untold),
        **or_reason("total_bytes", gpu.total_bytes, untold),
    }


def _nothing(diagnosis: "Diagnosis") -> Json:
    preset = diagnosis.preset
    reason = "no target was given"
    if preset is not None and preset.target is not None:
        reason = f"models of {preset.name} are missing"
    return or_reason("target", None, reason)


def _examined(examination: Examination, preset: Preset | None) -> Json:
    chosen = examination.chosen
    no_draft = "no draft was given"
    if preset is not None and preset.draft:
        no_draft = f"drafts of {preset.name} are missing"
    if examination.drafts:
        no_draft = "none can serve"
    return {
        "target": {
            **_model(examination.plan.target),
            **or_reason("expected", _bound(examination.bound), _UNKNOWN_SPEED),
        },
        "drafts": [_draft(one) for one in examination.drafts],
        **or_reason("draft", None if chosen is None else _drafts(chosen), no_draft),
        "fits": examination.fits,
        "fits_alone": examination.fits_alone,
        "from_disk": examination.from_disk,
        "always_from_disk": examination.always_from_disk,
        "memory": [_demand(demand) for demand in examination.demands],
        "buffers": [
            {"model": role, **asdict(buffer)}
            for role, plan in (
                ("target", examination.plan.target),
                ("draft", examination.plan.draft),
            )
            if plan is not None
            for buffer in plan.buffers
        ],
        **or_reason("largest_context", examination.largest_context, "no context fits"),
        **or_reason(
            "smallest_n_cpu_moe",
            examination.smallest_n_cpu_moe,
            "without a GPU, without experts, with -ngl 0, or without room even so",
        ),
    }


def _drafts(chosen: ExaminedDraft) -> str:
    return MTP_KIND if chosen.is_mtp else str(chosen.fit.options.path)


def _model(plan: ModelPlan) -> Json:
    return {
        **model_with(plan.info, rollback=plan.rollback, n_ctx=plan.n_ctx),
        "n_layers": plan.info.n_layers,
        "n_experts": plan.info.n_experts,
        "n_ctx_train": plan.info.n_ctx_train,
        "mtp_layers": plan.info.mtp_layers,
    }


def _draft(one: ExaminedDraft) -> Json:
    own = None if one.fit.plan is None else one.fit.plan.draft
    unusable = "it could not be planned beside the target"
    is_compatible = one.fit.is_compatible
    return {
        "name": one.name,
        "path": str(one.fit.options.path),
        **or_reason("compatible", is_compatible, unusable),
        **or_reason("fits", one.fit.fits, unusable),
        **or_reason("reason", one.fit.reason, "it can serve the target, and be loaded beside it"),
        **or_reason("model", None if own is None else _model(own), unusable),
        **or_reason(
            "comparison",
            None if one.report is None else _compared(one.report),
            "they are the target's own layers" if one.is_mtp else "it is unusable",
        ),
        **or_reason(
            "bound",
            None if one.bound is None else _draft_bound(one.bound),
            _UNKNOWN_SPEED if is_compatible else "it cannot serve the target",
        ),
    }


def _draft_bound(bound: DraftBound) -> Json:
    alpha = or_reason(
        "break_even_alpha",
        bound.break_even_alpha,
        "if tokens were routed to experts at random, not even α = 1 would be enough"
        if bound.can_pay
        else "not even α = 1 would be enough",
    )
    return {
        "draft_step": bound.draft_step,
        **alpha,
        "speedup_if_perfect": bound.speedup_if_perfect,
    }


def _compared(report: PairReport) -> Json:
    no_tokens = "one of them has no tokens"
    return {
        **asdict(report),
        "target": _tokenizer(report.target),
        "draft": _tokenizer(report.draft),
        **or_reason("reason", report.reason, "llama.cpp accepts the pair"),
        **or_reason("overlap_percent", report.overlap_percent, no_tokens),
        **or_reason("text_overlap_percent", report.text_overlap_percent, no_tokens),
    }


def _tokenizer(tokenizer: Tokenizer) -> Json:
    return {**asdict(tokenizer), **or_reason("pre", tokenizer.pre, "its file does not say")}


def _bound(bound: SpeedBound | None) -> Json | None:
    if bound is None:
        return None
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**asdict(bound), "tokens_per_s": bound.tokens_per_s, "verify": verify}


def _demand(demand: Demand) -> Json:
    unknown = "nobody tells what is free"
    return {
        **asdict(demand),
        **or_reason("free_bytes", demand.free_bytes, unknown),
        **or_reason("left_bytes", demand.left_bytes, unknown),
        "fits": demand.fits,
        "can_load": demand.can_load,
    }


def _finding(one: Finding) -> Json:
    return {"severity": str(one.severity), "text": one.text}
