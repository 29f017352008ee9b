"""Rules of draft length on recorded text, and the bound that none of them can beat."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.options.drafters import MTP_KIND, DraftSimple
from spectui.trace.costs import Prices
from spectui.trace.policies import (
    AUTOTUNE,
    CUMULATIVE,
    RULES,
    Round,
    Rule,
    Setting,
    least_seconds,
    replay_policies,
    rounds_of,
    run_rule,
)
from spectui.trace.record import Recording, spread_out
from spectui.trace.replay import Grid, replay_grid
from tests.support.replay import COSTS, DEPTH, FLOORS, SCENE, Scene, covered, record, scenes
from tests.support.scripted import hashed_draft, hashed_target
from tests.trace.test_replay_mtp import record_mtp

pytestmark = pytest.mark.slow

GRID = Grid(
    draft_max=tuple(range(1, DEPTH + 1)),
    draft_min=(0, 1, 3),
    draft_p_min=(0.0, 0.25, 0.5, 0.75, 1.0),
)
SECONDS = st.floats(0.0, 10.0, width=16)


def fixed(setting: Setting) -> Rule:
    """Draft every round alike."""
    while True:
        yield setting


@st.composite
def prices(draw: st.DrawFn) -> Prices:
    """Longer chains and batches never cost less."""

    def rising() -> list[float]:
        return [0.0, *np.cumsum([draw(SECONDS) for _ in range(DEPTH)])]

    return Prices(
        chain=np.array(rising()),
        chain_growth=np.array(rising()) / 20,
        batch=np.array(rising()) + draw(SECONDS),
        batch_growth=np.array(rising()) / 20,
        token=draw(SECONDS),
        fixed=draw(SECONDS),
        rollback=draw(SECONDS),
        rollback_token=draw(SECONDS),
    )


@st.composite
def recorded(draw: st.DrawFn) -> tuple[Recording, str]:
    """An answer, and the name of its draft: a model, or MTP layers."""
    scene, floor = draw(scenes()), draw(FLOORS)
    if draw(st.booleans()):
        return record(scene, floor)[0], "draft"
    return record_mtp(scene, draw(st.sampled_from([1, 3])), floor)[0], MTP_KIND


@settings(max_examples=60, deadline=None)
@given(one=recorded(), prices=prices())
def test_a_fixed_rule_is_replayed_as_the_grid_and_never_beats_the_bound(
    one: tuple[Recording, str], prices: Prices
) -> None:
    recording, draft = one
    chains = recording.chains[draft]
    answer = rounds_of(recording, draft, prices)
    least_s = least_seconds(answer)
    grid = covered(GRID, chains.floor)
    replayed = replay_grid([recording], draft, grid, prices=prices)
    for index, setting in enumerate(grid.settings(mtp=False)):
        rule = fixed(Setting(setting.draft_max, setting.draft_p_min, setting.draft_min))
        seconds = run_rule([answer], rule)
        assert seconds == pytest.approx(float(replayed.whole.seconds[index]))
        assert least_s <= seconds * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(one=recorded(), prices=prices(), most=st.integers(1, DEPTH))
def test_no_rule_beats_the_bound(one: tuple[Recording, str], prices: Prices, most: int) -> None:
    recording, draft = one
    chains = recording.chains[draft]
    answer = rounds_of(recording, draft, prices)
    least_s = 2 * least_seconds(answer)
    for name, rule in RULES.items():
        p_min = chains.floor if name == AUTOTUNE else max(0.5, chains.floor)
        assert least_s <= run_rule([answer, answer], rule(most, p_min)) * (1 + 1e-9)
    grid = covered(GRID._replace(draft_max=(most,)), chains.floor)
    replayed = replay_grid([recording], draft, grid, prices=prices, cumulative=True)
    assert least_s <= 2 * replayed.whole.seconds.min() * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(one=recorded(), prices=prices())
def test_the_bound_is_the_least_of_all_sequences_of_lengths(
    one: tuple[Recording, str], prices: Prices
) -> None:
    recording, draft = one
    answer = rounds_of(recording, draft, prices)[-6:]

    @cache
    def sequences(position: int) -> tuple[float, ...]:
        """Seconds of every sequence of rounds from here on."""
        if position == len(answer):
            return (0.0,)
        here = answer[position]
        return tuple(
            here.seconds[length] + here.chain_s[length] + rest_s
            for length in range(min(here.cap, here.longest) + 1)
            for rest_s in sequences(position + here.emitted[length])
        )

    assert least_seconds(answer) == pytest.approx(min(sequences(0)))


@settings(max_examples=60, deadline=None)
@given(scene=scenes(), least=FLOORS, prices=prices(), most=st.integers(1, DEPTH))
def test_a_cumulative_floor_is_that_of_the_product(
    scene: Scene, least: float, prices: Prices, most: int
) -> None:
    """No token may be below the recording's floor: what follows one is not known."""
    recording, chains = record(scene, least)
    floors = (0.125, 0.5, 0.75)
    replayed = replay_grid(
        [recording], "draft", Grid(draft_max=(most,), draft_p_min=floors), cumulative=True
    )
    answer = rounds_of(recording, "draft", prices)
    _runs, rows = spread_out(recording.output, chains)
    for index, floor in enumerate(floors):
        n_rounds, n_drafted, position = 0, 0, 0
        while position < len(answer):
            one = answer[position]
            alone = np.array(rows[position].probabilities[:most], np.float32)
            is_sure = (np.cumprod(alone) >= floor) & (np.minimum.accumulate(alone) >= least)
            length = min(int(is_sure.sum()), one.longest)
            n_rounds, n_drafted = n_rounds + 1, n_drafted + length
            position += one.emitted[length]
        assert replayed.n_rounds[index] == n_rounds
        assert replayed.whole.drafted[index] == n_drafted


