"""``tune --server-bin``: time for llama-server, and what its numbers do to a verdict."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import CancelledError, ServerError
from spectui.measure.arm import Arm
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Answer, Basis, Verdict
from spectui.options.drafters import DraftSimple
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.tune.served import Cost, failure_of, spread, verdict_by_server

BEST = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=4)))
USE = Verdict(use_speculation=True, reason="Use it: in-process.")
LEAVE = Verdict(use_speculation=False, reason="Turn it off: in-process.")


def speedup(estimate: float, low: float, high: float, ceiling: float | None = None) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=8, n_prompts=8, ceiling=ceiling)


FAST, UNSURE, SLOW = speedup(1.3, 1.2, 1.4), speedup(1.1, 0.9, 1.3), speedup(0.9, 0.8, 0.99)
NOISE = speedup(1.2, 1.1, 1.3, ceiling=1.011)


def judged(before: Verdict, delivered: Speedup, *requests: Request) -> Verdict:
    return verdict_by_server(before, BEST, delivered, min_gain=0.02, requests=requests)


@pytest.mark.parametrize(
    ("before", "delivered"),
    [(USE, FAST), (USE, UNSURE), (LEAVE, SLOW), (LEAVE, UNSURE), (USE, NOISE), (LEAVE, NOISE)],
)
def test_a_verdict_that_the_server_does_not_contradict_stays(
    before: Verdict, delivered: Speedup
) -> None:
    assert judged(before, delivered) == before


def test_the_servers_numbers_count_more() -> None:
    off = judged(USE, SLOW)
    assert off.answer is Answer.OFF
    assert off.reason.startswith("Turn it off: d: max 4")
    assert "in spectui's own engine it was to use it" in off.reason
    on = judged(LEAVE, FAST)
    assert on.answer is Answer.USE
    assert "in spectui's own engine it was to leave it off" in on.reason


@pytest.mark.parametrize("basis", [Basis.LATER, Basis.SAME])
def test_servers_that_ran_what_chose_a_setting_can_only_turn_it_off(basis: Basis) -> None:
    leave = replace(LEAVE, basis=basis)
    assert judged(leave, FAST) == leave
    assert judged(replace(USE, basis=basis), SLOW).answer is Answer.OFF


def request(prompt_on_s: float, *, is_covered: bool = True) -> Request:
    """Ten seconds of prompt and ten of answer without speculation."""
    return Request(
        shape=RequestShape(n_prompt=1000, n_answer=101),
        prompt_off_s=10.0,
        prompt_on_s=prompt_on_s,
        token_s=0.1,
        decoding=FAST,
        is_covered=is_covered,
    )


def test_whole_requests_have_to_gain_as_well() -> None:
    assert judged(USE, FAST, request(10.5)) == USE
    # The draft takes long to read the prompt, which its decoding does not win back.
    found = judged(USE, FAST, request(15.0))
    assert not found.use_speculation
    assert found.reason.startswith("Leave it off for requests of 1,000 + 101 tokens: ")


def test_requests_that_are_extrapolated_overturn_nothing() -> None:
    assert judged(USE, FAST, request(15.0, is_covered=False)) == USE
    assert judged(LEAVE, FAST, request(10.0, is_covered=False)) == LEAVE
    assert judged(LEAVE, FAST, request(10.0)).use_speculation


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), CancelledError("stopped")])
def test_an_interrupt_says_what_is_kept(ended: BaseException) -> None:
    failure = failure_of(ended)
    assert isinstance(failure, CancelledError)
    assert "what tune has found is shown and kept" in str(failure)


def test_a_failure_is_told_as_it_is() -> None:
    error = ServerError("it broke")
    assert failure_of(error) is error


# Time

COST = Cost(prompt_s=2.0, starts_s=10.0)


@given(
    left_s=st.floats(-10, 1e4),
    n_prompts=st.integers(1, 50),
    prompt_s=st.floats(0.01, 50),
    starts_s=st.floats(0, 100),
)
def test_what_is_measured_fits_in_what_is_left(
    left_s: float, n_prompts: int, prompt_s: float, starts_s: float
) -> None:
    cost = Cost(prompt_s=prompt_s, starts_s=starts_s)
    n, reason = cost.affordable(left_s, n_prompts)
    if n:
        assert min(6, n_prompts) <= n <= n_prompts
        assert cost.seconds(n) <= left_s + 1e-6
    assert (reason is None) is (n == n_prompts)


@pytest.mark.parametrize(
    ("left_s", "n", "said"),
    [
        (None, 24, None),
        (1000.0, 24, None),
        (40.0, 13, "llama-server was given 13 of 24 prompts"),
        (24.0, 0, "of the time budget 24 s are left, and 6 prompts take about 25 s; give"),
        (-3.0, 0, "of the time budget 0 s are left"),
    ],
)
def test_what_there_is_no_time_for_is_told(left_s: float | None, n: int, said: str | None) -> None:
    found, reason = COST.affordable(left_s, 24)
    assert found == n
    assert reason is None if said is None else reason is not None and said in reason


def test_fewer_prompts_are_of_as_many_categories() -> None:
    prompts = [Prompt(id=f"{kind}{n}", category=kind, text="x") for kind in "abc" for n in range(3)]
    assert [one.id for one in spread(prompts, 5)] == ["a0", "b0", "c0", "a1", "b1"]
