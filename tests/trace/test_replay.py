"""Replay against the loop itself: same tokens, same counts, same seconds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.speculative.counters import Counters, Round, count
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import DraftModelDrafter
from spectui.speculative.models import Outputs, Rollback
from spectui.trace.costs import Prices
from spectui.trace.replay import Grid, replay_grid
from tests.support.replay import DEPTH, FLOORS, SCENE, Scene, covered, record, scenes
from tests.support.scripted import EOG, ScriptedDraft, ScriptedTarget, Stream

pytestmark = pytest.mark.slow

GRID = Grid(
    draft_max=tuple(range(1, DEPTH + 1)),
    draft_min=(0, 1, 2, 4),
    draft_p_min=(0.0, 0.25, 0.5, 1 / 3, 0.75, 1.0),
)


def run(scene: Scene, config: DraftSimple | DraftMtp) -> list[Round]:
    drafter = DraftModelDrafter(scene.draft(), config, lambda: 0.0)
    decoder = Decoder(scene.target(), drafter, n_predict=scene.n_predict, clock=lambda: 0.0)
    return list(decoder.rounds(decoder.start(scene.prompt)))


@settings(max_examples=60, deadline=None)
@given(scene=scenes(), floor=FLOORS)
def test_every_setting_is_replayed_exactly(scene: Scene, floor: float) -> None:
    recording, _chains = record(scene, floor)
    grid = covered(GRID, floor)
    replayed = replay_grid([recording], "draft", grid)
    for index, config in enumerate(grid.settings(mtp=False)):
        counted: Counters = count(run(scene, config))
        assert replayed.n_rounds[index] == counted.n_rounds
        assert replayed.whole.drafted[index] == counted.n_drafted
        assert replayed.whole.accepted[index] == counted.n_accepted
        assert replayed.n_rejections[index] == counted.n_rejections
        assert replayed.n_redone[index] == counted.n_redone
        assert replayed.n_steps[index] == counted.n_steps


class Wages:
    """A clock that models advance by what their decodes cost."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


TARGET_S = (0.0, 8.0, 9.0, 11.0, 16.0, 17.0, 32.0, 64.0)
DRAFT_S = (0.0, 1.0, 1.5, 2.0, 2.25, 2.5, 4.0, 4.5)
"""Seconds of a decode of n tokens; sums are exact in binary."""


ROLLBACK_S, REDONE_S = 3.0, 0.25


class PricedTarget(ScriptedTarget):
    wages: Wages

    sampled = -1
    began_at = 0

    def truncate(self, n_past: int) -> None:
        # The end of the text is forgotten even where it was drafted and right.
        if n_past < self.n_past and self.tokens[n_past] != self.sampled:
            # The token before the draft is decoded again, too, which is in the price of all.
            self.wages.now += ROLLBACK_S + REDONE_S * (n_past - self.began_at - 1)
        super().truncate(n_past)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        self.began_at = self.n_past
        super().decode(tokens, outputs)
        if outputs is Outputs.ALL:
            self.wages.now += TARGET_S[len(tokens)]

    def sample(self, output: int) -> int:
        self.wages.now += 0.5
        self.sampled = super().sample(output)
        return self.sampled


class PricedDraft(ScriptedDraft):
    wages: Wages

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        super().decode(tokens, outputs)
        self.wages.now += DRAFT_S[min(len(tokens), DEPTH + 1)]


PRICES = Prices(
    chain=DRAFT_S[1] * np.arange(DEPTH + 1.0),
    batch=np.array(TARGET_S[1:]) + np.array(DRAFT_S[1:]),
    token=0.5,
    fixed=0.0,
    rollback=ROLLBACK_S,
    rollback_token=REDONE_S,
)


@settings(max_examples=60)
@given(scene=scenes())
def test_the_seconds_of_a_replay_are_those_of_the_loop(scene: Scene) -> None:
    recording, _chains = record(replace(scene, rollback=Rollback.TRUNCATE))
    replayed = replay_grid([recording], "draft", GRID, prices=PRICES)
    for index, config in enumerate(GRID.settings(mtp=False)):
        wages = Wages()
        stream = None if scene.seed is None else Stream(scene.choose, scene.seed)
        target = PricedTarget(scene.n_ctx, scene.choose, eog=EOG, stream=stream)
        draft = PricedDraft(scene.n_ctx, scene.propose)
        target.wages = draft.wages = wages
        drafter = DraftModelDrafter(draft, config, wages)
        decoder = Decoder(target, drafter, n_predict=scene.n_predict, clock=wages)
        first = decoder.start(scene.prompt)
        began = wages.now
        total = count(decoder.rounds(first)).times.total_s
        assert total == wages.now - began
        assert replayed.whole.seconds[index] == total


def test_a_draft_longer_than_the_trace_is_refused() -> None:
    recording, _chains = record(SCENE)
    for lengths in ((DEPTH + 1,), (0, 3)):
        with pytest.raises(ValueError, match=f"drafts of up to {DEPTH} tokens"):
            replay_grid([recording], "draft", Grid(draft_max=lengths))


def test_a_floor_leaves_chains_out_and_settings_below_it_are_refused() -> None:
    lengths = {}
    for floor in (0.0, 0.3, 0.5, 2.0):
        recording, chains = record(SCENE, floor)
        lengths[floor] = sum(len(tail.tokens) for tail in chains.tails)
        replay_grid([recording], "draft", Grid(draft_max=(3,), draft_p_min=(0.0, 0.5 + floor)))
        if floor:
            with pytest.raises(ValueError, match=f"draft_p_min 0 or from {floor:g} on"):
                replay_grid([recording], "draft", Grid(draft_max=(3,), draft_p_min=(floor / 2,)))
    assert lengths[0.0] > lengths[0.3] > lengths[0.5] > lengths[2.0] == 0


def test_chains_of_another_output_are_refused() -> None:
    _recording, chains = record(SCENE)
    other, _chains = record(replace(SCENE, prompt=(5, 6, 7), n_predict=9))
    with pytest.raises(ValueError, match="another output"):
        replay_grid([replace(other, chains={"draft": chains})], "draft", GRID)
