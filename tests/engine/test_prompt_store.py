"""Which caches of prompts are kept where memory does not do for all."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.prompt_store import PromptStore, Tokens
from spectui.llama.context import Context
from spectui.llama.pair import DraftContext, TargetContext
from spectui.speculative.models import Outputs
from tests.support.cli import Spectui
from tests.support.engine import have_models_here

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

N_LOGITS_BYTES = 4
N_PREDICT = 12
"""Tokens of an answer, which fresh text is made of, as ``pair`` asks for."""


class Cached(Context):
    """A context whose state has a size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: Tokens = ()

    @property
    def state_bytes(self) -> int:
        return self.size

    def save(self) -> bytes:
        return bytes(self.size)

    def restore(self, state: bytes, tokens: Sequence[int]) -> None:
        assert len(state) == self.size
        self.held = tuple(tokens)

    def logits(self, output: int) -> np.ndarray:
        assert output == 0
        return np.zeros(1, np.float32)


class Target(Cached, TargetContext):
    """A target's, which has logits as well."""


class Draft(Cached, DraftContext):
    """A draft's."""


class Asked:
    """A store that is asked as a generation does, with and without a draft."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.store = PromptStore(lambda: self.capacity - self.store.n_bytes)

    def generate(self, prompt: Tokens, size: int, draft_size: int | None = None) -> bool:
        """Whether the target's cache was there."""
        target, draft = Target(size - N_LOGITS_BYTES), Draft(draft_size or 0)
        is_known = draft_size is not None and self.store.restore((draft,), prompt)
        hit = self.store.restore((target,), prompt)
        assert target.held == (prompt if hit else ())
        if not hit:
            self.store.keep(target, prompt)
        if draft_size is not None and not is_known:
            self.store.keep(draft, prompt)
        assert self.store.n_bytes <= max(self.capacity, 0)
        return hit

    def hits(self, prompts: Iterable[int], size: int = 100) -> list[int]:
        return [one for one in prompts if self.generate((one,), size)]


@given(
    n_kept=st.integers(0, 8),
    more=st.integers(0, 8),
    spare=st.integers(0, 99),
    seed=st.none() | st.integers(0, 1000),
    repeats=st.integers(1, 3),
)
def test_as_many_as_fit_are_met_in_every_pass_whatever_its_order(
    n_kept: int, more: int, spare: int, seed: int | None, repeats: int
) -> None:
    asked, prompts = Asked(100 * n_kept + spare), list(range(n_kept + more))
    dice = random.Random(seed)  # noqa: S311 - a test needs no secrets
    kept: list[int] | None = None
    for _ in range(4):
        if seed is not None:
            dice.shuffle(prompts)
        # As off and on, one after the other.
        in_a_row = [one for one in prompts for _ in range(repeats)]
        hits = sorted(set(asked.hits(in_a_row)))
        if kept is not None:
            assert hits == kept
        kept = sorted({one for one in prompts if asked.generate((one,), 100)})
        assert len(kept) == n_kept


def test_what_is_too_large_makes_no_room() -> None:
    asked = Asked(600)
    asked.hits(range(6))
    for _ in range(5):
        assert not asked.generate((99,), 2000)
        assert asked.hits(range(6)) == list(range(6))


def test_caches_of_another_draft_are_forgotten() -> None:
    asked = Asked(1000)
    for prompt in range(4):
        asked.generate((prompt,), 100, draft_size=30)
    assert asked.store.n_bytes == 520
    asked.store.forget(Draft)
    assert asked.store.n_bytes == 400
    assert asked.hits(range(4)) == list(range(4))


def test_what_others_need_is_given_back_and_the_rest_is_still_met() -> None:
    asked = Asked(800)
    asked.hits(range(8))
    asked.capacity = 500
    assert asked.hits(range(8)) == [0, 1, 2, 3, 4]
    asked.capacity = 0
    assert asked.hits(range(8)) == []
    asked.capacity = 800
    asked.hits(range(8))
    assert asked.hits(range(8)) == list(range(8))
    asked.store.clear()
    assert asked.store.n_bytes == 0


asks = st.tuples(st.integers(0, 6), st.booleans(), st.none() | st.integers(0, 700))


@given(st.lists(asks, max_size=60))
def test_never_more_than_there_is_room_for_and_what_is_met_stays(
    requests: list[tuple[int, bool, int | None]],
) -> None:
    asked = Asked(500)
    for prompt, drafts, capacity in requests:
        if capacity is not None:
            asked.capacity = capacity
        size, draft_size = 60 + 20 * prompt, 10 + prompt if drafts else None
        hit = asked.generate((prompt,), size, draft_size)
        before = asked.store.n_bytes
        assert asked.generate((prompt,), size, draft_size) >= hit
        assert asked.store.n_bytes == before


@pytest.mark.ci
def test_tune_evaluates_once_what_fits_of_eight_long_prompts(
    spectui: Spectui, pair: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: Counter[Tokens] = Counter()
    decode = TargetContext.decode

    def counted(target: TargetContext, tokens: Sequence[int], outputs: Outputs) -> None:
        decode(target, tokens, outputs)
        # Answers are decoded with all outputs; two tokens are decoded as soon as it is loaded.
        if outputs is Outputs.LAST and len(tokens) > 2:
            evaluated[tuple(tokens)] += 1

    have_models_here(monkeypatch)
    monkeypatch.setattr(TargetContext, "decode", counted)
    words = ("the rain on the other tin", "and then all in one ring", "to the other one", "there")
    texts = (" ".join([one, *words * 40]) for one in "abcdefgh")
    rows = ({"id": str(n), "category": "x", "prompt": text} for n, text in enumerate(texts))
    prompts = tmp_path / "long.jsonl"
    prompts.write_text("\n".join(map(json.dumps, rows)))
    code = spectui(
        *("tune", *pair, "-c", 2048, "--prompts", prompts, "--trials", 3),
        *("--quiet", "--ignore-eos"),
    )
    assert code == 0, spectui.err
    # All are recorded, and some of them timed.
    long = {tokens: n for tokens, n in evaluated.items() if len(tokens) > 1000}
    assert len(long) == 8
    assert min(map(len, long)) > 1500
    assert set(long.values()) == {1}
    n_read = sum(len(tokens) * n for tokens, n in evaluated.items())
    assert n_read == sum(map(len, long))
