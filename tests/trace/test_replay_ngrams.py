"""Replay of n-gram drafters against the loop itself: same counts, same seconds."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spectui.options.drafters import NgramSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, RoundEnd, count
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.models import Outputs, Rollback
from spectui.speculative.ngram import ngram_drafter
from spectui.trace.ngrams import NGRAM_COSTS, ngram_costs, replay_settings
from spectui.trace.record import Recording, without_text
from spectui.trace.replay import Total
from tests.support.replay import COSTS, SCENE, Scene, record, repetitive_scenes, scenes
from tests.support.scripted import EOG, ScriptedTarget, Stream

SETTINGS = tuple(
    Speculation(NgramSimple(size_n=n, size_m=m)) for n, m in product((1, 2, 3), (1, 2, 5, 9))
)


def run(scene: Scene, setting: Speculation) -> list[Round]:
    (own,) = setting.ngrams
    drafter = ngram_drafter(own)
    decoder = Decoder(scene.target(), drafter, n_predict=scene.n_predict, clock=lambda: 0.0)
    return list(decoder.rounds(decoder.start(scene.prompt)))


def assert_counts(total: Total, rounds: Sequence[Round]) -> None:
    counted = count(rounds)
    for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections"):
        assert getattr(total, name) == getattr(counted, name), (name, total.speculation)
    assert total.acceptance_rate == counted.acceptance_rate
    assert total.mean_accepted_length == counted.mean_accepted_length


@settings(max_examples=80, deadline=None)
@given(scene=repetitive_scenes() | scenes())
def test_every_setting_is_replayed_exactly(scene: Scene) -> None:
    recording, _chains = record(scene)
    for total in replay_settings((recording,), SETTINGS):
        assert_counts(total, run(scene, total.speculation))
        assert total.draft is None


@settings(max_examples=40, deadline=None)
@given(scene=repetitive_scenes())
def test_without_text_and_without_chains_the_replay_is_the_same(scene: Scene) -> None:
    recording, _chains = record(scene)
    bare = replace(without_text(recording), chains={})
    assert replay_settings((bare,), SETTINGS) == replay_settings((recording,), SETTINGS)


def test_recordings_add_up() -> None:
    one = record(replace(SCENE, prompt=(1, 2) * 9))[0]
    two = record(replace(SCENE, prompt=(5, 6, 7) * 6, n_predict=30))[0]
    both = replay_settings((one, two), SETTINGS, COSTS)
    firsts, seconds = (replay_settings((recording,), SETTINGS, COSTS) for recording in (one, two))
    for total, first, second in zip(both, firsts, seconds, strict=True):
        assert total.n_drafted == first.n_drafted + second.n_drafted
        assert total.n_decoded == first.n_decoded + second.n_decoded
        assert total.seconds == pytest.approx((first.seconds or 0) + (second.seconds or 0))
        assert total.off_s == pytest.approx((first.off_s or 0) + (second.off_s or 0))


def test_an_output_that_was_cut_off_is_replayed_as_if_no_more_was_wanted() -> None:
    recording = Recording(
        id="x",
        category="code",
        prompt=(0, *(1, 2, 3, 4, 5) * 4),
        output=(1, 2, 3, 4, 5, 1),
        stop=Stop.CANCELLED,
        n_predict=-1,
        n_ctx=500,
        chains={},
        rollback=Rollback.TRUNCATE,
    )
    setting = Speculation(NgramSimple(size_n=2, size_m=9))
    (total,) = replay_settings((recording,), (setting,))
    # Five tokens are left, one of them the bonus token; four may be drafted, and four there are.
    assert (total.n_rounds, total.n_drafted, total.n_accepted) == (1, 4, 4)


TARGET_S = (0.0, 8.0, 9.0, 11.0, 16.0, 17.0, 32.0, 64.0)
"""Seconds of a decode of n tokens; sums are exact in binary."""
EXACT = replace(
    COSTS,
    lengths=tuple(range(7)),
    verify_s=TARGET_S[1:],
    step_s=0.0,
    again_s=(0.0,) * 7,
    token_s=0.5,
    fixed_s=0.0,
    rollback_s=0.0,
    rollback_token_s=0.0,
    verify_growth_s=(0.0,) * 7,
    again_growth_s=(0.0,) * 7,
    step_growth_s=0.0,
    off_growth_s=0.0,
)


class PricedTarget(ScriptedTarget):
    now = 0.0

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        super().decode(tokens, outputs)
        if outputs is Outputs.ALL:
            self.now += TARGET_S[len(tokens)]

    def sample(self, output: int) -> int:
        self.now += 0.5
        return super().sample(output)


@settings(max_examples=60, deadline=None)
@given(scene=repetitive_scenes(), size_n=st.integers(1, 3), size_m=st.integers(3, 6))
def test_the_seconds_of_a_replay_are_those_of_the_loop(
    scene: Scene, size_n: int, size_m: int
) -> None:
    setting = Speculation(NgramSimple(size_n=size_n, size_m=size_m))
    scene = replace(scene, rollback=Rollback.TRUNCATE)
    recording, _chains = record(scene)
    (total,) = replay_settings((recording,), (setting,), EXACT)
    stream = None if scene.seed is None else Stream(scene.choose, scene.seed)
    target = PricedTarget(scene.n_ctx, scene.choose, eog=EOG, stream=stream)
    drafter = ngram_drafter(NgramSimple(size_n=size_n, size_m=size_m))
    decoder = Decoder(target, drafter, n_predict=scene.n_predict, clock=lambda: target.now)
    first = decoder.start(scene.prompt)
    began = target.now
    for _round in decoder.rounds(first):
        pass
    assert total.seconds == target.now - began


class RedoingTarget(PricedTarget):
    """Takes eight seconds for a decode, and one per token."""

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        ScriptedTarget.decode(self, tokens, outputs)
        if outputs is Outputs.ALL:
            self.now += 8.0 + len(tokens)


@settings(max_examples=40, deadline=None)
@given(scene=repetitive_scenes(), size_n=st.integers(1, 3), size_m=st.integers(3, 6))
def test_rounds_that_are_redone_take_another_decode_and_emit_another_token(
    scene: Scene, size_n: int, size_m: int
) -> None:
    scene = replace(scene, rollback=Rollback.CHECKPOINT, seed=None)
    setting = Speculation(NgramSimple(size_n=size_n, size_m=size_m))
    recording, _chains = record(scene)
    # The last token of a text that ends need not be decoded again.
    assume(recording.stop is not Stop.END_OF_GENERATION)
    costs = replace(EXACT, verify_s=tuple(8.0 + n for n in range(1, 8)), rollback_s=10.0)
    (total,) = replay_settings((recording,), (setting,), replace(costs, rollback_token_s=1.0))
    assert total.n_redone == total.n_rejections
    target = RedoingTarget(scene.n_ctx, scene.choose, eog=EOG, rollback=Rollback.CHECKPOINT)
    drafter = ngram_drafter(NgramSimple(size_n=size_n, size_m=size_m))
    decoder = Decoder(target, drafter, n_predict=scene.n_predict, clock=lambda: target.now)
    first = decoder.start(scene.prompt)
    began = target.now
    counted = count(decoder.rounds(first))
    assert (total.n_rounds, total.n_redone) == (counted.n_rounds, counted.n_redone)
    assert total.seconds == target.now - began


def test_the_text_grows_dearer_with_its_depth_and_rejections_cost() -> None:
    scene = replace(SCENE, prompt=(1, 2, 3) * 8, n_predict=20)
    recording, _chains = record(scene)
    setting = Speculation(NgramSimple(size_n=1, size_m=2))
    rounds = run(scene, setting)
    assert any(one.end is RoundEnd.MISMATCH for one in rounds)
    (total,) = replay_settings((recording,), (setting,), EXACT)
    (deeper,) = replay_settings(
        (recording,), (setting,), replace(EXACT, n_past=0, verify_growth_s=(0.2,) * 7)
    )
    (dearer,) = replay_settings((recording,), (setting,), replace(EXACT, rollback_s=2.0))
    assert total.seconds is not None
    assert deeper.seconds is not None
    assert deeper.seconds > 1.2 * total.seconds
    assert dearer.seconds == total.seconds + 2.0 * total.n_rejections
    (dearest,) = replay_settings((recording,), (setting,), replace(EXACT, rollback_token_s=2.0))
    n_before = sum(one.n_accepted for one in rounds if one.end is RoundEnd.MISMATCH)
    assert dearest.seconds == total.seconds + 2.0 * n_before


def test_costs_of_ngram_rounds_are_a_drafts_less_the_drafting_unless_they_were_measured() -> None:
    assert ngram_costs({}) is None
    free = ngram_costs({"draft": COSTS})
    assert free is not None
    nothing = (free.step_s, *free.again_s)
    assert set(nothing) == {0.0}
    # Lengths compare as they did, at the level of the target alone.
    shape = np.array(COSTS.verify_s) / COSTS.verify_s[0]
    assert (np.array(free.verify_s) / free.verify_s[0]).tolist() == pytest.approx(shape.tolist())
    assert free.verify_s[0] + free.token_s + free.fixed_s == pytest.approx(free.off_s)
    own = replace(COSTS, off_s=0.04)
    assert ngram_costs({"draft": COSTS, NGRAM_COSTS: own}) == own.without_draft()
    # A curve without single tokens keeps its level.
    for costs in (replace(COSTS, lengths=(1, 2, 3, 5, 7)), replace(COSTS, off_s=0.0)):
        assert costs.without_draft().verify_s == costs.verify_s


def test_a_setting_that_drafts_nothing_is_as_fast_as_the_target_alone() -> None:
    recording, _chains = record(replace(SCENE, prompt=tuple(range(1, 21)), n_predict=30))
    setting = Speculation(NgramSimple(size_n=12, size_m=12))
    costs = ngram_costs({"draft": replace(COSTS, verify_growth_s=(0.0,) * 5, off_growth_s=0.0)})
    (total,) = replay_settings((recording,), (setting,), costs)
    assert total.n_drafted == 0
    assert total.speedup == pytest.approx(1.0)
