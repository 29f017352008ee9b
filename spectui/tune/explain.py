"""Explanation of why a setting pays or does not: one paragraph, and what would change it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.documents import Json, or_reason
from spectui.format import percent_text
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair, measurements, throughput, total_counters
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import doubt
from spectui.speculative.counters import Counters, Detail
from spectui.trace.costs import Costs
from spectui.trace.ngrams import costs_beside
from spectui.trace.replay import Total
from spectui.trace.terms import (
    REST,
    Findings,
    RoundTerms,
    Term,
    find,
    measured_terms,
    replayed_terms,
)
from spectui.tune.expert_use import batch_sentence
from spectui.tune.result import TuneResult

_NO_DRAFT_HELPS = "even a draft for nothing would not pay at this acceptance"
_FREE = "drafting takes next to nothing as it is"
_NO_ALPHA = "even a draft that is always right would not pay at these costs"
_WHOLE_MS = 10
"""Milliseconds from which on no digit stands after the point."""
_SMALL = 0.005
"""Share of a round that rounds to 0 %."""
_FOLLOWS = 1.05
"""Factor by which a reason may be off from what it explains."""
_NOTHING_DRAFTED = (
    "Not explained: nothing was drafted on these prompts, so that every round was the target's own."
)


def _served(counters: Counters) -> str:
    """Explanation for a server's run, whose rounds were not seen."""
    length = counters.tokens_per_round
    told = "" if length is None else f", and rounds emit {length:.2f} tokens"
    accepted = percent_text(counters.acceptance_rate or 0.0)
    return (
        f"{accepted} of the drafted tokens were accepted{told}. "
        "Not explained further: llama-server does not tell where the time of its rounds goes."
    )


DECIDES = {
    Term.REJECTIONS: "Rejected drafts cost most: without any",
    Term.DRAFT: "Drafting costs most: with a draft for nothing",
    Term.AGAIN: "The second draft pass costs most: without it",
    Term.VERIFY: "Verifying costs most: if a batch took as long as one token",
    Term.ROLLBACK: "Rollback costs most: without it",
}
"""Effect of a term, in words before the speedup without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One paragraph, and the same in three lines."""

    text: str
    findings: Findings | None
    """None where something is missing; the text says what."""
    recommended: bool = False
    """Whether the setting is advised."""
    experts: str | None = None
    """Bytes of experts that a batch reads, in words; None where they are not known."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sources of the speedup, its cost, and when it pays: four lines at most."""
        if self.findings is None:
            return (self.text,)
        found, terms = self.findings, self.findings.terms
        pays = found.speedup > 1
        rounds = (
            f"A round emits {terms.emitted:.2f} tokens where the target alone emits 1: it drafts "
            f"{terms.drafted:.1f}, and α is {terms.alpha:.2f}."
        )
        ratio = terms.total_s / terms.target_step_s
        costs = (
            f"It takes {ratio:.2f} times as long as a token of the target: {_large_shares(terms)}."
        )
        margin = _margins(found, recommended=self.recommended) if pays else _demands(found)
        return tuple(line for line in (rounds, costs, self.experts, margin) if line)

    def document(self) -> Json:
        """``explanation``, the paragraph, and ``explanation_terms``, its numbers."""
        terms = None if self.findings is None else _terms_document(self.findings)
        return {"explanation": self.text, **or_reason("explanation_terms", terms, self.text)}


def explain_result(result: TuneResult) -> Explanation:
    """Explain what a search has found."""
    found = _explained(result)
    if found.findings is None:
        return found
    experts = batch_sentence(result.experts, found.findings.terms.drafted + 1)
    return replace(found, text=" ".join(filter(None, (found.text, experts))), experts=experts)


def _explained(result: TuneResult) -> Explanation:
    arm, speedup = result.best, result.speedup
    if arm is None or speedup is None:
        return Explanation(text="Not explained: no setting was confirmed.", findings=None)
    if speedup.is_noise:
        return Explanation(text=f"Not explained: {doubt(speedup)}.", findings=None)
    moved = result.pairs_where_target_moved
    found = explain_measured(
        # Rounds can be taken apart only beside the target alone in the same place.
        moved or result.pairs,
        arm,
        speedup=paired_speedup(measurements(moved)).estimate if moved else speedup.estimate,
        recommended=result.verdict.use_speculation and not moved,
        costs=costs_beside(result.outlook.costs, arm.draft),
    )
    return replace(found, text=f"{_moved(result, arm)} {found.text}") if moved else found


