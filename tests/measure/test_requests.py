import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectui.engine.events import GenerationResult
from spectui.errors import UsageError
from spectui.measure.measurer import Pair
from spectui.measure.reading import (
    NOT_READ,
    PromptTimes,
    Reading,
    ReadingTime,
    fit_readings,
    prompt_times,
)
from spectui.measure.requests import Request, request_of, together, usual_shape
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Answer, judge
from spectui.measure.workload import WorkItem, Workload
from spectui.options.request import RequestShape, check_lengths
from spectui.options.setup import SamplingConfig
from tests.support.search import result

MINUS = "\N{MINUS SIGN}"
LENGTHS = (100, 180, 250, 400, 600, 800, 1200, 1600)


def curve(n: int, zero: float, one: float, two: float) -> float:
    return zero + one * n + two * n * n


def readings(zero: float, one: float, two: float) -> list[Reading]:
    return [Reading(n, curve(n, zero, one, two)) for n in LENGTHS]


factors = st.tuples(
    st.sampled_from([0.0, 0.05, 0.4]), st.floats(1e-4, 1e-2), st.sampled_from([0.0, 1e-7, 2e-6])
)


@given(factors)
def test_a_fit_finds_what_made_its_readings(made_of: tuple[float, float, float]) -> None:
    found = fit_readings(readings(*made_of))
    assert found is not None
    for n in (100, 333, 1600, 1900):
        assert found.seconds(n) == pytest.approx(curve(n, *made_of), rel=0.04)


@given(factors, st.integers(0, len(LENGTHS) - 1), st.floats(1.5, 20))
@example((0.0, 1e-4, 1e-7), 0, 1.5)
@example((0.0, 1.3e-3, 2e-6), 0, 1.6)
def test_a_disturbed_reading_moves_little(
    made_of: tuple[float, float, float], which: int, slower: float
) -> None:
    told = readings(*made_of)
    told[which] = Reading(told[which].n_tokens, told[which].seconds * slower)
    found = fit_readings(told)
    assert found is not None
    # The shortest prompt alone tells what comes before the first token.
    most = 0.25 if which == 0 else 0.05
    for n in (180, 700, 1500):
        assert found.seconds(n) == pytest.approx(curve(n, *made_of), rel=most)


@given(st.lists(st.tuples(st.integers(1, 4000), st.floats(1e-3, 100)), min_size=1, max_size=12))
def test_a_longer_prompt_never_takes_less(given_: list[tuple[int, float]]) -> None:
    found = fit_readings([Reading(*each) for each in given_])
    assert found is not None
    assert min(found.factors) >= 0
    assert found.seconds(10) <= found.seconds(100) <= found.seconds(10_000)
    assert math.isfinite(found.seconds(10_000))


def test_prompts_of_one_length_say_what_a_token_takes() -> None:
    found = fit_readings([Reading(200, seconds) for seconds in (0.41, 0.40, 0.90)])
    assert found is not None
    assert found.seconds(100) == pytest.approx(0.205, rel=0.03)
    assert found.factors[0] == found.factors[2] == 0


def test_nothing_was_read() -> None:
    assert fit_readings([]) is None
    free = fit_readings([Reading(100, 0.0), Reading(200, 0.0)])
    assert free is not None
    assert free.seconds(1000) == 0


def read(
    n: int, prompt_s: float, draft_s: float | None, *, kept: int = 0, n_read: int | None = None
) -> GenerationResult:
    """A result of a prompt of ``n`` tokens, of which the target still held ``kept``."""
    return replace(
        result(10.0),
        n_prompt_tokens=n,
        prompt_s=prompt_s,
        prompt_draft_s=draft_s,
        n_evaluated=n - kept,
        n_read=(n if draft_s else 0) if n_read is None else n_read,
    )


def pair(n: int, off: GenerationResult, on: GenerationResult) -> Pair:
    return Pair(
        item=WorkItem(id=f"p{n}", category="c", tokens=tuple(range(n))),
        baseline=off,
        speculative=on,
    )


