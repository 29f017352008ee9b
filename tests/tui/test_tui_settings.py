"""The settings form knows every drafter: it shows what each has, and changes nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.widgets import Input

from spectui.engine.events import EngineFailed
from spectui.errors import BadInputError
from spectui.live.setup import LiveSetup, Pair
from spectui.options.drafters import (
    DraftMtp,
    DraftSimple,
    NgramCache,
    NgramMapK,
    NgramMod,
    NgramSimple,
)
from spectui.options.speculation import Speculation
from spectui.tui.widgets import ChoiceRow, StatusBar
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    handled,
    launch,
    press_keys,
    ready,
    setup,
    setup_of,
)

MOD = NgramMod(n_match=24, n_min=0, n_max=16)
SIMPLE = NgramSimple(size_n=3, size_m=8)
MAP_K = NgramMapK(size_n=3, size_m=8, min_hits=2)
CACHE = NgramCache()
MODEL = Speculation(DraftSimple(draft_max=4))
ANSWER = ["n_predict", "temp", "top_k", "top_p", "min_p", "seed", "system"]


def cockpit_of(speculation: Speculation, *, draft: bool = True) -> Cockpit:
    def make_setup(pair: Pair) -> LiveSetup:
        return replace(setup(pair), speculation=speculation)

    pair = Pair(target=TARGET, draft=DRAFT if draft else None)
    return Cockpit(launch(make_setup=make_setup, pair=pair))


def type_into(cockpit: Cockpit, field: str, value: str) -> None:
    cockpit.app.screen.query_one(f"#{field}", Input).value = value


def status(cockpit: Cockpit) -> str:
    return ", ".join(cockpit.app.live.query_one(StatusBar).left)


@pytest.mark.parametrize("draft", [True, False], ids=["with draft", "target alone"])
async def test_an_ngram_drafter_stays_who_drafts_with_what_was_set(*, draft: bool) -> None:
    cockpit = cockpit_of(Speculation(MOD), draft=draft)
    wanted = Speculation(NgramMod(n_match=24, n_min=0, n_max=12))
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        type_into(cockpit, "ngram-mod-n_max", "12")
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).drafting == wanted
        assert "ngram-mod n 24, min 0, max 12" in status(cockpit)
        await press_keys(pilot, "f4")
        assert "draft off (ngram-mod)" in status(cockpit)
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).drafting == wanted


async def test_a_draft_that_cannot_be_loaded_does_not_cost_an_ngram_drafter() -> None:
    cockpit = cockpit_of(Speculation(MOD))
    failed = EngineFailed(error=BadInputError("the draft is broken"), trace=None)
    cockpit.script.load_events[1] = [failed]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        assert setup_of(cockpit).drafting == Speculation(MOD)
        assert "ngram-mod n 24, min 0, max 16" in status(cockpit)
        said = cockpit.app.live.transcript.conversation.plain_text
        assert "the draft is broken. It is not needed." in " ".join(said.split())


async def test_what_is_set_while_it_is_off_holds_when_it_is_switched_on() -> None:
    cockpit = cockpit_of(Speculation(MOD))
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        type_into(cockpit, "ngram-mod-n_match", "16")
        cockpit.app.screen.query_one("#draft", ChoiceRow).index = 1
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).speculation is None
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation == Speculation(NgramMod(n_match=16, n_min=0, n_max=16))


@pytest.mark.parametrize(
    ("speculation", "fields"),
    [
        (MODEL, ["draft_max", "draft_min", "draft_p_min"]),
        (Speculation(DraftMtp(draft_max=4)), ["draft_max", "draft_min", "draft_p_min"]),
        (Speculation(MOD), ["ngram-mod-n_match", "ngram-mod-n_min", "ngram-mod-n_max"]),
        (Speculation(CACHE), []),
        (Speculation(MAP_K), ["ngram-map-k-size_n", "ngram-map-k-size_m"]),
        (
            MODEL.after((SIMPLE, MOD)),
            [
                "ngram-simple-size_n",
                "ngram-simple-size_m",
                "ngram-mod-n_match",
                "ngram-mod-n_min",
                "ngram-mod-n_max",
                "draft_max",
                "draft_min",
                "draft_p_min",
            ],
        ),
    ],
    ids=["model", "mtp", "mod", "cache", "map-k", "row"],
)
async def test_the_form_shows_what_who_drafts_reads_and_nothing_else(
    speculation: Speculation, fields: Sequence[str]
) -> None:
    cockpit = cockpit_of(speculation)
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        assert [one.id for one in cockpit.app.screen.query(Input)] == [*fields, *ANSWER]
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).speculation == speculation


async def test_of_a_row_each_drafter_takes_its_own_numbers() -> None:
    cockpit = cockpit_of(MODEL.after((SIMPLE, CACHE)))
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        type_into(cockpit, "ngram-simple-size_m", "10")
        type_into(cockpit, "draft_max", "6")
        await press_keys(pilot, "enter")
        simple, cache, model = setup_of(cockpit).wanted.chain
        assert simple == NgramSimple(size_n=3, size_m=10)
        assert cache == CACHE
        assert model == DraftSimple(draft_max=6)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (
            "ngram-simple-size_m",
            "17",
            "ngram-simple size_m must be 1 to 16, which is what the pair was loaded for",
        ),
        ("ngram-simple-size_n", "9", "size_n 9 is above size_m 8, so every draft would be dropped"),
        ("ngram-simple-size_n", "0", "ngram-simple size_n must be 1 to 1024"),
        ("draft_min", "9", "draft_min 9 is above draft_max 4, so every draft would be dropped"),
    ],
    ids=["long", "n above m", "zero", "min above max"],
)
async def test_numbers_that_a_drafter_does_not_take_are_explained(
    field: str, value: str, reason: str
) -> None:
    cockpit = cockpit_of(MODEL.after((SIMPLE,)))
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        type_into(cockpit, field, value)
        await press_keys(pilot, "enter")
        assert str(cockpit.app.screen.query_one("#error").render()) == reason


async def test_in_a_narrow_terminal_every_number_is_in_sight() -> None:
    cockpit = cockpit_of(MODEL.after((SIMPLE, MOD)))
    async with cockpit.shown(size=(40, 12)) as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        for field in cockpit.app.screen.query(Input):
            field.focus()
            await handled(pilot)
            assert field.region.width >= len(field.value) + 1
            assert cockpit.app.screen.region.contains_region(field.region)
        type_into(cockpit, "ngram-simple-size_n", "9")
        await press_keys(pilot, "enter")
        label = cockpit.app.screen.query_one("#error")
        assert label.region.height
        assert cockpit.app.screen.region.contains_region(label.region)
