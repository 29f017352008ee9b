"""What would have to change: break-even numbers, put back into the model, give a speedup of 1."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import judge
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from spectui.trace.replay import Grid, replay_trace
from spectui.trace.terms import Findings, RoundTerms, Term, expected_tokens, measured_terms
from spectui.tune.explain import explain_measured, explain_result, explained
from spectui.tune.race import Standing
from spectui.tune.result import TuneResult
from tests.support.replay import COSTS, SCENE, record
from tests.support.search import items, result

ROUND = RoundTerms(
    drafted=4.0,
    chain_s=0.02,
    again_s=0.005,
    verify_s=0.06,
    fixed_s=0.001,
    mark_s=0.0,
    token_s=0.0005,
    rejection_s=0.002,
    off_s=0.05,
    alpha=0.8,
    emitted=3.0,
    rejected=0.5,
    step_s=0.1,
    target_step_s=0.1,
)
costs_s = st.floats(1e-4, 1.0)
alphas = st.floats(0.01, 0.99)


@st.composite
def cases(draw: st.DrawFn) -> tuple[RoundTerms, float, Findings]:
    """A setting, its speedup, and what could be."""
    alpha, now, drafted = draw(alphas), draw(st.floats(0.2, 4.0)), draw(st.floats(0.1, 32))
    known = expected_tokens(alpha, drafted)
    long = ("chain_s", "again_s", "verify_s", "fixed_s", "off_s")
    short = ("mark_s", "token_s", "rejection_s")
    terms = replace(
        ROUND,
        drafted=drafted,
        alpha=alpha,
        emitted=known * ((drafted + 1) / known) ** draw(st.floats(-0.5, 0.9)),
        **{name: draw(costs_s) for name in long},
        **{name: draw(costs_s) / 10 for name in short},
    )
    return terms, now, Findings(terms, now)


def with_draft(terms: RoundTerms, scale: float) -> RoundTerms:
    """A round whose draft takes ``scale`` times as long."""
    return replace(terms, chain_s=scale * terms.chain_s, again_s=scale * terms.again_s)


def test_a_speedup_is_tokens_over_seconds() -> None:
    tokens = expected_tokens(0.8, 4.0)
    seconds = 0.5 * 0.025 + 0.06 + 0.001 + 0.0005 * tokens + 0.002 * (1 - 0.8**4)
    assert with_draft(ROUND, 0.5).speedup(0.8, tokens) == pytest.approx(0.05 * tokens / seconds)


@given(cases())
def test_the_break_even_draft_breaks_even(case: tuple[RoundTerms, float, Findings]) -> None:
    own, now, found = case
    assert found.speedup_if() == pytest.approx(now)
    if found.break_even_step_s is None:
        assert found.speedup_if(with_draft(own, 0.0)) <= 1 + 1e-9 or found.drafts_are_free
    else:
        scale = found.break_even_step_s / own.step_s
        assert found.speedup_if(with_draft(own, scale)) == pytest.approx(1)
        assert (scale > 1) == (now > 1) or now == pytest.approx(1)


@given(cases())
def test_the_break_even_acceptance_breaks_even(case: tuple[RoundTerms, float, Findings]) -> None:
    own, now, found = case
    alpha = found.break_even_alpha
    if alpha is None:
        assert found.speedup_if(alpha=1.0) < 1
    elif found.speedup_if(alpha=0.0) >= 1:
        assert alpha == pytest.approx(0, abs=1e-12)
    else:
        assert found.speedup_if(alpha=alpha) == pytest.approx(1)
        assert (alpha < own.alpha) == (now > 1) or now == pytest.approx(1)


def test_costs_of_before_that_have_marks_in_verifying_come_to_the_same_seconds() -> None:
    recording, chains = record(SCENE)
    recordings = (replace(recording, chains={"draft": chains}),)
    now = replace(COSTS, mark_s=0.02)
    lengths, verify_s = COSTS.lengths, COSTS.verify_s
    before = replace(
        COSTS, verify_s=tuple(s + 0.02 * (n > 0) for n, s in zip(lengths, verify_s, strict=True))
    )
    grid = Grid(draft_max=(1, 4, 6), draft_p_min=(0.0, 0.5))
    for one, other in zip(
        replay_trace(recordings, "draft", grid, now),
        replay_trace(recordings, "draft", grid, before),
        strict=True,
    ):
        assert one.seconds == pytest.approx(other.seconds)


SPECULATIVE = Counters(
    n_rounds=10,
    n_drafted=40,
    n_accepted=24,
    n_rejections=8,
    n_steps=40,
    chain_s=0.2,
    times=RoundTimes(draft_s=0.25, verify_s=0.6, sample_s=0.01, rollback_s=0.016, other_s=0.01),
)
BASELINE = Counters(n_rounds=34, times=RoundTimes(verify_s=1.7))


def measured(speculative: Counters = SPECULATIVE) -> RoundTerms:
    found = measured_terms(speculative, target_step_s=0.05, off_s=0.051)
    assert found is not None
    return found


def test_measured_terms_are_means_over_the_rounds() -> None:
    found = measured()
    assert found.alpha == 24 / 32
    assert (found.drafted, found.emitted, found.rejected) == pytest.approx((4, 3.4, 0.8))
    assert (found.step_s, found.target_step_s, found.c) == pytest.approx((0.005, 0.05, 0.1))
    assert found.verify_ratio == pytest.approx(1.2)
    assert found.total_s == pytest.approx(SPECULATIVE.times.total_s / 10)
    assert found.rejection_s == pytest.approx(0.002)
    assert measured_terms(Counters(n_rounds=3), target_step_s=0.05, off_s=0.05) is None


def test_saving_the_state_is_no_price_of_a_rejection() -> None:
    times = replace(SPECULATIVE.times, rollback_s=2.016)
    terms = measured(replace(SPECULATIVE, mark_s=2.0, times=times))
    own = terms
    assert (own.mark_s, own.rejection_s) == pytest.approx((0.2, 0.002))
    found = Findings(terms, 0.5)
    loss, speedup = found.largest_loss
    assert loss is Term.ROLLBACK
    without = 0.5 * terms.total_s / (terms.total_s - terms.rollback_s)
    assert speedup == pytest.approx(without, rel=0.01)
    # A draft that is always right is verified with a saved state, too.
    assert found.speedup_if_perfect == pytest.approx(0.5 * 5 / terms.emitted, rel=0.01)


def told(speedup: float) -> tuple[str, ...]:
    found = Findings(measured(), speedup)
    return explained(found, recommended=speedup > 1).sentences


def test_without_rejections_every_drafted_token_counts() -> None:
    # What is printed has to add up: as many tokens as are drafted and one, in the same seconds.
    for n_accepted in (2, 24, 36):
        terms = measured(replace(SPECULATIVE, n_accepted=n_accepted))
        found = Findings(terms, 0.9)
        perfect = 0.9 * 5 / terms.emitted
        assert found.speedup_if_perfect == pytest.approx(perfect, rel=0.05)
        loss, speedup = found.largest_loss
        if loss is Term.REJECTIONS:
            assert speedup == pytest.approx(perfect, rel=0.05)


def test_a_winner_is_explained() -> None:
    emits, takes, margins = told(1.6)
    assert emits.startswith("A round emits 3.40 tokens where the target alone emits 1: it drafts")
    assert "α is 0.75" in emits
    assert "verifying takes 68 %, drafting 23 %, the second draft pass 6 %" in takes
    assert "Drafting pays as long as a draft step takes less than " in margins
    assert "(now 5 ms)" in margins
    assert "(now 0.75)" in margins


def test_of_a_loser_it_is_told_what_it_would_take() -> None:
    found = Findings(measured(), 0.9)
    assert found.break_even_step_s is not None
    assert found.break_even_alpha is not None
    _rounds, costs, demands = told(0.9)
    assert f"a draft under {1000 * found.break_even_step_s:.2g} ms/token" in demands
    assert "ms/token instead of 5 ms with the same acceptance" in demands
    assert f"α of {found.break_even_alpha:.2f} instead of 0.75 at the same costs" in demands
    # The shares are those of the whole round.
    shares = [int(share) for share in re.findall(r"(\d+) %", costs)]
    assert sum(shares) == pytest.approx(100, abs=2)
    # No draft helps where verifying alone takes too long.
    *_others, hopeless = told(0.1)
    assert re.fullmatch(r"Even a draft that is always right would give 0\.\d\d×\.", hopeless)


def test_an_acceptance_that_would_pay_is_left_out_where_it_is_the_one_that_is() -> None:
    ngram = replace(SPECULATIVE, n_accepted=0, n_rejections=1, n_drafted=1, n_steps=0, chain_s=0.0)
    times = replace(SPECULATIVE.times, draft_s=1e-6, verify_s=0.5)
    found = Findings(measured(replace(ngram, times=times)), 0.99999)
    assert found.break_even_alpha == pytest.approx(0, abs=5e-4)
    assert "To pay" not in explained(found, recommended=False).text


def test_drafts_for_nothing_are_not_asked_to_be_faster() -> None:
    times = replace(SPECULATIVE.times, draft_s=1e-6)
    ngram = replace(SPECULATIVE, n_steps=0, chain_s=0.0, times=times)
    found = Findings(measured(ngram), 0.9)
    assert found.drafts_are_free
    assert found.break_even_step_s is None
    assert "ms/token" not in explained(found, recommended=False).text


def test_each_term_can_decide() -> None:
    times = SPECULATIVE.times
    cases = {
        Term.DRAFT: replace(SPECULATIVE, chain_s=9.0, times=replace(times, draft_s=9.05)),
        Term.AGAIN: replace(SPECULATIVE, times=replace(times, draft_s=9.0)),
        Term.VERIFY: replace(SPECULATIVE, times=replace(times, verify_s=9.0)),
        Term.ROLLBACK: replace(SPECULATIVE, times=replace(times, rollback_s=9.0)),
        Term.REJECTIONS: replace(SPECULATIVE, n_accepted=2),
    }
    for term, counters in cases.items():
        loss, speedup = Findings(measured(counters), 0.5).largest_loss
        assert loss is term
        assert speedup > 0.5


def test_a_confirmation_is_explained_with_what_it_measured() -> None:
    item = items(1)[0]
    base = replace(result(20.0), counters=BASELINE)
    pair = Pair(item=item, baseline=base, speculative=replace(base, counters=SPECULATIVE))
    found = explain_measured((pair,), speedup=1.4, recommended=True)
    assert found.findings is not None
    assert found.findings.speedup == 1.4
    # Where more prompts were counted than timed, it says which ones the rounds are of.
    arm = Arm(draft="good", speculation=Speculation())
    for n_timed, beginning in ((None, "A round"), (1, "By 1 timed prompt (0.0 %): a round")):
        gain = Speedup(estimate=1.4, low=1.2, high=1.6, n_pairs=9, n_prompts=9, n_timed=n_timed)
        told = explain_result(
            TuneResult(
                trials=(),
                best=arm,
                finalists=(Standing(arm=arm, speedup=gain, pairs=(pair,)),),
                verdict=judge(gain, min_gain=0.02),
                lossless=None,
                interrupted=False,
                error=None,
                took_s=1.0,
            )
        )
        assert told.text.startswith(beginning)
    # Without drafts it says what is missing.
    pair = replace(pair, speculative=result(10.0))
    found = explain_measured((pair,), speedup=1.0, recommended=False)
    assert found.findings is None
    assert "nothing was drafted" in found.text