def here(n: int) -> Pair:
    """A prompt that the engine evaluated: 10 ms a token, and 4 ms of the draft."""
    return pair(n, read(n, 0.01 * n, 0.0), read(n, 0.014 * n, 0.004 * n))


def served(n: int) -> Pair:
    """A prompt that two servers evaluated."""
    return pair(n, read(n, 0.01 * n, None), read(n, 0.014 * n, None))


@pytest.mark.parametrize("one", [here, served])
def test_a_fresh_evaluation_tells_what_both_ways_take(one: Callable[[int], Pair]) -> None:
    times = prompt_times([one(n) for n in (100, 200, 400)]).value
    assert times is not None
    assert times.off.seconds(300) == pytest.approx(3.0)
    assert times.on_s(300) == pytest.approx(4.2)
    assert times.covers(500)
    assert not times.covers(501)


def test_prompts_that_were_taken_up_again_tell_nothing() -> None:
    recalled = pair(100, read(100, 0.001, 0.0, kept=100), read(100, 0.001, 0.0, kept=100, n_read=0))
    partly = pair(100, read(100, 0.1, 0.0, kept=30), read(100, 0.5, 0.4, kept=30))
    # The target has read it before; the draft reads it alone.
    own = pair(200, read(200, 0.001, 0.0, kept=200), read(200, 1.0, 1.0, kept=200))
    for one in (recalled, partly, own):
        assert prompt_times([one]).reason == NOT_READ
    for found, on_s in (
        (prompt_times([recalled, here(200)]), 2.8),
        # N-gram drafters read no prompt.
        (prompt_times([served(100), served(200)], reads=False), 2.0),
    ):
        times = found.value
        assert times is not None
        assert times.off.seconds(200) == pytest.approx(2.0)
        assert times.on_s(200) == pytest.approx(on_s)


def times(draft_token_s: float = 0.004) -> PromptTimes:
    off = ReadingTime(factors=(0.0, 0.01, 0.0), longest=1000)
    return PromptTimes(
        off=off, on=(off, ReadingTime(factors=(0.0, draft_token_s, 0.0), longest=1000))
    )


def gain(low: float, estimate: float, high: float) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=16, n_prompts=16)


def request(
    n_prompt: int = 1000,
    n_answer: int = 301,
    speedup: Speedup | None = None,
    draft_token_s: float = 0.004,
) -> Request:
    shape = RequestShape(n_prompt=n_prompt, n_answer=n_answer)
    gained = speedup or gain(1.2, 1.25, 1.3)
    return request_of(shape, times(draft_token_s), gained, 0.1, n_predict=n_answer)


def test_a_request_in_seconds() -> None:
    one = request()
    assert one.off_s == pytest.approx(10 + 30)
    assert one.on_s == pytest.approx(14 + 24)
    assert one.speedup == pytest.approx(40 / 38)
    assert one.interval == pytest.approx((40 / 39, 40 / (14 + 30 / 1.3)))
    # 4 s more, and each further token saves 20 ms.
    assert one.break_even == 201
    document = one.document()
    assert document["time_to_first_token_s"] == {"off": 10.0, "on": 14.0}
    assert document["is_extrapolated"] is False
    beyond = request(n_prompt=2000)
    assert beyond.document()["is_extrapolated"] is True
    assert "no prompt was as long" in beyond.summary


@given(
    st.integers(1, 5000),
    st.integers(2, 3000),
    st.floats(1.001, 4),
    st.floats(0.0001, 0.02),
)
def test_at_the_break_even_a_request_takes_as_long(
    n_prompt: int, n_answer: int, estimate: float, draft_token_s: float
) -> None:
    one = request(n_prompt, n_answer, gain(estimate, estimate, estimate), draft_token_s)
    least = one.break_even
    assert least is not None

    def lead(n: int) -> float:
        changed = replace(one, shape=RequestShape(n_prompt=n_prompt, n_answer=n))
        return changed.off_s - changed.on_s

    assert lead(least) >= -1e-6
    assert lead(least - 1) <= 1e-6
    assert (one.speedup >= 1 - 1e-9) is (n_answer >= least or math.isclose(one.speedup, 1))


