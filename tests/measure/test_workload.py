"""Prompts as tokens: each text once, and of a chosen length."""

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.driver import Engine
from spectui.errors import BadInputError
from spectui.measure.workload import WorkItem, Workload, tokenize, with_length
from spectui.options.setup import GREEDY, SamplingConfig
from spectui.prompts import Prompt
from spectui.server.client import LlamaClient

texts = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(texts=st.lists(texts, min_size=1, max_size=4), n_tokens=st.integers(1, 60))
def test_prompts_get_the_length_and_keep_their_ends(texts: list[list[int]], n_tokens: int) -> None:
    items = tuple(
        WorkItem(id=str(index), category="c", tokens=tuple(text))
        for index, text in enumerate(texts)
    )
    workload = Workload(items=items, n_predict=4, sampling=SamplingConfig(temp=0.0))
    for before, after in zip(items, with_length(workload, n_tokens).items, strict=True):
        assert (after.id, after.category) == (before.id, before.category)
        assert len(after.tokens) == n_tokens
        assert after.tokens[0] == before.tokens[0]
        n_own = min(len(before.tokens), n_tokens) - 1
        assert after.tokens[n_tokens - n_own :] == before.tokens[len(before.tokens) - n_own :]


def test_the_others_stand_before_a_prompt() -> None:
    items = (
        WorkItem(id="one", category="c", tokens=(1, 11, 12)),
        WorkItem(id="two", category="c", tokens=(2, 21, 22)),
    )
    workload = Workload(items=items, n_predict=4, sampling=SamplingConfig(temp=0.0))
    one, two = with_length(workload, 7).items
    assert one.tokens == (1, 22, 2, 21, 22, 11, 12)
    assert two.tokens == (2, 12, 1, 11, 12, 21, 22)


def workload_of(backend: str, texts: str, said: list[str]) -> Workload:
    """The letters of ``texts`` as prompts, each of which is one token."""
    prompts = [Prompt(id=f"p{n}", category="c", text=text) for n, text in enumerate(texts)]
    if backend == "engine":
        engine = SimpleNamespace(tokenize=lambda command: (ord(command.text),))
        return tokenize(
            cast("Engine", engine), prompts, n_predict=4, sampling=GREEDY, n_ctx=64, say=said.append
        )
    server = SimpleNamespace(tokenize=lambda text: (ord(text),), apply_template=None)
    return tokenize(
        cast("LlamaClient", server),
        prompts,
        n_predict=4,
        sampling=GREEDY,
        n_ctx=64,
        say=said.append,
    )


@pytest.mark.parametrize("backend", ["engine", "server"])
def test_the_same_text_counts_once(backend: str) -> None:
    said = list[str]()
    found = workload_of(backend, "aaaaaab", said)
    assert [item.id for item in found.items] == ["p0", "p6"]
    assert found.repeated == ("p1", "p2", "p3", "p4", "p5")
    assert said == ["left out, the same text as another: 5 prompts"]
    assert found.note == said[0]
    said.clear()
    assert workload_of(backend, "ab", said).note is None
    assert said == []
    with pytest.raises(BadInputError, match="no prompts"):
        workload_of(backend, "", [])
