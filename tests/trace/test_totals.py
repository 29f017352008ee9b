"""Replays added up over recordings."""

import math

import numpy as np
import pytest

from spectui.trace.grid import Grid, replay_grid
from spectui.trace.record import Recording
from spectui.trace.replay import replay_trace, speedup_spread
from tests.support.replay import COSTS, DEPTH, Scene, record
from tests.support.scripted import hashed_draft, hashed_target

GRID = Grid(draft_max=tuple(range(1, DEPTH + 1)), draft_p_min=tuple(np.linspace(0, 0.9, 50)))


def recordings(n: int) -> list[Recording]:
    """Answers to as many prompts."""
    scenes = (
        Scene(
            choose=hashed_target(seed),
            propose=hashed_draft(hashed_target(seed), seed, agreement=0.6),
            prompt=(1, 2, 3),
            n_ctx=64,
            n_predict=6,
            seed=None,
        )
        for seed in range(n)
    )
    return [record(scene)[0] for scene in scenes]


def test_the_spread_is_that_of_the_logarithms_of_each_settings_speedups() -> None:
    off_s = [4.0, 4.0, 2.0]
    seconds = np.array([[2.0, 4.0], [1.0, 4.0], [0.25, 2.0]])
    of_each = speedup_spread(off_s, seconds)
    # Twice, four and eight times as fast; never faster.
    assert of_each == pytest.approx([math.log(2), 0.0])
    # Recordings that decode nothing have no part in it.
    some_s = np.array([[2.0], [0.0], [1.0]])
    assert speedup_spread([4.0, 0.0, 4.0], some_s) == pytest.approx([math.log(2) / math.sqrt(2)])
    assert speedup_spread([4.0, 0.0], some_s[:2]) == pytest.approx([0.0])


def test_totals_are_the_sums_of_the_replays() -> None:
    answers = recordings(3)
    totals = replay_trace(answers, "draft", GRID, COSTS)
    prices = COSTS.prices(DEPTH)
    each = [
        replay_grid(one, one.chains["draft"], GRID, prices=prices, batches=True) for one in answers
    ]
    for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections", "n_redone"):
        wanted = sum(getattr(one, name).ravel().astype(int) for one in each)
        assert [getattr(total, name) for total in totals] == wanted.tolist()
    batches = [one.batches.reshape(DEPTH + 1, -1) for one in each if one.batches is not None]
    assert [list(total.batches) for total in totals] == np.sum(batches, axis=0).T.tolist()
    seconds = [one.seconds.ravel() for one in each if one.seconds is not None]
    assert [total.seconds for total in totals] == pytest.approx(np.sum(seconds, axis=0).tolist())
