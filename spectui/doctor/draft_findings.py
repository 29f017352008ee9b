"""What is to be said of one draft: why it cannot serve, and what makes it slow or wrong."""

from collections.abc import Iterator

from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.finding import Finding, Severity
from spectui.doctor.speed import DraftBound
from spectui.llama.planned import ModelPlan
from spectui.models.pairs import PairReport, Templates

_HARD_ALPHA = 0.7
"""Above it a draft has to be right nearly always: pairs of one family reach 0.6 to 0.8."""
_FULL_PRECISION = frozenset({"f32", "f16", "bf16"})


def of_draft(examination: Examination, draft: ExaminedDraft) -> Iterator[Finding]:
    """Yield why it cannot be used, or what speaks against it."""
    name, reason = draft.name, draft.fit.reason
    # Where the target alone has no room, its drafts are not to blame for that.
    is_its_own = not draft.fit.is_compatible or examination.fits_alone
    if reason is not None and is_its_own:
        severity = Severity.ERROR if draft.is_wanted else Severity.NOTE
        yield Finding(severity=severity, text=f"{name} cannot be used: {reason}")
        return
    yield from _of_speed(draft, has_experts=examination.traffic.n_experts > 0)
    yield from _of_draft_context(draft, examination.request.context.ctx_size)
    if draft.report is not None:
        yield from (
            Finding(severity=Severity.NOTE, text=text) for text in _apart(name, draft.report)
        )


def _of_speed(draft: ExaminedDraft, *, has_experts: bool) -> Iterator[Finding]:
    bound = draft.bound
    text = None if bound is None else hard_to_win(draft.name, bound, has_experts=has_experts)
    if text is not None:
        yield Finding(severity=Severity.WARNING, text=text)


def hard_to_win(name: str, bound: DraftBound, *, has_experts: bool) -> str | None:
    """Why reading weights leaves a draft little chance; None if it leaves enough.

    Args:
        name: of the draft.
        bound: what reading weights allows it.
        has_experts: whether the target has, so that its batches can only be guessed.
    """
    if not bound.can_pay:
        return (
            f"{name} cannot pay by bandwidth: even if every token were right, reading its weights "
            f"and the target's gives {bound.speedup_if_perfect:.2f} times the speed of the target "
            "alone"
        )
    if bound.break_even_alpha is None:
        return (
            f"{name} pays only where neighbouring tokens share experts; spectui probe experts "
            "counts them"
        )
    if bound.break_even_alpha > _HARD_ALPHA:
        routed = " if tokens were routed at random" if has_experts else ""
        return (
            f"{name} has to be right nearly always: a step takes {bound.draft_step:.0%} of the "
            f"time of a target step, so that α has to be above "
            f"{bound.break_even_alpha:.2f}{routed}"
        )
    return None


def _of_draft_context(draft: ExaminedDraft, n_ctx: int) -> Iterator[Finding]:
    plan = draft.fit.plan
    own = None if plan is None else plan.draft
    if own is None or draft.is_mtp:
        # Their cache is never quantised, and their context is the target's.
        return
    options = draft.fit.options
    quantised = {options.cache_type_k, options.cache_type_v} - _FULL_PRECISION
    if quantised:
        yield Finding(
            severity=Severity.WARNING,
            text=f"the cache of {draft.name} is {' and '.join(sorted(quantised))}: a draft guesses "
            "worse with a quantised cache, and it is small; leave out -ctkd and -ctvd",
        )
    yield from of_training(draft.name, own, n_ctx)


def of_training(who: str, plan: ModelPlan, n_ctx: int) -> Iterator[Finding]:
    """Yield that a context of ``n_ctx`` tokens is longer than those a model was trained with."""
    n_ctx_train = plan.info.n_ctx_train
    if 0 < n_ctx_train < n_ctx:
        yield Finding(
            severity=Severity.WARNING,
            text=f"{who} was trained for {n_ctx_train} tokens of context, and -c asks for "
            f"{n_ctx}: beyond that its guesses will be wrong",
        )


def _apart(name: str, report: PairReport) -> Iterator[str]:
    """Yield what llama.cpp's rule does not look at."""
    if report.target.pre != report.draft.pre:
        yield (
            f"{name} cuts text in another way than the target ({report.draft.pre}, not "
            f"{report.target.pre}), so it was trained on other tokens than it will see"
        )
    if report.templates is Templates.DIFFERENT:
        yield f"{name} was trained with another chat template; the target's is used for both"
    if report.templates is Templates.MISSING_IN_TARGET:
        yield "the target has no chat template, but its draft has: is it a base model?"
    if report.target_ends or report.draft_ends:
        ends = sorted({token.text for token in (*report.target_ends, *report.draft_ends)})
        yield f"{name} and the target do not end a text with the same tokens: {', '.join(ends)}"
