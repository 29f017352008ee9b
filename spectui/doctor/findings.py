"""Findings of an examination: errors, warnings and notes."""

from collections.abc import Iterator
from dataclasses import replace

from spectui.commands.finding import FULL_PRECISION, OFFLOAD_BATCH, Finding, Severity, Topic
from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.speed import DraftBound
from spectui.engine.demand import Demand
from spectui.engine.fitting import expert_overrides
from spectui.format import bytes_text, percent_text
from spectui.llama.buffers import HOST, BufferKind
from spectui.llama.planned import ModelPlan
from spectui.models.pairs import PairReport, Templates
from spectui.speculative.models import Rollback

_HARD_ALPHA = 0.7
"""Above it a draft has to be right nearly always: pairs of one family reach 0.6 to 0.8."""

_VERIFY_RATIO = 2.0
"""V(5)/V(1) by bandwidth above which experts make long drafts dear."""


def finding(severity: Severity, text: str, flag: str = "-m", topic: Topic | None = None) -> Finding:
    """A finding on the model of ``flag``, all of it in one sentence or two."""
    return Finding(severity=severity, flag=flag, what=text, topic=topic)


def _warning(text: str, flag: str = "-m", topic: Topic | None = None) -> Finding:
    return finding(Severity.WARNING, text, flag, topic)


