from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Answer, Basis, Verdict, judge, undecided

MINUS = "\N{MINUS SIGN}"


def speedup(low: float, estimate: float, high: float, n: int = 16) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=n, n_prompts=n)


def verdict(low: float, estimate: float, high: float, min_gain: float = 0.02) -> Verdict:
    return judge(speedup(low, estimate, high), min_gain=min_gain)


ends = st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
intervals = ends.map(lambda values: (min(values), sorted(values)[1], max(values)))
gains = st.floats(0, 0.5)


SENTENCES = {
    (1.14, 1.18, 1.22): "Use it: the best setting found is worth +18 % ± 4 "
    "(95 % interval +14 % to +22 %, 16 prompts).",
    (1.022, 1.323, 1.724): "Use it: the best setting found is worth +32 % "
    "(95 % interval +2 % to +72 %, 16 prompts).",
    (0.74, 0.78, 0.82): "Turn it off: the best setting found gives -22 % ± 4 "
    "(95 % interval -26 % to -18 %, 16 prompts).",
    (0.98, 1.01, 1.04): "Not decided, so leave it off: the best setting found gives +1.0 % ± 3.0 "
    "(95 % interval -2.0 % to +4.0 %, 16 prompts); "
    "about 126 more prompts may show whether it gains 2 %.",
    (0.97, 0.99, 1.01): "Turn it off: the best setting found gives -1.0 % ± 2.0 "
    "(95 % interval -3.0 % to +1.0 %, 16 prompts).",
    (1.01, 1.04, 1.07): "Not decided, so leave it off: the best setting found gives +4.0 % ± 3.0 "
    "(95 % interval +1.0 % to +7.0 %, 16 prompts); "
    "about 21 more prompts may show whether it gains 2 %.",
    (0.94, 1.018, 1.09): "Not decided, so leave it off: the best setting found gives +1.8 % ± 7.5 "
    "(95 % interval -6.0 % to +9.0 %, 16 prompts); "
    "no reasonable number of prompts would show whether it gains 2 %.",
    (1.005, 1.01, 1.015): "Leave it off: no difference worth having: the best setting found gives "
    "+1.0 % ± 0.5 (95 % interval +0.5 % to +1.5 %, 16 prompts).",
    (0.989, 0.996, 1.005): "Leave it off: no difference worth having: the best setting found gives "
    "-0.4 % ± 0.8 (95 % interval -1.1 % to +0.5 %, 16 prompts).",
}


@pytest.mark.parametrize(("interval", "reason"), SENTENCES.items())
def test_sentences(interval: tuple[float, float, float], reason: str) -> None:
    result = verdict(*interval)
    assert result.reason == reason.replace("-", MINUS)
    assert result.use_speculation is reason.startswith("Use it")


def test_the_sentence_names_the_setting() -> None:
    result = judge(speedup(1.1, 1.2, 1.3, n=1), min_gain=0, what="small.gguf with draft_max 8")
    assert result.reason == (
        "Use it: small.gguf with draft_max 8 is worth +20 % ± 10 "
        "(95 % interval +10 % to +30 %, 1 prompt)."
    )
    assert verdict(0.9, 1.0, 1.1, min_gain=0).reason.endswith("whether it gains anything.")


def test_counted_prompts_that_were_timed_are_named() -> None:
    counted = replace(speedup(1.14, 1.18, 1.22, n=48), n_timed=8)
    result = judge(counted, min_gain=0.02, basis=Basis.CROSSED, temp=0.0)
    assert "48 prompts, 8 of them timed, greedy)." in result.reason
    assert (
        "6 prompts, greedy)"
        in judge(replace(counted, n_prompts=6, n_timed=6), min_gain=0.02, temp=0.0).reason
    )


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (
            replace(speedup(0.95, 1.18, 1.4, n=6), n_accepting=4),
            "6 prompts cannot tell what others gain.",
        ),
        (speedup(0.95, 1.18, 1.4), "Other prompts like these gain -5 % to +40 %."),
        (
            replace(speedup(0.95, 1.18, 1.4, n=3), low=None),
            "3 prompts cannot tell what others gain.",
        ),
        (
            replace(speedup(0.95, 1.18, 1.4, n=1), low=None),
            "1 prompt cannot tell what others gain.",
        ),
    ],
)
def test_the_answer_for_a_few_prompts_says_what_others_gain(others: Speedup, told: str) -> None:
    these = speedup(1.14, 1.18, 1.22, n=others.n_prompts)
    result = judge(these, min_gain=0.02, basis=Basis.THESE, others=others)
    assert result.answer is Answer.USE
    assert result.reason.endswith(f"). {told.replace('-', MINUS)}")
    n = others.n_prompts
    assert f"{'this prompt' if n == 1 else f'these {n} prompts'})." in result.reason


