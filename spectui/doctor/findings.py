"""Findings of an examination: errors, warnings and notes."""

from collections.abc import Iterator

from spectui.commands.finding import Finding, Severity, worst_first
from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.speed import DraftBound
from spectui.engine.demand import Demand
from spectui.engine.fitting import expert_overrides
from spectui.format import percent_text
from spectui.llama.buffers import HOST

_HARD_ALPHA = 0.7
"""Above it a draft has to be right nearly always: pairs of one family reach 0.6 to 0.8."""


def finding(severity: Severity, text: str, flag: str = "-m") -> Finding:
    """A finding on the model of ``flag``, all of it in one sentence or two."""
    return Finding(severity=severity, flag=flag, what=text)


def findings(examination: Examination) -> tuple[Finding, ...]:
    """All findings on an examination, the worst first."""
    return worst_first(
        [
            *_memory_findings(examination),
            *_training_findings(examination),
            *(one for draft in examination.drafts for one in _draft_findings(examination, draft)),
        ]
    )


def _draft_findings(examination: Examination, draft: ExaminedDraft) -> Iterator[Finding]:
    """Yield why it cannot be used, or what speaks against it."""
    name, reason = draft.name, draft.reason
    # Where the target alone has no room, its drafts are not to blame for that.
    is_its_own = not draft.is_compatible or examination.fits_alone
    if reason is not None and is_its_own:
        severity = Severity.ERROR if draft.is_wanted else Severity.NOTE
        yield finding(severity, f"{name} cannot be used: {reason}", "-md")
        return
    bound = draft.bound(examination.bound)
    if bound is not None and (text := hard_to_win(bound)) is not None:
        yield finding(Severity.WARNING, f"{name} {text}", "-md")


def hard_to_win(bound: DraftBound) -> str | None:
    """Return why reading weights leaves a draft little chance; None if it has a good one."""
    if bound.draft_step >= 1:
        return (
            "cannot pay by bandwidth: reading its weights takes as long as reading the target's, "
            "even if every token were right"
        )
    alpha = bound.break_even_alpha
    if alpha is None:
        return "pays only where neighbouring tokens share experts; spectui tune measures it"
    if alpha > _HARD_ALPHA:
        share = percent_text(bound.draft_step)
        return (
            f"has to be right nearly always: a step takes {share} of the time of a target step, so "
            f"that α has to be above {alpha:.2f}"
        )
    return None


def _training_findings(examination: Examination) -> Iterator[Finding]:
    """Yield that the context is longer than those that the target was trained with."""
    n_ctx_train = examination.plan.target.info.n_ctx_train
    n_ctx = examination.request.context.ctx_size
    if 0 < n_ctx_train < n_ctx:
        yield finding(
            Severity.WARNING,
            f"the target was trained for {n_ctx_train:,} tokens of context, and -c asks for "
            f"{n_ctx:,}: llama-server uses no more",
        )


def _memory_findings(examination: Examination) -> Iterator[Finding]:
    """Yield the findings about every memory."""
    for demand in examination.demands:
        if demand.shortage is not None:
            advice = _memory_advice(demand, examination)
            yield finding(Severity.ERROR, f"{demand.shortage}; {advice}")
        elif demand.slowness is not None:
            advice = "choose a smaller quantization, or close other programs"
            yield finding(Severity.WARNING, f"{demand.slowness}; {advice}")


def _memory_advice(demand: Demand, examination: Examination) -> str:
    if examination.smallest_n_cpu_moe:
        return f"use {n_cpu_moe_text(examination)}"
    if examination.largest_context:
        return f"use -c {examination.largest_context}"
    if examination.fits_alone:
        return "without the draft the target fits: give a smaller draft"
    if demand.memory != HOST:
        return "choose a smaller quantization, or keep fewer layers there with -ngl"
    return "choose a smaller quantization"


def n_cpu_moe_text(examination: Examination) -> str:
    """The option that makes room on the GPUs, and what it stands in for."""
    instead = " instead of -ot" if expert_overrides(examination.request.target) else ""
    return f"--n-cpu-moe {examination.smallest_n_cpu_moe}{instead}"
