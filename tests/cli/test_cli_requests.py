"""Requests on the command line: how they are written."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.cli.click_options import Value
from spectui.options.option import Form
from spectui.options.request import RequestShape

KIND = Value(Form.LENGTHS)


@given(st.integers(1, 10**9 - 1), st.integers(2, 10**9 - 1), st.sampled_from(["+", " + "]))
def test_a_request_is_a_prompt_and_an_answer(n_prompt: int, n_answer: int, plus: str) -> None:
    shape = KIND.convert(f"{n_prompt}{plus}{n_answer}", None, None)
    assert shape == RequestShape(n_prompt=n_prompt, n_answer=n_answer)


def test_what_is_no_request_is_refused() -> None:
    for wrong in ("", "4096", "4096+", "+512", "4k+1", "1+2+3", "-1+5", "1.5+2"):
        with pytest.raises(click.BadParameter, match="such as 4096\\+512"):
            KIND.convert(wrong, None, None)
    for wrong in ("0+5", "5+0", "5+1"):
        with pytest.raises(click.BadParameter, match="2 or more for the answer"):
            KIND.convert(wrong, None, None)