def test_there_is_no_break_even_where_decoding_gains_nothing() -> None:
    assert request(speedup=gain(0.9, 0.95, 1.0)).break_even is None
    assert request(speedup=gain(0.9, 1.0, 1.1)).break_even is None
    for equal in (1.0, 1 - 1e-15):
        assert request(speedup=gain(0.9, equal, 1.1), draft_token_s=0.0).break_even == 0
    # A prompt that costs nothing more does not make a loss pay.
    one = request(speedup=gain(0.9, 0.95, 1.0), draft_token_s=0.0)
    assert (one.break_even, one.pays) == (None, "it never pays")
    document = one.document()
    assert document["break_even"] is None
    assert document["break_even_reason"] == "decoding gains nothing"


@pytest.mark.parametrize(
    ("decoding", "pays"),
    [
        (gain(0.9, 0.95, 1.0), "it never pays"),
        # The interval leaves it open.
        (gain(0.9, 0.95, 1.01), ""),
        (replace(gain(0.9, 0.95, 1.0), low=None, high=None), ""),
        # All of it is the machine's noise.
        (replace(gain(0.9, 0.95, 1.0), ceiling=0.5), ""),
    ],
)
def test_that_it_never_pays_is_said_where_the_whole_interval_loses(
    decoding: Speedup, pays: str
) -> None:
    assert request(speedup=decoding).pays == pays


def test_a_prompt_that_takes_less_may_pay_for_a_short_answer_where_decoding_loses() -> None:
    one = replace(request(speedup=gain(0.85, 0.9, 0.95)), prompt_on_s=8.0)
    assert (one.break_even, one.pays) == (None, "")


def test_the_usual_request_is_the_median_prompt() -> None:
    items = tuple(WorkItem(id=str(n), category="c", tokens=tuple(range(n))) for n in (10, 20, 400))
    workload = Workload(items=items, n_predict=64, sampling=SamplingConfig())
    assert usual_shape(workload) == RequestShape(n_prompt=20, n_answer=64)
    assert usual_shape(workload, 512).longest_answer == 492


def test_requests_have_to_fit() -> None:
    def check(n_answer: int = 27, n_predict: int = 8) -> None:
        shape = RequestShape(n_prompt=100, n_answer=n_answer)
        check_lengths([shape], n_predict=n_predict, n_ctx=128, remedy="raise -c")

    check(27)
    with pytest.raises(
        UsageError, match=r"--request 100\+28 needs a context of 129, but it has 128"
    ):
        check(28)
    # A prompt of that length is continued as all are.
    with pytest.raises(UsageError, match=r"--request 100\+27 needs a context of 141"):
        check(27, n_predict=40)


GAIN, LOSS = gain(1.2, 1.25, 1.3), gain(0.8, 0.85, 0.9)
DECODING = "(95 % interval +20 % to +30 %, 16 prompts) in decoding"
IN_USE = f"X is worth +25 % ± 5 {DECODING}"


def going_on(n_answer: int, longest: int) -> Request:
    shape = RequestShape(n_prompt=1000, n_answer=n_answer, longest_answer=longest)
    return replace(request(), shape=shape)


def deep(draft_token_s: float = 0.004) -> Request:
    return request(1000, 301, gain(0.9, 0.93, 0.96), draft_token_s)


def without_interval(n_answer: int) -> Request:
    unknown = replace(
        gain(1.25, 1.25, 1.25), low=None, high=None, interval_reason="two prompts are too few"
    )
    return request(1000, n_answer, unknown)


