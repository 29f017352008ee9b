"""Replays added up over recordings."""

from dataclasses import replace

import numpy as np
import pytest

from spectui.trace.record import Recording
from spectui.trace.replay import Grid, off_part_seconds, replay_grid, replay_trace
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


def test_totals_are_the_sums_of_the_replays() -> None:
    answers = recordings(3)
    totals = replay_trace(answers, "draft", GRID, COSTS)
    prices = COSTS.prices(DEPTH)
    each = [replay_grid([one], "draft", GRID, prices=prices) for one in answers]
    for name in ("n_rounds", "n_rejections", "n_redone"):
        wanted = sum(getattr(one, name).ravel().astype(int) for one in each)
        assert [getattr(total, name) for total in totals] == wanted.tolist()
    seconds = [one.whole.seconds for one in each]
    assert [total.seconds for total in totals] == pytest.approx(np.sum(seconds, axis=0).tolist())
    tokens = np.array([total.parts.tokens for total in totals])
    accepted = np.array([total.parts.accepted for total in totals])
    assert (tokens.sum(axis=2) == [one.n_decoded for one in answers]).all()
    assert accepted.sum(axis=(1, 2)).tolist() == [total.n_accepted for total in totals]
    drafted = sum(one.whole.drafted for one in each)
    assert [total.n_drafted for total in totals] == np.asarray(drafted).tolist()


def test_parts_of_off_are_those_of_the_target_alone() -> None:
    """However an answer is divided, its tokens cost what they do at their depths."""
    answers = recordings(3)
    costs = replace(COSTS, off_growth_s=0.001)
    tokens = np.array([[1, 0, 2, one.n_decoded - 3] for one in answers], dtype=float)
    found = off_part_seconds(answers, tokens, costs)
    first = len(answers[0].prompt)
    whole = [costs.off_seconds(one.n_decoded, first + (one.n_decoded - 1) / 2) for one in answers]
    assert found.sum(axis=1).tolist() == pytest.approx(whole)
    last = first + answers[0].n_decoded - 1
    assert found[0].tolist() == pytest.approx(
        [
            costs.off_seconds(1, first),
            0.0,
            costs.off_seconds(2, first + 1.5),
            costs.off_seconds(last - first - 2, (first + 3 + last) / 2),
        ]
    )