def findings(examination: Examination, *, is_drafting: bool = True) -> tuple[Finding, ...]:
    """Everything that is to be said, the worst first.

    Args:
        examination: examination of the models.
        is_drafting: whether anything shall draft, or what drafts cost is of no interest.
    """
    alteration = examination.plan.target.info.alteration
    found = [
        *_of_memory(examination),
        *_of_training(
            "the target",
            examination.plan.target,
            examination.request.context.ctx_size,
            beyond="llama-server uses no more",
        ),
        *(one for draft in examination.drafts for one in _of_draft(examination, draft)),
        *(_of_drafting(examination) if is_drafting else ()),
        *(() if alteration is None else (finding(Severity.NOTE, alteration),)),
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def _of_drafting(examination: Examination) -> Iterator[Finding]:
    plan, draft = examination.plan, examination.chosen
    yield from _checkpoints("the target", plan.target, "-m")
    if plan.draft is not None and draft is not None:
        yield from _checkpoints(draft.name, plan.draft, "-md")
    yield from _of_experts(examination)
    yield from _of_length(examination)


def _checkpoints(who: str, plan: ModelPlan, flag: str) -> Iterator[Finding]:
    if plan.rollback is Rollback.CHECKPOINT:
        yield _warning(
            f"{who} ({plan.info.arch}) cannot forget rejected tokens: its recurrent state is "
            "saved before every draft, restored after a rejection, and what was accepted is "
            "decoded again; bench tells that time as rollback",
            flag,
        )


def _of_experts(examination: Examination) -> Iterator[Finding]:
    traffic, bound = examination.traffic, examination.bound
    if not traffic.n_experts or bound is None:
        return
    ratio = bound.verify[4]
    if ratio > _VERIFY_RATIO:
        yield _warning(
            f"a token activates {traffic.n_experts_used} of {traffic.n_experts} experts, so "
            f"verifying four drafted tokens takes {ratio:.1f} times as long as one token if tokens "
            "were routed at random; "
            "short drafts that are right count for more than long ones, and spectui tune measures "
            "what batches really cost",
        )


def _of_length(examination: Examination) -> Iterator[Finding]:
    has_gpu = any(buffer.memory != HOST for buffer in examination.plan.buffers)
    if (
        has_gpu
        and examination.traffic.cpu_bytes
        and examination.request.max_draft >= OFFLOAD_BATCH - 1
    ):
        yield _warning(
            f"from {OFFLOAD_BATCH} tokens per batch on llama.cpp copies weights from RAM to "
            f"the GPU, which costs more than it saves for few tokens; keep --draft-max below "
            f"{OFFLOAD_BATCH - 1}",
            topic=Topic.LARGE_BATCH,
        )


def _of_draft(examination: Examination, draft: ExaminedDraft) -> Iterator[Finding]:
    """Yield why it cannot be used, or what speaks against it."""
    name, reason = draft.name, draft.reason
    # Where the target alone has no room, its drafts are not to blame for that.
    is_its_own = not draft.is_compatible or examination.fits_alone
    if reason is not None and is_its_own:
        severity = Severity.ERROR if draft.is_wanted else Severity.NOTE
        yield finding(severity, f"{name} cannot be used: {reason}", "-md")
        return
    has_experts = examination.traffic.n_experts > 0
    if draft.bound and (text := hard_to_win(name, draft.bound, has_experts=has_experts)):
        yield _warning(text, "-md")
    yield from _of_draft_context(draft, examination.request.context.ctx_size)
    if draft.report is not None:
        yield from (finding(Severity.NOTE, text, "-md") for text in _apart(name, draft.report))


def hard_to_win(name: str, bound: DraftBound, *, has_experts: bool) -> str | None:
    """Say why reading weights leaves a draft little chance; None if it leaves enough.

    Args:
        name: name of the draft.
        bound: bound by reading weights.
        has_experts: whether the target has, so that its batches can only be guessed.
    """
    if not bound.can_pay:
        return (
            f"{name} cannot pay by bandwidth: even if every token were right, reading its weights "
            f"and the target's gives {bound.speedup_if_perfect:.2f} times the speed of the target "
            "alone"
        )
    if bound.break_even_alpha is None:
        return f"{name} pays only where neighbouring tokens share experts; spectui tune measures it"
    if bound.break_even_alpha > _HARD_ALPHA:
        routed = " if tokens were routed at random" if has_experts else ""
        return (
            f"{name} has to be right nearly always: a step takes "
            f"{percent_text(bound.draft_step)} of the time of a target step, so that α has to be "
            f"above {bound.break_even_alpha:.2f}{routed}"
        )
    return None


def _of_draft_context(draft: ExaminedDraft, n_ctx: int) -> Iterator[Finding]:
    plan = draft.plan
    own = None if plan is None else plan.draft
    if own is None:
        return
    quantised = {*draft.cache_types} - FULL_PRECISION
    if quantised:
        yield _warning(
            f"the cache of {draft.name} is {' and '.join(sorted(quantised))}: a draft guesses "
            "worse with a quantised cache, and it is small; leave out -ctkd and -ctvd",
            "-md",
            Topic.DRAFT_CACHE,
        )
    if not draft.is_mtp:
        # Else their context is the target's.
        found = _of_training(draft.name, own, n_ctx, beyond="beyond that its guesses will be wrong")
        yield from (replace(one, flag="-md") for one in found)


def _of_training(who: str, plan: ModelPlan, n_ctx: int, *, beyond: str) -> Iterator[Finding]:
    """Yield that a context of ``n_ctx`` tokens is longer than those a model was trained with.

    ``beyond`` says what comes of that.
    """
    n_ctx_train = plan.info.n_ctx_train
    if 0 < n_ctx_train < n_ctx:
        yield _warning(
            f"{who} was trained for {n_ctx_train} tokens of context, and -c asks for "
            f"{n_ctx}: {beyond}",
        )


def _apart(name: str, report: PairReport) -> Iterator[str]:
    """Yield differences that llama.cpp's rule does not cover."""
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


_REPACKED = "_REPACK"
"""End of the name of a buffer type whose weights are laid out anew when they are loaded."""


def _of_memory(examination: Examination) -> Iterator[Finding]:
    """Yield the findings about every memory."""
    for demand in examination.demands:
        if demand.shortage is not None:
            parts = (demand.shortage, *_repacked(demand, examination), _advice(demand, examination))
            yield finding(Severity.ERROR, "; ".join(parts))
        elif demand.slowness is not None:
            advice = "choose a smaller quantization, or close other programs"
            yield _warning(f"{demand.slowness}; {advice}")


def _advice(demand: Demand, examination: Examination) -> str:
    if examination.smallest_n_cpu_moe:
        return f"use {n_cpu_moe_text(examination)}"
    if examination.largest_context:
        return f"use -c {examination.largest_context}"
    if examination.fits_alone:
        return "without the draft the target fits: give a smaller draft"
    if demand.memory != HOST:
        return "choose a smaller quantization, or keep fewer layers there with -ngl"
    return "choose a smaller quantization"


def _repacked(demand: Demand, examination: Examination) -> Iterator[str]:
    """Yield why weights take room in RAM though models are mapped."""
    repacked_bytes = sum(
        buffer.size_bytes
        for buffer in examination.plan.buffers
        if buffer.kind is BufferKind.WEIGHTS and buffer.device.endswith(_REPACKED)
    )
    if demand.memory == HOST and repacked_bytes:
        yield (
            f"{bytes_text(repacked_bytes)} of it are weights that llama.cpp repacks for this "
            "processor and so cannot map, unlike those of some other quantizations"
        )


def n_cpu_moe_text(examination: Examination) -> str:
    """The option that makes room on the GPUs, and what it stands in for."""
    placed = expert_overrides(examination.request.target)
    given = " ".join(f"-ot {one.pattern}={one.buffer}" for one in placed)
    option = f"--n-cpu-moe {examination.smallest_n_cpu_moe}"
    return f"{option} instead of {given}" if given else option
