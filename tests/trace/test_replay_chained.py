"""Replay of n-gram drafters before a draft model against the loop itself."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.options.drafters import DraftSimple, NgramMapK, NgramSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, RoundEnd, count
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import ChainedDrafter, DraftModelDrafter
from spectui.speculative.ngram import ngram_drafter
from spectui.trace.ngrams import replay_settings
from tests.support.replay import COSTS, DEPTH, SCENE, Scene, record, repetitive_scenes, scenes

SIMPLE = NgramSimple(size_n=1, size_m=3)
MAP = NgramMapK(size_n=2, size_m=2)
OWN = (
    Speculation(DraftSimple(draft_max=1)),
    Speculation(DraftSimple(draft_max=4, draft_p_min=0.5)),
    Speculation(DraftSimple(draft_max=DEPTH, draft_min=2, draft_p_min=0.3)),
)
SETTINGS = tuple(own.after(ahead) for own in OWN for ahead in ((SIMPLE,), (SIMPLE, MAP)))


def run(scene: Scene, setting: Speculation) -> list[Round]:
    assert setting.model is not None
    ngrams = [ngram_drafter(one) for one in setting.ahead]
    model = DraftModelDrafter(scene.draft(), setting.model, lambda: 0.0)
    drafter = ChainedDrafter((*ngrams, model))
    decoder = Decoder(scene.target(), drafter, n_predict=scene.n_predict, clock=lambda: 0.0)
    return list(decoder.rounds(decoder.start(scene.prompt)))


@settings(max_examples=60, deadline=None)
@given(scene=repetitive_scenes() | scenes(), floor=st.sampled_from([0.0, 0.3]))
def test_every_setting_is_replayed_exactly(scene: Scene, floor: float) -> None:
    recording, _chains = record(scene, floor)
    for total in replay_settings((recording,), SETTINGS, draft="draft"):
        counted = count(run(scene, total.speculation))
        for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections"):
            assert getattr(total, name) == getattr(counted, name), (name, total.speculation)
        assert total.draft == "draft"


REPETITIVE = replace(SCENE, prompt=(1, 2, 3) * 6, n_predict=20)


def seconds(rounds: Sequence[Round]) -> float:
    """By hand, at one depth."""
    total = 0.0
    for one in rounds:
        index = COSTS.lengths.index(one.n_drafted)
        total += COSTS.verify_s[index] + COSTS.again_s[index] + COSTS.fixed_s
        total += COSTS.token_s * len(one.tokens) + COSTS.step_s * one.n_steps
        if one.end is RoundEnd.MISMATCH:
            total += COSTS.rollback_s + COSTS.rollback_token_s * one.n_accepted
    return total


def test_only_the_models_own_chains_take_a_chains_time() -> None:
    recording, _chains = record(REPETITIVE)
    n = len(COSTS.lengths)
    flat = replace(
        COSTS,
        verify_growth_s=(0.0,) * n,
        again_growth_s=(0.0,) * n,
        step_growth_s=0.0,
        off_growth_s=0.0,
    )
    setting = Speculation(DraftSimple(draft_max=2)).after((NgramSimple(size_n=1, size_m=1),))
    rounds = run(REPETITIVE, setting)
    by_ngrams = [one for one in rounds if one.n_drafted and not one.n_steps]
    by_model = [one for one in rounds if one.n_steps]
    assert by_ngrams
    assert by_model
    (total,) = replay_settings((recording,), [setting], flat, draft="draft")
    assert total.seconds == pytest.approx(seconds(rounds))


def test_a_draft_longer_than_the_trace_is_refused() -> None:
    recording, _chains = record(SCENE)
    longer = Speculation(DraftSimple(draft_max=DEPTH + 1)).after((SIMPLE,))
    with pytest.raises(ValueError, match=f"drafts of up to {DEPTH} tokens"):
        replay_settings((recording,), [longer], draft="draft")