def rounds(*accepted: int, probabilities: Sequence[float] = (1.0,) * 16) -> list[Round]:
    """Rounds one after the other, each with as many tokens that a draft has right."""
    depth = len(probabilities)
    return [
        Round(
            cap=depth,
            longest=depth,
            floors=np.minimum.accumulate(probabilities)[::-1].tolist(),
            accepted=[min(length, n) for length in range(depth + 1)],
            emitted=[1] * (depth + 1),
            seconds=[1.0] * (depth + 1),
            chain_s=[0.25 * length for length in range(depth + 1)],
        )
        for n in accepted
    ]


def drafted(seconds: float, n_rounds: int) -> float:
    """Decodes of the draft's chain in rounds of those prices."""
    return (seconds - n_rounds) / 0.25


def lengths_of(name: str, *accepted: int, most: int = 16) -> list[float]:
    """Lengths of an answer's drafts with a rule."""
    answer = rounds(*accepted)
    so_far = [
        drafted(run_rule([answer[:n]], RULES[name](most, 0.0)), n) for n in range(len(answer) + 1)
    ]
    return np.diff(so_far).tolist()


def test_the_moving_average_follows_what_was_accepted() -> None:
    # 2, 3, 4; then 0.75 × 4 = 3, 0.75 × 3 + 0.25 = 2.5 and 0.75 × 2.5 = 1.875.
    assert lengths_of("--spec-draft-adaptive", 2, 3, 0, 1, 0, 0) == [2, 3, 4, 3, 3, 2]
    assert lengths_of("--spec-draft-adaptive", 9, 9, 9, 9, most=3) == [2, 3, 3, 3]


def test_the_bucket_fills_and_runs_dry() -> None:
    # 20 to go up: 2 for each draft of 3 tokens that is right. 20 to go down: 4 for each of 4.
    up_and_down = lengths_of("draft-mtp-adaptive", *[3] * 10, *[0] * 7)
    assert up_and_down == [*[3] * 10, *[4] * 5, 3, 3]
    assert set(lengths_of("draft-mtp-adaptive", *[9] * 99, most=2)) == {2}


def test_the_tiers_are_looked_at_every_five_rounds_after_ten() -> None:
    name = "SGLang's adaptive steps"
    assert lengths_of(name, *[9] * 16) == [*[5] * 15, 7]
    assert lengths_of(name, *[1] * 16) == [*[5] * 15, 3]
    assert lengths_of(name, *[0] * 16) == [*[5] * 15, 1]
    assert set(lengths_of(name, *[9] * 16, most=2)) == {1}


def test_the_tuner_finds_what_pays() -> None:
    emitting = [one._replace(emitted=[1 + n for n in one.accepted]) for one in rounds(*[16] * 9000)]
    tuner = RULES[AUTOTUNE](16, 0.3)
    # Each round emits a token more than it drafts.
    drafts = ((4000 - run_rule([emitting[:4000]], tuner)) / 0.75 for _ in range(2))
    early, late = (n_drafted / (4000 - n_drafted) for n_drafted in drafts)
    assert early > 4
    assert late > 10
    # Where nothing is accepted, the shortest draft wastes least.
    wasted = RULES[AUTOTUNE](16, 0.3)
    early, late = (run_rule([rounds(*[0] * 1000)], wasted) for _ in range(2))
    assert drafted(late, 1000) / 1000 < 3


def test_each_rule_stands_with_its_best_numbers() -> None:
    recordings = [record(scene_of(seed), floor=0.3)[0] for seed in range(3)]
    own = DraftSimple(draft_max=2, draft_p_min=0.5)
    found = replay_policies(recordings, "draft", COSTS, own)
    assert {one.rule for one in found.rules} == {*RULES, CUMULATIVE}
    seconds = [one.seconds for one in found.rules]
    assert found.least_s <= seconds[0]
    assert seconds == sorted(seconds)
    prices = COSTS.prices(DEPTH)
    answers = [rounds_of(one, "draft", prices) for one in recordings]
    tried = [
        run_rule(answers, RULES["draft-mtp-adaptive"](most, p_min))
        for most in (2, DEPTH)
        for p_min in (0.0, 0.5)
    ]
    (bucket,) = (one for one in found.rules if one.rule == "draft-mtp-adaptive")
    assert bucket.seconds == min(tried)


def test_rules_that_were_not_recorded_are_left_out() -> None:
    recordings = [record(scene_of(1), floor=2.0)[0]]
    found = replay_policies(recordings, "draft", COSTS, DraftSimple(draft_max=2))
    assert {one.rule for one in found.rules} == {*RULES}


def scene_of(seed: int) -> Scene:
    choose = hashed_target(seed)
    return replace(SCENE, choose=choose, propose=hashed_draft(choose, seed, agreement=0.7))
