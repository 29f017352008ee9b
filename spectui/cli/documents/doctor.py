"""The document of ``doctor``."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from spectui.cli.documents.common import Json, header, or_reason
from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.findings import Finding
from spectui.doctor.speed import SpeedBound
from spectui.engine.fitting import Demand
from spectui.llama.planned import ModelPlan
from spectui.models.pairs import PairReport

if TYPE_CHECKING:
    from spectui.cli.run_doctor import Diagnosis


def doctor_document(diagnosis: "Diagnosis") -> Json:
    """``spectui.doctor/1``."""
    around, examination = diagnosis.around, diagnosis.examination
    return {
        **header("doctor", diagnosis.machine),
        "gpus": [asdict(gpu) for gpu in around.gpus],
        "free_bytes": dict(around.free),
        "ram_bytes_per_s": around.bandwidth.ram_bytes_per_s,
        **or_reason(
            "gpu_bytes_per_s", around.bandwidth.gpu_bytes_per_s, "no NVIDIA driver tells it"
        ),
        **(_examined(examination) if examination is not None else _nothing(diagnosis)),
        "findings": [_finding(one) for one in diagnosis.findings],
    }


def _nothing(diagnosis: "Diagnosis") -> Json:
    preset = diagnosis.preset
    reason = "no target was given" if preset is None else f"models of {preset.name} are missing"
    return or_reason("target", None, reason)


def _examined(examination: Examination) -> Json:
    request = examination.request
    return {
        "target": {
            **_model(examination.plan.target),
            "expected": _bound(examination.bound),
        },
        "drafts": [_draft(one) for one in examination.drafts],
        "draft": None if request.draft is None else str(request.draft.path),
        "fits": examination.fits,
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
            "without a GPU, without experts, or without room even so",
        ),
    }


def _model(plan: ModelPlan) -> Json:
    info = plan.info
    return {
        "path": str(info.path),
        "arch": info.arch,
        "name": info.name,
        "n_params": info.n_params,
        "size_bytes": info.size_bytes,
        "n_layers": info.n_layers,
        "n_experts": plan.n_experts,
        "n_ctx_train": info.n_ctx_train,
        "n_ctx": plan.n_ctx,
        "rollback": str(plan.rollback),
    }


def _draft(one: ExaminedDraft) -> Json:
    own = None if one.fit.plan is None else one.fit.plan.draft
    return {
        "name": one.name,
        "path": str(one.fit.draft.path),
        "compatible": one.fit.reason is None,
        **or_reason("reason", one.fit.reason, "nothing speaks against it"),
        "model": None if own is None else _model(own),
        "comparison": None if one.report is None else _compared(one.report),
        "bound": None if one.bound is None else asdict(one.bound),
    }


def _compared(report: PairReport) -> Json:
    return {
        **asdict(report),
        "overlap_percent": report.overlap_percent,
        "text_overlap_percent": report.text_overlap_percent,
    }


def _bound(bound: SpeedBound | None) -> Json | None:
    if bound is None:
        return None
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**asdict(bound), "tokens_per_s": bound.tokens_per_s, "verify": verify}


def _demand(demand: Demand) -> Json:
    return {**asdict(demand), "left_bytes": demand.left_bytes, "fits": demand.fits}


def _finding(one: Finding) -> Json:
    return {"severity": str(one.severity), "text": one.text}