def _moved(result: TuneResult, arm: Arm) -> str:
    """Cost to the target of the memory that the draft takes."""
    own, off = (
        throughput([pair.baseline for pair in pairs])
        for pairs in (result.pairs_where_target_moved, result.pairs)
    )
    slower = f"{own / off:.2f}× as fast" if own and off else "slower"
    return (
        f"A draft takes room from the target ({arm.layout} beside {arm.draft}, "
        f"{result.off.layout} without one), and the target alone is {slower}. Over that:"
    )


def explain_measured(
    pairs: Sequence[Pair], arm: Arm, *, speedup: float, recommended: bool, costs: Costs | None
) -> Explanation:
    """Explain a setting that was confirmed.

    Args:
        pairs: the confirmation.
        arm: the setting.
        speedup: speedup by the confirmation.
        recommended: by the verdict.
        costs: of the draft, for what other lengths would do; None for this length alone.
    """
    baseline = [pair.baseline for pair in pairs]
    off = throughput(baseline)
    speculative = total_counters([pair.speculative for pair in pairs])
    if speculative.detail is not Detail.ROUNDS and speculative.n_drafted:
        return Explanation(text=_served(speculative), findings=None)
    terms = None
    if off:
        alone = total_counters(baseline)
        step_s = alone.times.verify_s / alone.n_rounds if alone.n_rounds else 0.0
        terms = measured_terms(speculative, target_step_s=step_s, off_s=1 / off)
    if terms is None:
        return Explanation(text=_NOTHING_DRAFTED, findings=None)
    found = find(terms, speedup=speedup, is_measured=True, costs=costs, has_floor=_has_floor(arm))
    return _explanation(found, recommended=recommended)


def explain_replayed(total: Total, costs: Costs | None) -> Explanation:
    """Explain a setting that was replayed."""
    if costs is None:
        text = "Not explained: the trace holds no costs."
        return Explanation(text=text, findings=None)
    terms = replayed_terms(total, costs)
    if terms is None or total.speedup is None:
        return Explanation(text=_NOTHING_DRAFTED, findings=None)
    arm = Arm(draft=total.draft, speculation=total.speculation)
    found = find(
        terms,
        speedup=total.speedup,
        is_measured=False,
        costs=costs.at(total.mean_past),
        has_floor=_has_floor(arm),
    )
    return _explanation(found, recommended=total.speedup > 1)


def _has_floor(arm: Arm) -> bool:
    """Whether drafts end early of themselves: at a probability, or where no n-gram is found."""
    speculation = arm.speculation
    return speculation is not None and any(one.ends_early for one in speculation.chain)


def _explanation(found: Findings, *, recommended: bool) -> Explanation:
    text = paragraph(found, recommended=recommended)
    return Explanation(text=text, findings=found, recommended=recommended)


