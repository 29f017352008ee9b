"""Every kind of n-gram drafter by its setting, and in the loop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.options.drafters import (
    NGRAMS,
    Ngram,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.speculative.counters import count
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import Drafter
from spectui.speculative.ngram import ngram_drafter
from tests.support.replay import Scene, repetitive_scenes
from tests.support.scripted import FakeClock, ScriptedTarget


def short(kind: type[Ngram], size_n: int, longest: int, n_min: int = 0) -> Ngram:
    """A drafter of any kind with other sizes than llama-server's."""
    match kind():
        case NgramSimple():
            return NgramSimple(size_n=size_n, size_m=longest)
        case NgramMapK():
            return NgramMapK(size_n=size_n, size_m=longest)
        case NgramMapK4V():
            return NgramMapK4V(size_n=size_n, size_m=longest)
        case NgramMod():
            return NgramMod(n_match=size_n, n_min=n_min, n_max=longest)
        case NgramCache():
            return NgramCache()


def loop(scene: Scene, drafter: Drafter) -> tuple[list[int], Decoder]:
    decoder = Decoder(scene.target(), drafter, n_predict=scene.n_predict, clock=FakeClock())
    output = [decoder.start(scene.prompt)]
    for finished in decoder.rounds(output[0]):
        output += finished.tokens
    return output, decoder


@settings(max_examples=150, deadline=None)
@given(
    scenes=st.lists(repetitive_scenes(), min_size=1, max_size=2),
    kind=st.sampled_from(NGRAMS),
    size_n=st.integers(1, 4),
    draft_max=st.integers(1, 9),
    n_min=st.integers(0, 3),
)
def test_the_output_is_the_targets(
    scenes: list[Scene], kind: type[Ngram], size_n: int, draft_max: int, n_min: int
) -> None:
    drafting = short(kind, size_n, draft_max, n_min)
    drafter = ngram_drafter(drafting)
    for scene in scenes:
        plain, plain_decoder = loop(scene, Drafter())
        output, decoder = loop(scene, drafter)
        assert output == plain
        assert decoder.stop is plain_decoder.stop


@pytest.mark.parametrize("kind", NGRAMS)
def test_every_kind_drafts_what_repeats(kind: type[Ngram]) -> None:
    prompt = tuple(1 + place % 5 for place in range(30))
    target = ScriptedTarget(200, lambda prefix: 1 + len(prefix) % 5)
    drafter = ngram_drafter(short(kind, 2, 4))
    decoder = Decoder(target, drafter, n_predict=41, clock=FakeClock())
    counters = count(decoder.rounds(decoder.start(prompt)))
    assert counters.n_drafted == counters.n_accepted > 0
    assert (counters.n_steps, counters.chain_s) == (0, 0.0)
    assert counters.times.draft_s > 0


TEXT = (9, *(1, 2, 3, 4, 5, 6, 7, 8) * 2, 1)


@pytest.mark.parametrize(
    ("config", "drafted"),
    [
        (NgramSimple(size_n=3, size_m=2), ()),
        (NgramMapK(size_n=2, size_m=2, min_hits=2), (3, 4)),
        (NgramMapK4V(size_n=2, size_m=2, min_hits=2), ()),
        (NgramMod(n_match=2, n_min=9, n_max=2), (3, 4)),
        (NgramMod(), ()),
        (NgramCache(), (3, 4, 5, 6, 7, 8, 1, 2)),
    ],
)
def test_a_kind_takes_its_own_settings(config: Ngram, drafted: tuple[int, ...]) -> None:
    drafter = ngram_drafter(config)
    drafter.begin(TEXT)
    assert drafter.draft(2, 99).tokens == drafted


def played(drafter: Drafter, last: int, n_accepted: int) -> tuple[int, ...]:
    """One round: what was drafted, of which ``n_accepted`` tokens are accepted."""
    drafted = drafter.draft(last, 99).tokens
    drafter.verified((last, *drafted))
    if drafted:
        drafter.judged(n_accepted)
    drafter.accept(n_accepted)
    return drafted


def test_what_is_remembered_of_the_last_turn_is_so_only_in_a_chat() -> None:
    """Maps remember lengths of drafts, and tables the tokens."""
    for kind, prompt, said, alone, chatting in (
        (NgramMapK, (*TEXT, 2, 3), (1,), (3, 4), (3,)),
        (NgramMapK4V, (*TEXT, 2, 3), (1,), (3, 4), (3,)),
        (NgramMod, (0, 0, 1), (), (), (3, 4)),
        (NgramCache, (0, 0, 1), (), (), (3, 4)),
    ):
        config = short(kind, 2, 2)
        first = ngram_drafter(config)
        first.begin(TEXT)
        assert played(first, 2, 1)[:2] == (3, 4)
        for drafter, drafted in ((ngram_drafter(config), alone), (first, chatting)):
            drafter.begin(prompt)
            for token in said:
                drafter.verified((token,))
                drafter.accept(0)
            assert drafter.draft(2, 2).tokens == drafted
