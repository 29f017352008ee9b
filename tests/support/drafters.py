"""Drafters and ways of drafting with any numbers that they take."""

from typing import TypeVar

from hypothesis import strategies as st

from spectui.options.drafters import (
    DRAFTERS,
    NGRAMS,
    DrafterOptions,
    DrafterSetting,
    Ngram,
    numbers_of,
)
from spectui.options.option import Number
from spectui.options.speculation import Speculation


def values_of(number: Number) -> st.SearchStrategy[float]:
    if number.type is int:
        return st.integers(int(number.low), int(number.high))
    return st.floats(number.low, number.high)


T = TypeVar("T", bound=DrafterOptions)


def settings_of(drafter: type[T]) -> st.SearchStrategy[T]:
    return st.builds(drafter, **{one.name: values_of(one) for one in numbers_of(drafter)})


@st.composite
def speculations(draw: st.DrawFn) -> Speculation:
    kinds = draw(st.lists(st.sampled_from(NGRAMS), unique=True, max_size=3))
    ahead: list[Ngram] = []
    for one in NGRAMS:
        if one in kinds:
            ahead.append(draw(settings_of(one)))  # noqa: PERF401 - mypy joins the kinds otherwise
    own: type[DrafterSetting] = draw(st.sampled_from(DRAFTERS))
    return Speculation(draw(settings_of(own)), tuple(ahead))