def paragraph(found: Findings, *, recommended: bool) -> str:
    """Describe the setting in a paragraph."""
    terms = found.terms
    sentences = (
        _rounds(terms),
        f"Of a round's {_ms(terms.total_s)}, {_shares(terms)}.",
        _loss(found),
        _margins(found, recommended=recommended) if found.speedup > 1 else _demands(found),
        _limit(found),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def _rounds(terms: RoundTerms) -> str:
    return (
        f"α is {terms.alpha:.2f}: a round drafts {terms.drafted:.1f} tokens and emits "
        f"{terms.emitted:.2f}. A draft step takes {_ms(terms.step_s)}, c = {terms.c:.3g} of the "
        f"target's {_ms(terms.target_step_s)}. Verifying {terms.drafted + 1:.1f} tokens costs "
        f"V(n)/V(1) = {terms.verify_ratio:.2f}."
    )


def _loss(found: Findings) -> str:
    how = "measured" if found.is_measured else "replayed"
    return (
        f"{DECIDES[found.decides]}, it would be {_times(found.speedup_without)} instead of "
        f"{_times(found.speedup)} ({how})."
    )


def _shares(terms: RoundTerms) -> str:
    """Every part of a round with its share."""
    parts = sorted(terms.parts, key=lambda part: -part[1])
    small = [name for name, s in parts if s < _SMALL * terms.total_s and name != REST]
    rest = f", {_listed(small)} under 1 %" if small else ""
    return f"{_large_shares(terms)}{rest}"


def _large_shares(terms: RoundTerms) -> str:
    """The parts that make up a round, but for what rounds to nothing."""
    parts, total_s = sorted(terms.parts, key=lambda part: -part[1]), terms.total_s
    (first, share), *others = [(name, s / total_s) for name, s in parts if s >= _SMALL * total_s]
    told = [f"{first} takes {percent_text(share)}"]
    told += [f"{name} {percent_text(share)}" for name, share in others]
    return ", ".join(told)


def _margins(found: Findings, *, recommended: bool) -> str:
    """Conditions under which the setting still pays."""
    stays = []
    if found.break_even_step_s is not None:
        most, now = _ms(found.break_even_step_s), _ms(found.terms.step_s)
        stays.append(f"a draft step takes less than {most} (now {now})")
    if found.break_even_alpha is not None and found.break_even_alpha > 0:
        stays.append(f"α stays above {found.break_even_alpha:.2f} (now {found.terms.alpha:.2f})")
    if not stays:
        return ""
    verb = "It pays" if recommended else "It breaks even"
    alone = ", each with the other as it is" if len(stays) > 1 else ""
    return f"{verb} as long as {' and '.join(stays)}{alone}."


def _demands(found: Findings) -> str:
    """Requirements for the setting to pay."""
    ways = []
    if found.break_even_step_s is not None:
        most, step = _ms(found.break_even_step_s), _ms(found.terms.step_s)
        ways.append(f"a draft under {most}/token instead of {step} with the same acceptance")
    if found.break_even_alpha is not None:
        wanted, now = found.break_even_alpha, found.terms.alpha
        digits = 2 if round(wanted, 2) > round(now, 2) else 3
        told = [f"{alpha:.{digits}f}" for alpha in (wanted, now)]
        if told[0] == told[1]:
            # It breaks even as it is, but for what no digit shows.
            return ""
        ways.append(f"an acceptance α of {told[0]} instead of {told[1]} at the same costs")
    if ways:
        return f"To pay, it would take {' or '.join(ways)}."
    if found.drafts_are_free:
        return f"Even a draft that is always right would give {_times(found.speedup_if_perfect)}."
    return (
        f"Neither a faster draft nor a better one would pay: one for nothing gives "
        f"{_times(found.speedup_if_free)}, one that is always right "
        f"{_times(found.speedup_if_perfect)}."
    )


def _limit(found: Findings) -> str:
    draft, bound, why = "a free, perfect draft", "at most ", _bound(found)
    if not found.limit_is_general:
        draft, bound = "a free, perfect draft of this length", ""
    if found.limit <= 1:
        return f"Even {draft} would give {bound}{_times(found.limit)}, since {why}."
    return f"{draft.capitalize()} would give {bound}{_times(found.limit)}: {why}."


def _bound(found: Findings) -> str:
    """Reason why the limit is not higher."""
    at = found.limit_round
    n, of_parts = at.drafted + 1, at.speedup(1.0, draft_scale=0.0)
    why = f"V({n:.3g})/V(1) is {found.limit_verify_ratio:.2f}"
    if _follows(found.limit, n / found.limit_verify_ratio):
        return why
    if _follows(found.limit, of_parts):
        rest = _ms(at.fixed_s + at.mark_s + at.token_s * n)
        return f"{why}, and sampling {n:.3g} tokens and {REST} of the round take {rest}"
    share = percent_text(found.limit / of_parts)
    return f"{why}, and of what its parts promise the setting has reached {share}"


def _follows(limit: float, reason: float) -> bool:
    """Whether a reader who works a reason out comes to the limit, or to what is no gain either."""
    return limit / _FOLLOWS <= reason <= max(1.0, _FOLLOWS * limit)


def _ms(seconds: float) -> str:
    milliseconds = 1000 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= _WHOLE_MS else f"{milliseconds:.2g} ms"


def _times(speedup: float) -> str:
    return f"{speedup:.2f}×"


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _terms_document(found: Findings) -> Json:
    terms = found.terms
    no_draft = _FREE if found.drafts_are_free else _NO_DRAFT_HELPS
    step_s = found.break_even_step_s
    return {
        "alpha": terms.alpha,
        "c": terms.c,
        "draft_step_s": terms.step_s,
        "target_step_s": terms.target_step_s,
        "drafted_per_round": terms.drafted,
        "tokens_per_round": terms.emitted,
        "verify_ratio": terms.verify_ratio,
        "round_s": {
            "draft": terms.chain_s,
            "second_draft_pass": terms.again_s,
            "verify": terms.verify_s,
            "sample": terms.sample_s,
            "rollback": terms.rollback_s,
            "other": terms.fixed_s,
        },
        "speedup": found.speedup,
        "speedup_source": "measured" if found.is_measured else "replayed",
        "decides": str(found.decides),
        "speedup_without": found.speedup_without,
        **or_reason("break_even_draft_step_s", step_s, no_draft),
        **or_reason("break_even_c", step_s and step_s / terms.target_step_s, no_draft),
        **or_reason("break_even_alpha", found.break_even_alpha, _NO_ALPHA),
        "speedup_if_free": found.speedup_if_free,
        "speedup_if_perfect": found.speedup_if_perfect,
        "speedup_limit": found.limit,
    }
