"""Grids: the cells that come of lists of values, and in which order."""

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.options.drafters import NgramMod
from spectui.sweep.cells import Cell, Place
from spectui.sweep.grid import Axes, expand, ordered
from tests.support.sweep import PLACE, TASK, axes, cell, ngram_cell

DRAFTS = {"small": "draft-simple", "smaller": "draft-simple"}
SMALL = {"small": "draft-simple"}


def expanded(asked: Axes, drafts: Mapping[str, str] = DRAFTS) -> tuple[list[Cell], tuple[str, ...]]:
    """The cells, and what is left out."""
    cells, left_out = expand(asked, drafts, PLACE, TASK)
    return list(cells), left_out


def test_every_combination_is_a_cell() -> None:
    asked = axes(draft_max=(2, 4), draft_p_min=(0.0, 0.5), temp=(0.0, 0.7), n_slots=(1, 4))
    cells, _left_out = expanded(asked)
    assert len(cells) == len(set(cells)) == 2 * 2 * 2 * 2 * 2
    assert {one.task.temp for one in cells} == {0.0, 0.7}
    assert {one.place.n_slots for one in cells} == {1, 4}


def test_alternatives_of_drafters_have_their_own_options() -> None:
    asked = axes(
        drafters=(("ngram-mod",), ("ngram-simple", "draft-simple")),
        draft_max=(4, 8),
        spec_ngram_mod_n_match=(16, 24),
    )
    assert [one.arm.drafter for one in expanded(asked, SMALL)[0]] == [
        "ngram-mod",
        "ngram-mod",
        "ngram-simple + small",
        "ngram-simple + small",
    ]


@pytest.mark.parametrize(
    ("asked", "n_cells", "told"),
    [
        (
            axes(draft_max=(4, 64), draft_min=(0, 48)),
            3,
            "--draft-min 48 is above --draft-max 4, so every draft would be dropped",
        ),
        (
            axes(drafters=(("draft-simple", "draft-mtp"),)),
            0,
            "--spec-type draft-simple,draft-mtp: llama-server has one draft context",
        ),
    ],
)
def test_what_cannot_draft_is_left_out_and_told(asked: Axes, n_cells: int, told: str) -> None:
    cells, left_out = expanded(asked, SMALL)
    assert (len(cells), left_out) == (n_cells, (told,))


def test_drafts_of_other_kinds_draft_as_their_files_do() -> None:
    drafts = {**DRAFTS, "smaller": "draft-eagle3"}
    found = expanded(axes(draft_max=(4,)), drafts)[0]
    assert [one.speculation.own.kind for one in found] == ["draft-simple", "draft-eagle3"]
    asked = axes(drafters=(("draft-eagle3",), ("draft-simple",)))
    cells, left_out = expanded(asked, drafts)
    assert [one.arm.draft for one in cells] == ["smaller", "small"]
    assert len(left_out) == 2


def test_mtp_layers_are_the_targets_own_or_those_of_a_file() -> None:
    asked = axes(drafters=(("draft-mtp",),))
    assert [one.own_mtp for one in expanded(asked)[0]] == [True]
    (of_file,), left_out = expanded(asked, {"layers": "draft-mtp", **SMALL})
    assert (of_file.arm.draft, of_file.mtp, of_file.own_mtp) == ("layers", True, False)
    assert left_out == ("small drafts as draft-simple, and not as draft-mtp",)


places = st.builds(
    Place, threads=st.integers(1, 3), cache_type_k=st.just("f16"), cache_type_v=st.just("f16")
)
cells = st.one_of(
    st.builds(cell, st.integers(1, 5), draft=st.sampled_from(list(DRAFTS)), place=places),
    st.just(ngram_cell(NgramMod)),
)


@given(
    found=st.lists(cells, min_size=1, max_size=30),
    seed=st.integers(0, 9),
    repeats=st.integers(1, 3),
)
def test_every_cell_is_visited_once_per_repeat_with_few_loads(
    found: list[Cell], seed: int, repeats: int
) -> None:
    unique = set(found)
    visits = ordered(found, repeats, seed)
    assert len(visits) == len(set(visits)) == repeats * len(unique)
    assert ordered(reversed(found), repeats, seed) == visits
    n_places = len({one.place for one in unique})
    for repeat in range(repeats):
        one_pass = visits[repeat * len(unique) : (repeat + 1) * len(unique)]
        assert {visit.cell for visit in one_pass} == unique
        assert len([*itertools.groupby(one_pass, lambda visit: visit.cell.place)]) == n_places
        for place in {one.place for one in unique}:
            there = [
                v.cell.arm.draft for v in one_pass if v.cell.place == place and v.cell.arm.draft
            ]
            changes = sum(a != b for a, b in itertools.pairwise(there))
            assert changes <= max(0, len(set(there)) - 1)