def test_prompts_that_hardly_ever_gain_say_little_of_others() -> None:
    """Where one prompt in twenty gains much, 24 may hold none of those."""
    for ends in ((0.99, 1.0, 1.01), (0.9, 0.92, 0.94)):
        rare = replace(speedup(*ends, n=24), n_accepting=4)
        result = judge(rare, min_gain=0.02, basis=Basis.CROSSED)
        assert result.answer is Answer.UNDECIDED
        assert "drafts were accepted on 4 of 24 prompts, too few to say" in result.reason
        assert judge(replace(rare, n_accepting=5), min_gain=0.02).answer is not Answer.UNDECIDED
        # Of just these prompts it says all.
        of_these = judge(rare, min_gain=0.02, basis=Basis.THESE)
        assert of_these.answer in {Answer.OFF, Answer.NO_DIFFERENCE}
    assert judge(replace(speedup(1.1, 1.2, 1.3), n_accepting=3), min_gain=0.02).use_speculation


def test_nothing_could_run() -> None:
    result = undecided("small.gguf: vocabularies differ")
    assert result == Verdict(
        use_speculation=False,
        reason="Nothing was decided: no setting was confirmed (small.gguf: vocabularies differ).",
        answer=Answer.UNDECIDED,
    )


def test_no_interval_is_no_decision() -> None:
    unknown = Speedup(
        estimate=1.5, low=None, high=None, n_pairs=2, n_prompts=1, interval_reason="too few"
    )
    result = judge(unknown, min_gain=0.02)
    assert result.use_speculation is False
    assert result.reason == (
        "Not decided, so leave it off: the best setting found gives +50 % (1 prompt); too few."
    )


ANSWERS = {
    (1.03, 1.05, 1.08): Answer.USE,
    (0.8, 0.9, 0.97): Answer.OFF,
    (0.9, 0.95, 1.01): Answer.OFF,
    (0.985, 0.99, 0.995): Answer.NO_DIFFERENCE,
    (0.98, 1.0, 1.02): Answer.NO_DIFFERENCE,
    (0.99, 1.01, 1.021): Answer.UNDECIDED,
    (1.02, 1.05, 1.08): Answer.UNDECIDED,
}


def test_answers() -> None:
    for interval, answer in ANSWERS.items():
        found = verdict(*interval)
        assert found.answer is answer
        document = found.document()
        assert document["answer"] == answer.value
        assert document["use_speculation"] is (answer is Answer.USE)
        assert (document["more_prompts"] is None) is ("more_prompts_reason" in document)


def test_what_a_decision_would_take_follows_from_the_width() -> None:
    # The lower end has to come three times nearer: nine times the prompts, sixteen of them are in.
    found = judge(speedup(1.02 * 1.01 / 1.01**3, 1.02 * 1.01, 1.1), min_gain=0.02)
    assert found.more_prompts in {128, 129}
    assert found.reason.endswith(" more prompts may show whether it gains 2 %.")


def test_prompts_that_chose_recommend_nothing() -> None:
    same = judge(speedup(1.1, 1.2, 1.3, n=6), min_gain=0.02, basis=Basis.SAME)
    assert (same.use_speculation, same.answer) == (False, Answer.UNDECIDED)
    assert (
        "+20 % ± 10 (95 % interval +10 % to +30 %, 6 prompts); these prompts chose it"
        in same.reason
    )


@given(interval=intervals, min_gain=gains)
def test_the_lower_end_alone_decides(interval: tuple[float, float, float], min_gain: float) -> None:
    result = verdict(*interval, min_gain=min_gain)
    assert result.use_speculation is (interval[0] > 1 + min_gain)
    assert result.reason.startswith("Use it") is result.use_speculation


@given(interval=intervals, n=st.integers(2, 200))
def test_the_sentence_contains_the_numbers(interval: tuple[float, float, float], n: int) -> None:
    reason = judge(speedup(*interval, n=n), min_gain=0.02).reason
    assert reason.endswith(".")
    assert reason.count("\n") == 0
    assert f"{n} prompts" in reason
    for end in (interval[0], interval[2]):
        printed = {f"{abs(100 * (end - 1)):.{decimals}f} %" for decimals in range(2)}
        assert any(number in reason for number in printed)


@pytest.mark.parametrize(
    ("temp", "named"),
    [(None, ""), (0.0, ", greedy"), (-1.0, ", greedy"), (0.8, ", temperature 0.8")],
)
def test_the_temperature_of_the_measurement_is_named(temp: float | None, named: str) -> None:
    found = judge(speedup(1.14, 1.18, 1.22), min_gain=0.02, temp=temp)
    assert found.reason.endswith(f"16 prompts{named}).")
