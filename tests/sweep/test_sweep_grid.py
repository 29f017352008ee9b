"""Grids: what their files may say, the cells that come of them, and in which order."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.options.drafters import NgramMod
from spectui.sweep.cells import Cell, Place
from spectui.sweep.expand import expand, n_loads, ordered
from spectui.sweep.grid import Axes, find_grid, shipped_grids
from tests.support.sweep import DEFAULT, cell, ngram_cell, off_cell

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

DRAFTS = {"small": "draft-simple", "smaller": "draft-simple"}
SMALL = {"small": "draft-simple"}


def expanded(
    axes: Sequence[Axes], drafts: Mapping[str, str] = DRAFTS
) -> tuple[list[Cell], tuple[str, ...]]:
    """The cells, and what is left out."""
    names, left_out = expand(axes, drafts, DEFAULT)
    return list(names), left_out


def test_every_combination_is_a_cell_and_off_is_added() -> None:
    cells, _left_out = expanded([Axes(draft_max=(2, 4), draft_p_min=(0.0, 0.5), temp=(0.0, 0.7))])
    assert len(cells) == len(set(cells)) == 2 + 2 * 2 * 2 * 2
    assert [one.task.temp for one in cells if one.arm.is_off] == [0.0, 0.7]


def test_alternatives_of_drafters_have_their_own_options() -> None:
    axes = Axes(
        spec_type=("ngram-mod", "ngram-simple,draft-simple"),
        draft=(1,),
        draft_max=(4, 8),
        spec_ngram_mod_n_match=(16, 24),
    )
    assert [one.arm.drafter for one in expanded([axes])[0]] == [
        "off",
        "ngram-mod",
        "ngram-mod",
        "ngram-simple + small",
        "ngram-simple + small",
    ]


LEFT_OUT = [
    (
        Axes(draft=(1,), draft_max=(4, 64), draft_min=(0, 48)),
        1 + 3,
        "draft-min 48 is above draft-max 4, so every draft would be dropped",
    ),
    (Axes(name="second", draft=(2,)), 0, "second is for draft 2, and 1 given"),
]


@pytest.mark.parametrize(("axes", "n_cells", "told"), LEFT_OUT)
def test_what_cannot_draft_is_left_out_and_told(axes: Axes, n_cells: int, told: str) -> None:
    cells, left_out = expanded([axes], SMALL)
    assert (len(cells), left_out) == (n_cells, (told,))


def test_equal_cells_of_several_entries_are_one_unless_they_are_reruns() -> None:
    entries = [
        Axes(name=name, draft=(1,), rerun=rerun)
        for name, rerun in zip("abc", (0, 0, 1), strict=True)
    ]
    names, left_out = expand(entries, DRAFTS, DEFAULT)
    assert [(name, one.rerun) for one, name in names.items()] == [("off", 0), ("a", 0), ("c", 1)]
    assert left_out == ("b is the same as a (a rerun would measure it again)",)


def test_drafts_of_other_kinds_draft_as_their_files_do() -> None:
    drafts = {**DRAFTS, "smaller": "draft-eagle3"}
    speculations = [one.speculation for one in expanded([Axes(draft_max=(4,))], drafts)[0]]
    assert [one.own.kind for one in speculations if one] == ["draft-simple", "draft-eagle3"]
    cells, left_out = expanded([Axes(spec_type=("draft-eagle3", "draft-simple"))], drafts)
    assert [one.arm.draft for one in cells] == [None, "smaller", "small"]
    assert len(left_out) == 2


def test_axes_of_the_command_line_replace_those_of_an_entry() -> None:
    entry = Axes(draft=(1,), draft_max=(2, 4), temp=(0.5,))
    assert entry.with_typed({"draft_max": (8,)}) == Axes(draft=(1,), draft_max=(8,), temp=(0.5,))
    other = entry.with_typed({"spec_type": ("ngram-mod",), "spec_ngram_mod_n_match": (16,)})
    assert other == Axes(spec_type=("ngram-mod",), spec_ngram_mod_n_match=(16,), temp=(0.5,))
    assert entry.with_typed({"spec_ngram_mod_n_match": (16,)}) == entry


def test_names_tell_values_and_settings_where_several_have_the_same() -> None:
    asked = Axes(
        name="max {draft-max} at {draft-p-min}", draft=(1,), draft_max=(4,), draft_p_min=(0.5,)
    )
    same = Axes(name="mine", draft=(1,), draft_max=(2, 4), temp=(0.0, 1.0))
    names = [set(expand([axes], DRAFTS, DEFAULT)[0].values()) for axes in (asked, same)]
    assert names[0] == {"off", "max 4 at 0.5"}
    several = {f"mine (small: max {n}, min 0, p_min 0.00)" for n in (2, 4)}
    assert names[1] == {"off", *several}


def test_cache_types_go_along_with_one_another() -> None:
    axes = Axes(draft=(1,), cache_type_k=("f16", "q8_0"), cache_type_v=("f16", "q8_0"))
    places = {one.place for one in expanded([axes])[0]}
    assert {(one.cache_type_k, one.cache_type_v) for one in places} == {
        ("f16", "f16"),
        ("q8_0", "q8_0"),
    }


@pytest.mark.parametrize("grid", shipped_grids(), ids=lambda grid: grid.name)
def test_shipped_grids_expand_with_one_draft_and_with_two(grid: object) -> None:
    found = find_grid(getattr(grid, "name", ""))
    for drafts in (DRAFTS, SMALL):
        names, _left_out = expand(found.cells, drafts, DEFAULT)
        assert any(not one.arm.is_off for one in names)
        assert any(one.arm.is_off for one in names)
        assert "{" not in "".join(names.values())
    assert not expanded(found.cells)[1]
    assert found.name != "notes-19" or len(expanded(found.cells)[0]) == 19


MALFORMED = [
    ("[[cells]]\ndraft-mx = [4]", "draft-mx"),
    ("cells = []", "an empty list"),
    ('description = "x"', "cells"),
    ("[[cells]]\ndraft-max = [0]", ">= 1"),
    ('[[cells]]\nspec-type = ["ngram-modd"]', "ngram-modd"),
    ('[[cells]]\nspec-type = ["draft-simple,draft-eagle3"]', "one draft context"),
    ('[[cells]]\nspec-type = ["none,ngram-mod"]', "none"),
    ('[[cells]]\nspec-type = ["ngram-mod"]\ndraft-max = [4]', "draft-max is an option of"),
    ('[[cells]]\ncache-type-k = ["f17"]', "'f17' is no type of a cache; there are f32, f16"),
    ('[[cells]]\nname = "\\u001b[31m"', "cannot be printed"),
    ('[[cells]]\nname = "a\\nb"', "cannot be printed"),
    ('description = "\\u001b[31m"\n[[cells]]', "cannot be printed"),
    (
        "[[cells]]\n[[cells]]\ndraft-max = []",
        "an empty list - at `$.cells[1].draft-max`; leave it out",
    ),
    *(("[[cells]]\nwarp = [4]", one.encode_name) for one in msgspec.structs.fields(Axes)),
    ("[[cells]", "not valid TOML"),
    ("a = \xff", "not valid TOML"),
]


def test_a_malformed_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text, told in MALFORMED:
        whole = text if "description" in text else f'description = "x"\n{text}'
        path.write_bytes(whole.encode("latin-1"))
        with pytest.raises(BadInputError) as caught:
            find_grid(str(path))
        assert str(path) in str(caught.value)
        assert told in str(caught.value)


def test_own_grids_lie_in_the_configuration_folder(home: Path) -> None:
    folder = home / "config" / "grids"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('description = "x"\n[[cells]]\ndraft-max = [4]')
    assert find_grid("mine").cells[0].draft_max == (4,)
    with pytest.raises(BadInputError, match="mine, notes-19"):
        find_grid("yours")


places = st.builds(
    Place, threads=st.integers(1, 3), cache_type_k=st.just("f16"), cache_type_v=st.just("f16")
)
cells = st.one_of(
    st.builds(cell, st.integers(1, 5), draft=st.sampled_from(list(DRAFTS)), place=places),
    st.builds(off_cell, places),
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
        assert n_loads(one_pass) == n_places
        for place in {one.place for one in unique}:
            there = [
                v.cell.arm.draft for v in one_pass if v.cell.place == place and v.cell.arm.draft
            ]
            changes = sum(a != b for a, b in itertools.pairwise(there))
            assert changes <= max(0, len(set(there)) - 1)
