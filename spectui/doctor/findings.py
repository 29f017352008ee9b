"""What an examination gives reason to say: what cannot work, what will hurt, what to know."""

from collections.abc import Iterator

from spectui.doctor.draft_findings import of_draft, of_training
from spectui.doctor.examination import Examination
from spectui.doctor.finding import Finding, Severity
from spectui.doctor.memory_findings import of_memory
from spectui.llama.planned import ModelPlan
from spectui.speculative.rollback import Rollback

_OFFLOAD_BATCH = 32
"""Tokens from which on llama.cpp copies weights in RAM to a GPU (``offload_op`` of ggml-cuda)."""
_VERIFY_RATIO = 2.0
"""V(5)/V(1) by bandwidth above which experts make long drafts dear."""


def findings(examination: Examination, *, is_drafting: bool = True) -> tuple[Finding, ...]:
    """Everything that is to be said, the worst first.

    Args:
        examination: of the models.
        is_drafting: whether anything shall draft, or what drafts cost is of no interest.
    """
    found = [
        *of_memory(examination),
        *of_training("the target", examination.plan.target, examination.request.context.ctx_size),
        *(one for draft in examination.drafts for one in of_draft(examination, draft)),
        *(_of_drafting(examination) if is_drafting else ()),
        *_of_overrides(examination),
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def _of_drafting(examination: Examination) -> Iterator[Finding]:
    yield from _of_rollback(examination)
    yield from _of_experts(examination)
    yield from _of_length(examination)


def _of_rollback(examination: Examination) -> Iterator[Finding]:
    plan, draft = examination.plan, examination.chosen
    yield from _checkpoints("the target", plan.target)
    if plan.draft is not None and draft is not None:
        yield from _checkpoints(draft.name, plan.draft)


def _checkpoints(who: str, plan: ModelPlan) -> Iterator[Finding]:
    if plan.rollback is Rollback.CHECKPOINT:
        yield Finding(
            severity=Severity.WARNING,
            text=f"{who} ({plan.info.arch}) cannot forget rejected tokens: its recurrent state is "
            "saved before every draft, restored after a rejection, and what was accepted is "
            "decoded again; bench tells that time as rollback",
        )


def _of_experts(examination: Examination) -> Iterator[Finding]:
    traffic, bound = examination.traffic, examination.bound
    if not traffic.n_experts or bound is None:
        return
    ratio = bound.verify[4]
    if ratio > _VERIFY_RATIO:
        yield Finding(
            severity=Severity.WARNING,
            text=f"a token activates {traffic.n_experts_used} of {traffic.n_experts} experts, so "
            f"verifying four drafted tokens takes {ratio:.1f} times as long as one token if tokens "
            "were routed at random; "
            "short drafts that are right count for more than long ones, and spectui probe experts "
            "tells how many experts your text really touches",
        )


def _of_overrides(examination: Examination) -> Iterator[Finding]:
    alteration = examination.plan.target.info.alteration
    if alteration is not None:
        yield Finding(severity=Severity.NOTE, text=alteration)


def _of_length(examination: Examination) -> Iterator[Finding]:
    has_gpu = any(buffer.gpu is not None for buffer in examination.plan.buffers)
    if (
        has_gpu
        and examination.traffic.cpu_bytes
        and examination.request.max_draft >= _OFFLOAD_BATCH - 1
    ):
        yield Finding(
            severity=Severity.WARNING,
            text=f"from {_OFFLOAD_BATCH} tokens per batch on llama.cpp copies weights from RAM to "
            f"the GPU, which costs more than it saves for few tokens; keep --draft-max below "
            f"{_OFFLOAD_BATCH - 1}",
        )
