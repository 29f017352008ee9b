"""Explanation of why a setting pays or does not, in a few sentences, and what would change it.

The experts that recorded answers use explain the costs of verifying a batch, and show what a cache
of experts on a GPU would hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.documents import Json, Known, or_reason
from spectui.format import bytes_text, counted, percent_text
from spectui.measure.measurer import Pair, measurements, throughput, total_counters
from spectui.measure.speedup import gain_texts
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import doubt
from spectui.speculative.counters import Detail
from spectui.trace.routing import ExpertUse
from spectui.trace.terms import Findings, RoundTerms, measured_terms
from spectui.tune.race import Standing
from spectui.tune.result import TuneResult

_WHOLE_MS = 10
"""Milliseconds from which on no digit stands after the point."""
_SMALL = 0.005
"""Share of a round that rounds to 0 %."""
_NOTHING_DRAFTED = (
    "Not explained: nothing was drafted on these prompts, so that every round was the target's own."
)
_SERVED = "Not explained: llama-server does not tell where the time of its rounds goes."
_FARTHER = 2
"""Doublings between the two sizes of a cache that are reported, from the smallest that holds
anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Sentences, and the numbers behind them."""

    sentences: tuple[str, ...]
    """Sources of the speedup, its cost, and when it pays; or why there is no explanation."""
    findings: Findings | None = None
    """None where something is missing."""

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)

    def document(self) -> Json:
        """``explanation``, the text, and ``explanation_terms``, its numbers."""
        terms = None if self.findings is None else _terms_document(self.findings)
        return {"explanation": self.text, **or_reason("explanation_terms", terms, self.text)}


def explain_result(result: TuneResult) -> Explanation:
    """Explain what a search has found."""
    leader, speedup = result.leader, result.speedup
    if leader is None or speedup is None:
        return Explanation(sentences=("Not explained: no setting was confirmed.",))
    if speedup.is_noise:
        return Explanation(sentences=(f"Not explained: {doubt(speedup)}.",))
    moved = leader.moved
    found = explain_measured(
        # Rounds can be taken apart only beside the target alone in the same place.
        moved or leader.pairs,
        speedup=paired_speedup(measurements(moved)).estimate if moved else speedup.estimate,
        recommended=result.verdict.use_speculation and not moved,
    )
    if found.findings is None:
        return found
    before = (_moved(result, leader),) if moved else ()
    experts = batch_sentence(result.experts, found.findings.terms.drafted + 1)
    after = () if experts is None else (experts,)
    first, *others = found.sentences
    if timed := _of_timed(leader):
        first = f"{timed}{first[:1].lower()}{first[1:]}"
    return replace(found, sentences=(*before, first, *others, *after))


def _of_timed(leader: Standing) -> str:
    """The prompts that rounds are of, where the speedup is of more prompts; else empty."""
    speedup, timed = leader.speedup, measurements(leader.moved or leader.pairs)
    if speedup is None or speedup.n_timed is None or speedup.n_timed >= speedup.n_prompts:
        return ""
    (gain,) = gain_texts([paired_speedup(timed, n_resamples=1).estimate])
    return f"By {counted(speedup.n_timed, 'timed prompt')} ({gain}): "


def _moved(result: TuneResult, leader: Standing) -> str:
    """Cost to the target of the memory that the draft takes."""
    own, off = (
        throughput([pair.baseline for pair in pairs]) for pairs in (leader.moved, leader.pairs)
    )
    slower = f"{own / off:.2f}× as fast" if own and off else "slower"
    return (
        f"A draft takes room from the target ({leader.arm.layout} beside {leader.arm.draft}, "
        f"{result.off.layout} without one), and the target alone is {slower}. Over that:"
    )


def explain_measured(pairs: Sequence[Pair], *, speedup: float, recommended: bool) -> Explanation:
    """Explain a setting that was confirmed.

    Args:
        pairs: the confirmation.
        speedup: speedup by the confirmation.
        recommended: by the verdict.
    """
    baseline = [pair.baseline for pair in pairs]
    off = throughput(baseline)
    speculative = total_counters([pair.speculative for pair in pairs])
    if speculative.detail is not Detail.ROUNDS and speculative.n_drafted:
        return Explanation(sentences=(_SERVED,))
    terms = None
    if off:
        alone = total_counters(baseline)
        step_s = alone.times.verify_s / alone.n_rounds if alone.n_rounds else 0.0
        terms = measured_terms(speculative, target_step_s=step_s, off_s=1 / off)
    if terms is None:
        return Explanation(sentences=(_NOTHING_DRAFTED,))
    return explained(Findings(terms, speedup), recommended=recommended)


def explained(found: Findings, *, recommended: bool) -> Explanation:
    """The findings in sentences."""
    terms = found.terms
    ratio = terms.total_s / terms.target_step_s
    emits = (
        f"A round emits {terms.emitted:.2f} tokens where the target alone emits 1: it drafts "
        f"{terms.drafted:.1f}, and α is {terms.alpha:.2f}."
    )
    sentences = (
        emits,
        f"A round takes {ratio:.2f} times as long as a token of the target: {_shares(terms)}.",
        _margins(found, recommended=recommended) if found.speedup > 1 else _demands(found),
    )
    return Explanation(sentences=tuple(filter(None, sentences)), findings=found)


def _shares(terms: RoundTerms) -> str:
    """The parts that make up a round, but for what rounds to nothing."""
    parts = [(words, seconds / terms.total_s) for _name, words, seconds in terms.parts]
    parts.sort(key=lambda part: -part[1])
    (first, most), *others = [part for part in parts if part[1] >= _SMALL]
    shares = [f"{words} {percent_text(share)}" for words, share in others]
    return ", ".join((f"{first} takes {percent_text(most)}", *shares))


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
    verb = "Drafting pays" if recommended else "Drafting breaks even"
    alone = ", each with the other as it is" if len(stays) > 1 else ""
    return f"{verb} as long as {' and '.join(stays)}{alone}."


def _demands(found: Findings) -> str:
    """Requirements for the setting to pay."""
    ways = []
    if found.break_even_step_s is not None:
        most, step = _ms(found.break_even_step_s), _ms(found.terms.step_s)
        ways.append(f"a draft under {most}/token instead of {step} with the same acceptance")
    if found.break_even_alpha is not None:
        wanted, now = (f"{alpha:.2f}" for alpha in (found.break_even_alpha, found.terms.alpha))
        if wanted == now:
            # It breaks even as it is, but for what no digit shows.
            return ""
        ways.append(f"an acceptance α of {wanted} instead of {now} at the same costs")
    if ways:
        return f"To pay, it would take {', or '.join(ways)}."
    return f"Even a draft that is always right would give {found.speedup_if_perfect:.2f}×."


def _ms(seconds: float) -> str:
    milliseconds = 1000 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= _WHOLE_MS else f"{milliseconds:.2g} ms"


def _terms_document(found: Findings) -> Json:
    terms = found.terms
    return {
        "alpha": terms.alpha,
        "c": terms.c,
        "drafted_per_round": terms.drafted,
        "tokens_per_round": terms.emitted,
        "verify_ratio": terms.verify_ratio,
        "round_s": {name: seconds for name, _words, seconds in terms.parts},
        "speedup": found.speedup,
    }


def cache_sentence(found: Known[ExpertUse]) -> str | None:
    """Caches of two sizes in words; None where nothing is known, or RAM has no experts."""
    use = found.value
    held = () if use is None else tuple(one for one in use.caches if one.hit_rate)
    if use is None or not held:
        return None
    shown = dict.fromkeys((held[0], *held[: 1 + _FARTHER][-1:]))
    (size_mib, rate), *larger = [(one.size_mib, percent_text(one.hit_rate)) for one in shown]
    held_text = f"{rate} of the experts that a token reads from RAM"
    more = "".join(f", {size} {share}" for size, share in larger)
    others = " and ".join(bytes_text(round(one.upload_bytes)) for one in shown)
    return (
        f"On a GPU, --moe-cache-mib {size_mib} would hold {held_text}{more}; the others, {others} "
        f"for each token, would be copied there (by {counted(use.n_answers, 'recorded answer')})."
    )


def batch_sentence(found: Known[ExpertUse], n_tokens: float) -> str | None:
    """Experts that a batch of about so many tokens reads; None where they are not known."""
    use = found.value
    if use is None or not use.batches[1:]:
        return None
    one, *more = use.batches
    near = min(more, key=lambda batch: abs(batch.n_tokens - n_tokens))
    return (
        f"{near.n_tokens} consecutive tokens read {near.measured:.1f} of a layer's "
        f"{use.n_experts} experts, {near.random:.1f} if they were routed at random; one "
        f"reads {one.measured:.3g}."
    )
