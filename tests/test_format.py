"""Speedups and gains in figures that fit, whatever was measured."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.format import (
    duration_text,
    factor,
    gain_percent,
    percent_text,
    rate_text,
    time_text,
)
from spectui.measure.speedup import Speedup, gain_text, interval_text
from spectui.measure.verdict import judge
from spectui.secret import printable_word
from spectui.verify.comparison import verdict
from tests.support.tables import table


def speedup(estimate: float, low: float | None, high: float | None) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=6, n_prompts=6)


@table(
    ("number", "value", "text"),
    [
        # A large gain is a speedup.
        *((gain_percent, 27.4, "+27 %"), (gain_percent, -3.0, "\N{MINUS SIGN}3 %")),
        *((gain_percent, 0.2, "0 %"), (gain_percent, 999.4, "+999 %")),
        *((gain_percent, 999.6, "11.0×"), (gain_percent, 9_999_900.0, "1e+05×")),
        # A speedup has the digits that it is worth, a duration the two units that matter.
        *((factor, 1.184, "1.18"), (factor, 9.99, "9.99"), (factor, 12.34, "12.3")),
        *((factor, 446.23, "446"), (duration_text, 0.4, "0 s"), (duration_text, 59.4, "59 s")),
        *((duration_text, 59.6, "1 min 00 s"), (duration_text, 125, "2 min 05 s")),
        *(
            (time_text, 0.00099999, "1 ms"),
            (time_text, 0.99999, "1 s"),
            (time_text, 0.0152, "15.2 ms"),
        ),
        # A share of less than 1 % has a decimal, unless it is nothing.
        *((percent_text, 0.004, "0.4 %"), (percent_text, 0.0004, "0 %")),
        *((percent_text, 0.0096, "1 %"), (percent_text, 0.885, "88 %")),
        *((duration_text, 3599.7, "1 h 00 min"), (duration_text, 7500, "2 h 05 min")),
    ],
)
def test_numbers(number: Callable[..., str], value: float, text: str) -> None:
    assert (number(value, 0) if number is gain_percent else number(value)) == text


@given(gain=st.floats(-100, 1e12), value=st.floats(0, 1e12), decimals=st.integers(2, 3))
def test_no_gain_or_speedup_is_wider_than_a_column(
    gain: float, value: float, decimals: int
) -> None:
    assert len(gain_percent(gain, decimals)) <= len("+999.999 %")
    written = factor(value)
    assert len(written) <= len("10.00")
    assert float(written) == pytest.approx(value, rel=0.5, abs=0.01)


def test_an_interval_has_one_unit() -> None:
    wide = speedup(5.31, 1.2, 446.23)
    assert interval_text(wide) == "1.20× to 446×"
    assert gain_text(wide) == "5.31× (1.20× to 446×)"
    assert interval_text(speedup(1.3, 1.2, 1.4)) == "+20 to +40"
    told = verdict(speedup(1.3, 1.2, 1.4), wide)
    assert told.startswith("delivered: 5.31× (1.20× to 446×) where +30 % (+20 to +40) was promised")


def test_a_verdict_stays_readable() -> None:
    reason = judge(speedup(446.23, 440.0, 450.0), min_gain=0.02, what="it").reason
    assert reason == "Use it: it is worth 446× (95 % interval 440× to 450×, 6 prompts)."
    reason = judge(speedup(5.31, 1.2, 446.23), min_gain=0.02, what="it").reason
    assert reason == "Use it: it is worth 5.31× (95 % interval 1.20× to 446×, 6 prompts)."


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("Bob's models/a.gguf", "Bob's models/a.gguf"),
        ("llama-server -m a.gguf --api-key s3cret", "llama-server -m a.gguf --api-key '***'"),
        ("a b.gguf", "a b.gguf"),
    ],
)
def test_a_word_of_a_command_is_printed_without_secrets(word: str, shown: str) -> None:
    assert printable_word(word) == shown


@pytest.mark.parametrize(
    ("tokens_per_s", "text"),
    [(None, "–"), (0.0, "0.0"), (0.04, "0.04"), (0.1, "0.1"), (18.26, "18.3"), (412.0, "412.0")],
)
def test_a_slow_rate_has_a_digit_more(tokens_per_s: float | None, text: str) -> None:
    assert rate_text(tokens_per_s) == text
