"""Requests and depths on the command line: how they are written, and what they report."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.cli.tune_depths import depth_lines
from spectui.cli.values import RequestLengths
from spectui.known import Known
from spectui.measure.statistics import Speedup
from spectui.options.request import RequestShape
from spectui.tune.depths import Depth, Depths
from tests.tune.test_depths import items, pair_of

KIND = RequestLengths()


@given(st.integers(1, 10**9 - 1), st.integers(2, 10**9 - 1), st.sampled_from(["+", " + "]))
def test_a_request_is_a_prompt_and_an_answer(n_prompt: int, n_answer: int, plus: str) -> None:
    shape = KIND.convert(f"{n_prompt}{plus}{n_answer}", None, None)
    assert shape == RequestShape(n_prompt=n_prompt, n_answer=n_answer)
    assert KIND.convert(shape, None, None) is shape


@pytest.mark.parametrize("wrong", ["", "4096", "4096+", "+512", "4k+1", "1+2+3", "-1+5", "1.5+2"])
def test_what_is_no_request_is_refused(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 4096\\+512"):
        KIND.convert(wrong, None, None)


@pytest.mark.parametrize("wrong", ["0+5", "5+0", "5+1"])
def test_a_request_has_tokens_to_evaluate_and_to_decode(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match="the first comes with the prompt"):
        KIND.convert(wrong, None, None)


def depth(n_tokens: int, estimate: float, *, repeats_text: bool = False) -> Depth:
    return Depth(
        n_tokens=n_tokens,
        pairs=(pair_of(items()[0]),),
        speedup=Speedup(estimate=estimate, low=None, high=None, n_pairs=4, n_prompts=4),
        prompts=Known(None, "unknown"),
        repeats_text=repeats_text,
    )


def test_the_report_says_where_it_stops_paying_and_what_was_left_out() -> None:
    found = (depth(0, 1.3), depth(4096, 0.9, repeats_text=True))
    told = "\n".join(depth_lines(Depths(found=found, left_out=(16384,), min_gain=0.02)))
    # The race's own prompts have 100 tokens.
    assert "It stops paying at a depth of about 2,897" in told.replace("\n", " ")
    assert "no room for a depth of 16,384 tokens" in told
    assert "in which they repeat" in told
    assert depth_lines(Depths()) == []
