"""What accepted tokens can give at most, and what follows from a measurement above that."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.speedup import PairedMeasurement, Speedup, gain_text
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Answer, doubt, judge
from spectui.verify.comparison import Agreement, agreement, verdict


def pair(
    name: object, *, tokens: int, accepted: int | None, token_s: float = 0.1, speedup: float = 1.0
) -> PairedMeasurement:
    return PairedMeasurement(
        prompt_id=str(name),
        category="x",
        baseline_s=tokens * token_s,
        baseline_tokens=tokens,
        speculative_s=tokens * token_s / speedup,
        speculative_tokens=tokens,
        n_accepted=accepted,
    )


def measured(estimate: float, low: float | None, high: float | None, ceiling: float) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=8, n_prompts=8, ceiling=ceiling)


NOISE = measured(1.43, 1.14, 1.95, 1.011)


def test_prompts_that_are_alike_can_reach_tokens_over_those_not_accepted() -> None:
    found = paired_speedup([pair(n, tokens=11, accepted=n == 3) for n in range(8)])
    assert found.ceiling == pytest.approx(88 / 87)
    # An answer that ends within its draft takes a round all the same.
    assert paired_speedup([pair("p", tokens=3, accepted=7)]).ceiling == pytest.approx(3)


def test_a_dear_prompt_counts_as_much_as_it_costs() -> None:
    """A hundred thousand tokens of context make every token dear; drafts of that prompt pay."""
    pairs = [
        pair("long", tokens=100, accepted=90, token_s=0.1, speedup=8),
        pair("short", tokens=100, accepted=0, token_s=0.02),
    ]
    found = paired_speedup(pairs)
    assert found.estimate > 200 / 110
    assert found.ceiling == pytest.approx(12 / 3)
    assert not found.exceeds_ceiling(found.estimate)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 200), st.floats(0, 1), st.floats(0.001, 1.0), st.floats(1.0, 20.0)
        ),
        min_size=1,
        max_size=10,
    )
)
def test_a_machine_without_noise_never_exceeds_it(
    prompts: list[tuple[int, float, float, float]],
) -> None:
    pairs = []
    for name, (tokens, share, token_s, dearer) in enumerate(prompts):
        accepted = int(share * (tokens - 1))
        rounds = tokens - accepted
        speedup = tokens / (rounds * dearer)
        pairs.append(pair(name, tokens=tokens, accepted=accepted, token_s=token_s, speedup=speedup))
    found = paired_speedup(pairs, n_resamples=50)
    assert found.ceiling is not None
    assert found.estimate <= found.ceiling * (1 + 1e-9)


def test_no_ceiling_is_a_loss() -> None:
    """The dear prompt's answer is ten times as long with speculation: so much for throughput."""
    dear = replace(pair("dear", tokens=10, accepted=0, token_s=1.0), speculative_tokens=100)
    assert paired_speedup([dear, pair("cheap", tokens=10, accepted=0)]).ceiling == 1.0


def test_as_much_as_can_be_is_neither_above_it_nor_noise_nor_cut() -> None:
    assert not measured(1.2, 1.1, 1.3, 1.2).exceeds_ceiling(1.2)
    assert not measured(1.3, 1.2, 1.4, 1.2).is_noise
    assert not measured(1.1, 1.0, 1.2, 1.2).is_capped
    assert not measured(1.2, None, None, 1.2).is_noise
    assert not measured(1.2, None, None, 1.2).is_capped
    # A sum in another order differs in the last digit.
    assert not measured(1.2 + 1e-12, 1.2 + 1e-12, 1.2 + 1e-12, 1.2).is_capped


@pytest.mark.parametrize("accepted", [None, 0])
def test_what_is_not_known_bounds_nothing_and_nothing_accepted_is_no_gain(
    accepted: int | None,
) -> None:
    pairs = [pair(n, tokens=8, accepted=accepted, speedup=1.2) for n in range(3)]
    found = paired_speedup(pairs)
    assert found.ceiling == (None if accepted is None else pytest.approx(1.0))
    assert found.is_noise is (accepted is not None)


@pytest.mark.parametrize(
    ("speedup", "is_above", "is_noise", "said"),
    [
        (NOISE, True, True, "+1.1 % at most: this is the machine's noise"),
        (measured(1.43, None, None, 1.011), True, True, "+1.1 % at most: this is"),
        (measured(1.43, 0.98, 1.95, 1.011), True, False, "part of it is the machine's noise"),
        (measured(1.3, 1.2, 1.4, 1.5), False, False, None),
        (measured(1.2, 1.1, 1.3, 1.0), True, True, "can give 0.0 % at most: this is"),
        (measured(0.8, 0.7, 0.9, 1.0), False, False, None),
    ],
)
def test_doubts(speedup: Speedup, *, is_above: bool, is_noise: bool, said: str | None) -> None:
    assert speedup.exceeds_ceiling(speedup.estimate) is is_above
    assert speedup.is_noise is is_noise
    told = doubt(speedup)
    assert told is None if said is None else told is not None and said in told


def test_noise_advises_nothing() -> None:
    found = judge(NOISE, min_gain=0.02, what="ngram-simple")
    assert not found.use_speculation
    assert found.reason == (
        "Not decided, so leave it off: ngram-simple gives more than is possible (8 prompts); the "
        "tokens that were accepted can give +1.1 % at most: this is the machine's noise."
    )


def test_noise_leaves_open_whether_a_promise_holds() -> None:
    promised = measured(0.99, 0.87, 1.05, 1.1)
    assert agreement(promised, NOISE, None) is Agreement.OPEN
    assert agreement(NOISE, promised, None) is Agreement.OPEN
    told = verdict(promised, NOISE)
    assert "whether the promise holds is open: the tokens that were accepted can give" in told


def test_nothing_is_told_above_what_can_be_and_documents_keep_what_was_measured() -> None:
    found = measured(1.2, 1.12, 1.28, 1.136)
    told = judge(found, min_gain=0.02, what="X")
    assert told.use_speculation
    assert told.reason == (
        "Use it: X is worth +14 % (95 % interval +12 % to +14 %, 8 prompts, cut at what the "
        "accepted tokens can give)."
    )
    assert gain_text(found) == "+14 % (+12 to +14)"
    document = found.document()
    assert (document["speedup"], document["speedup_ci95"]) == (1.2, (1.12, 1.28))
    assert document["speedup_is_capped"]
    assert not measured(1.1, 1.05, 1.13, 1.136).document()["speedup_is_capped"]
    # What cannot gain is decided against.
    told = judge(measured(1.01, 0.9, 1.2, 1.0), min_gain=0.02, what="X")
    assert told.answer is Answer.OFF
    assert "cut at what the accepted tokens can give" in told.reason
