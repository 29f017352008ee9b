"""``tune --server-bin``: what becomes of a result that llama-server ranks otherwise."""

from dataclasses import replace

import pytest

from spectui.errors import CancelledError, ServerError
from spectui.measure.arm import OFF, Arm
from spectui.measure.measurer import Pair
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Verdict
from spectui.options.drafters import DraftSimple
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.tune.pace import Spent
from spectui.tune.race import Standing
from spectui.tune.result import TuneResult
from spectui.tune.served import Preference, Served, failure_of, preferred, with_server_ranking
from tests.support.search import items, result

BEST = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=4)))
RIVAL = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=8)))
OTHER = Verdict(use_speculation=True, reason="llama-server says so")


def pairs(tokens_per_s: float) -> tuple[Pair, ...]:
    speculative = result(tokens_per_s, drafted=8)
    return tuple(Pair(item=one, baseline=result(10.0), speculative=speculative) for one in items(6))


def standing(arm: Arm, estimate: float) -> Standing:
    speedup = Speedup(estimate=estimate, low=1.1, high=1.5, n_pairs=6, n_prompts=6)
    return Standing(arm=arm, speedup=speedup, n_pairs=6, pairs=pairs(10 * estimate))


FINALISTS = (standing(BEST, 1.3), standing(RIVAL, 1.29))
RESULT = TuneResult(
    trials=(),
    best=BEST,
    pairs=FINALISTS[0].pairs,
    pairs_where_target_moved=FINALISTS[0].pairs,
    finalists=FINALISTS,
    speedup=FINALISTS[0].speedup,
    verdict=Verdict(use_speculation=True, reason="in-process"),
    lossless=None,
    interrupted=False,
    error=None,
    spent=Spent(budget_s=None, took_s=1.0, n_trials=2, n_tried=2, ended_trials=False),
)


def served(arm: Arm, verdict: Verdict, *, is_other: bool) -> Served:
    preference = Preference(arm=arm, verdict=verdict, is_other=is_other)
    return Served(found=(), preference=preference, ended=None)


def test_a_ranking_that_agrees_changes_nothing() -> None:
    assert with_server_ranking(RESULT, None) is RESULT
    assert with_server_ranking(RESULT, served(BEST, RESULT.verdict, is_other=False)) is RESULT


def test_a_rival_that_the_server_ran_faster_takes_the_winners_place() -> None:
    found = with_server_ranking(RESULT, served(RIVAL, OTHER, is_other=True))
    assert (found.best, found.verdict) == (RIVAL, OTHER)
    assert (found.speedup, found.pairs) == (FINALISTS[1].speedup, FINALISTS[1].pairs)
    assert found.pairs_where_target_moved == ()


def test_off_takes_no_setting_away_from_the_report() -> None:
    own = Verdict(use_speculation=False, reason="off is faster on llama-server")
    assert with_server_ranking(RESULT, served(OFF, own, is_other=True)) == replace(
        RESULT, verdict=own
    )


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), CancelledError("stopped")])
def test_an_interrupt_says_what_is_kept(ended: BaseException) -> None:
    failure = failure_of(ended)
    assert isinstance(failure, CancelledError)
    assert "what tune has found is shown and kept" in str(failure)


def test_a_failure_is_told_as_it_is() -> None:
    error = ServerError("it broke")
    assert failure_of(error) is error


# --- The preference ---------------------------------------------------------------------------

DELIVERED = {
    arm: Speedup(estimate=estimate, low=estimate - 0.1, high=estimate + 0.1, n_pairs=8, n_prompts=8)
    for arm, estimate in ((BEST, 1.3), (RIVAL, 1.4))
}


def request(arm: Arm, prompt_on_s: float, *, is_covered: bool = True) -> tuple[Request, ...]:
    """Ten seconds of prompt and ten of answer without speculation."""
    return (
        Request(
            shape=RequestShape(n_prompt=1000, n_answer=101),
            prompt_off_s=10.0,
            prompt_on_s=prompt_on_s,
            token_s=0.1,
            decoding=DELIVERED[arm],
            is_covered=is_covered,
        ),
    )


def preference(
    requests: dict[Arm, tuple[Request, ...]], verdict: Verdict = RESULT.verdict
) -> Preference:
    return preferred(verdict, BEST, DELIVERED, min_gain=0.02, requests=requests)


def test_settings_are_ranked_by_whole_requests() -> None:
    assert preference({}).arm == RIVAL
    # The rival's draft takes long to read, which its decoding does not win back.
    found = preference({BEST: request(BEST, 10.5), RIVAL: request(RIVAL, 15.0)})
    assert found == Preference(arm=BEST, verdict=RESULT.verdict, is_other=False)
    both = preference({BEST: request(BEST, 14.0), RIVAL: request(RIVAL, 15.0)})
    assert (both.arm, both.verdict.use_speculation) == (OFF, False)
    assert both.verdict.reason.startswith("Leave it off for requests of 1,000 + 101 tokens: ")


def test_requests_that_are_extrapolated_overturn_nothing() -> None:
    far = {arm: request(arm, 15.0, is_covered=False) for arm in (BEST, RIVAL)}
    assert preference(far).arm == RIVAL
    off = Verdict(use_speculation=False, reason="it loses at that depth")
    gaining = {arm: request(arm, 10.0, is_covered=False) for arm in (BEST, RIVAL)}
    assert preference(gaining, off) == Preference(arm=OFF, verdict=off, is_other=False)
    covered = {arm: request(arm, 10.0) for arm in (BEST, RIVAL)}
    assert preference(covered, off).arm == RIVAL