NOISE = replace(gain(1.6, 1.7, 1.8), ceiling=1.5)
VERDICTS: list[tuple[list[Request], Answer, str]] = [
    (
        [request(1000, 601)],
        Answer.USE,
        f"Use it: {IN_USE}, and +13 % for requests of 1,000 + 601 tokens.",
    ),
    # What was cut short may go on until it pays.
    (
        [going_on(65, 201)],
        Answer.USE,
        (
            f"Use it for answers of 201 tokens or more: {IN_USE}, and -14 % for requests of "
            "1,000 + 65 tokens."
        ),
    ),
    ([going_on(601, 700)], Answer.USE, "Use it: "),
    ([going_on(65, 200)], Answer.OFF, "Leave it off for requests of 1,000 + 65 tokens: "),
    (
        [request(1000, 65)],
        Answer.OFF,
        f"for requests of 1,000 + 65 tokens: X gives +25 % ± 5 {DECODING}, but -14 % (",
    ),
    ([request(1000, 65)], Answer.OFF, ") with the prompt."),
    (
        [request(1000, 65), request(1000, 241)],
        Answer.OFF,
        "Leave it off for requests of 1,000 + 65 tokens and 1,000 + 241 tokens: X gives +25 % ± 5 ",
    ),
    (
        [request(1000, 241)],
        Answer.UNDECIDED,
        "Not decided for requests of 1,000 + 241 tokens, so leave it off",
    ),
    (
        [without_interval(601)],
        Answer.UNDECIDED,
        (
            "Not decided for requests of 1,000 + 601 tokens, so leave it off: X gives +25 % ± 5 "
            f"{DECODING}, but +13 % (without an interval) with the prompt."
        ),
    ),
    ([without_interval(601), request(1000, 2001)], Answer.UNDECIDED, "so leave it off"),
    ([request(1000, 601, NOISE)], Answer.UNDECIDED, "(without an interval)"),
    # Decoding loses at that depth, whether anybody reads the prompt or not.
    *(
        ([deep(draft_token_s)], Answer.OFF, f"but -{whole} % (")
        for draft_token_s, whole in ((0.004, "14"), (0.0, "5.3"))
    ),
    ([request(1000, 5, None, 0.0)], Answer.NO_DIFFERENCE, "but +0.8 % ("),
    # Several are judged together.
    (
        [request(1000, 65), request(100, 2001)],
        Answer.USE,
        "+25 % for requests of 100 + 2,001 tokens.",
    ),
    # Nothing that costs extra is no condition.
    ([request(draft_token_s=0.0)], Answer.USE, "for requests of 1,000 + 301 tokens."),
]


@pytest.mark.parametrize(("requests", "answer", "said"), VERDICTS)
def test_the_verdict_on_requests(requests: list[Request], answer: Answer, said: str) -> None:
    found = judge(GAIN, min_gain=0.02, what="X", requests=requests)
    assert (found.answer, found.use_speculation) == (answer, answer is Answer.USE)
    assert said.replace("-", MINUS) in found.reason
    assert found.more_prompts is None
    estimate, *ends = together(requests)
    off_s, on_s = sum(one.off_s for one in requests), sum(one.on_s for one in requests)
    assert estimate == pytest.approx(off_s / on_s)
    assert bool(ends) is all(one.interval is not None for one in requests)


def test_a_request_that_loses_changes_nothing_where_decoding_does() -> None:
    plain = judge(LOSS, min_gain=0.02, what="X")
    assert judge(LOSS, min_gain=0.02, what="X", requests=[request(speedup=LOSS)]) == plain


@given(st.integers(2, 4000), st.integers(2, 2000), st.floats(1.0, 1.5))
def test_use_only_where_the_requests_gain(n_prompt: int, n_answer: int, estimate: float) -> None:
    speedup = gain(estimate * 0.97, estimate, estimate * 1.03)
    one = request(n_prompt, n_answer, speedup)
    found = judge(speedup, min_gain=0.02, requests=[one])
    if found.use_speculation:
        assert one.interval is not None
        assert one.interval[0] > 1.02
    plain = judge(speedup, min_gain=0.02)
    assert not found.use_speculation or plain.use_speculation
