"""The model sections of a diagnosis, line by line."""

from collections.abc import Iterator

from spectui.doctor.examination import Examination, ExaminedDraft
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.format import bytes_text, count_text, percent_text
from spectui.llama.planned import ModelPlan
from spectui.models.pairs import PairReport, SpecialToken


def target_lines(examination: Examination) -> Iterator[str]:
    """Yield facts about the target, and the speed that reading its weights allows."""
    yield _model(examination.plan.target)
    traffic, bound = examination.traffic, examination.bound
    if traffic.n_experts:
        yield f"{traffic.n_experts_used} of {traffic.n_experts} experts per token"
    yield (
        "Its weights lie in a memory of unknown speed, so that nothing bounds its tokens/s."
        if bound is None
        else _speed(bound)
    )
    if bound is not None and examination.from_disk:
        yield (
            "RAM does not hold all weights: the disk, which is slower than that, decides the speed."
        )


def _model(plan: ModelPlan) -> str:
    info = plan.info
    return (
        f"{info.path.name}: {info.arch}, {count_text(info.n_params)} parameters, "
        f"{bytes_text(info.size_bytes)}, {info.n_layers} layers, trained for {info.n_ctx_train} "
        f"tokens; rollback by {plan.rollback}"
    )


def _speed(bound: SpeedBound) -> str:
    from_ram, from_gpu = round(bound.ram_bytes_per_token), round(bound.gpu_bytes_per_token)
    read = f"{bytes_text(from_ram)} of RAM"
    if from_gpu:
        read += f" and {bytes_text(from_gpu)} of video memory"
    if bound.left_out_bytes_per_token:
        left_out = bytes_text(round(bound.left_out_bytes_per_token))
        read += f" ({left_out} of it in a memory of unknown speed, which is left out)"
    return (
        f"A token reads {read}: about {bound.tokens_per_s:.1f} tokens/s at most without a draft, "
        "by the bandwidth measured just now; other work on the machine lowers it. "
        f"{_batches(bound)}"
    )


def _batches(bound: SpeedBound) -> str:
    if max(bound.verify.values()) == 1.0:
        return "A batch of drafted tokens reads no more weights than one token."
    ratios = ", ".join(f"V({n + 1}) {bound.verify[n]:.1f}" for n in (1, 4, 8, 16))
    return f"Batches take, in tokens and if tokens were routed to experts at random: {ratios}."


def draft_lines(draft: ExaminedDraft, *, has_experts: bool) -> Iterator[str]:
    """Yield facts about a draft relative to its target, which may have experts."""
    plan = draft.fit.plan
    if plan is not None and plan.draft is not None:
        yield _mtp(plan.target) if draft.is_mtp else _model(plan.draft)
    if draft.report is not None:
        yield from _compared(draft.report)
    if draft.bound is not None and draft.bound.can_pay:
        yield _payment(draft.bound, has_experts=has_experts)


def _mtp(target: ModelPlan) -> str:
    n = target.info.mtp_layers
    layers = "layer for multi-token prediction"
    if n > 1:
        layers = f"{n} {layers.replace('layer', 'layers')}, each for one token of a draft"
    return f"the target's own {layers}; its weights are counted with the target"


def _payment(bound: DraftBound, *, has_experts: bool) -> str:
    share = percent_text(bound.draft_step)
    cost = f"By bandwidth alone a step takes {share} of the time of a target step"
    alike = " and a batch's tokens routed to the same experts" if has_experts else ""
    most = f"at most {bound.speedup_if_perfect:.2f}× (with every token right{alike})"
    random = "with tokens routed to experts at random"
    if bound.break_even_alpha is None:
        return f"{cost}: it gives {most}, and nothing {random}."
    pays = f"it can pay if α is above {bound.break_even_alpha:.2f}"
    if has_experts:
        pays += f" ({random})"
    return f"{cost}: {pays}, and gives {most}."


def _compared(report: PairReport) -> Iterator[str]:
    overlap = report.overlap_percent
    same = "no tokens to compare"
    if overlap is not None:
        same = f"{overlap:.2f} % of the tokens are the same"
    sizes = f"{report.target.n_tokens} (target), {report.draft.n_tokens} (draft)"
    yield f"{same}; vocabularies {sizes}; chat templates {report.templates}"
    if report.differences:
        shown = ", ".join(f"{one.id} ({one.target!r}, {one.draft!r})" for one in report.differences)
        yield f"first differing tokens: {shown}"
    for name, ours, theirs in (
        ("BOS", report.target.bos, report.draft.bos),
        ("EOS", report.target.eos, report.draft.eos),
    ):
        if ours != theirs:
            yield f"{name}: {_special(ours)} (target), {_special(theirs)} (draft)"
    if report.template_diff:
        yield "first differing lines of the chat templates (- target, + draft):"
        yield from report.template_diff


def _special(token: SpecialToken) -> str:
    added = "added" if token.added else "not added"
    return f"{token.id} {token.text!r}, {added}" if token.id >= 0 else f"none, {added}"
