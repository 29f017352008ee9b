"""The settings form knows every drafter: it shows what each has, and changes nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from spectui.engine.events import EngineFailed, ModelLoaded
from spectui.errors import BadInputError
from spectui.live.setup import LiveSetup
from spectui.llama.buffers import DeviceMemory
from spectui.options.drafters import (
    DraftMtp,
    DraftSimple,
    NgramCache,
    NgramMapK,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import ContextOptions, Devices
from spectui.options.speculation import Speculation
from spectui.tui.chat.screen import SettingsScreen
from spectui.tui.chat.view import describe
from spectui.tui.launch import Pair
from spectui.tui.look import ColouredApp
from spectui.tui.widgets import StatusBar
from tests.support.cockpit import DRAFT, TARGET, Cockpit, handled, launch, press_keys, setup

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
    return str(cockpit.app.live.query_one(StatusBar).left.content)


async def test_the_line_at_the_top_says_where_the_target_lies() -> None:
    cockpit = Cockpit()
    target = cockpit.script.load_events[0][0]
    assert isinstance(target, ModelLoaded)
    gpu = DeviceMemory(name="CUDA0", description="", free_bytes=None, total_bytes=None)
    cockpit.script.load_events[0] = [
        replace(
            target,
            info=replace(target.info, quantization="Q4_K_M"),
            memory=replace(target.memory, devices=(gpu,)),
        )
    ]
    async with cockpit.loaded():
        assert "| -cmoe, 48 of 48 layers, -c 16k | draft-simple" in status(cockpit)
        shown = describe(cockpit.setup, cockpit.app.session.target, 140)
        assert shown[1] == "-cmoe, 48 of 48 layers, -c 16k, -t 7, Q4_K_M"
        # As it was placed where that was left open.
        chosen = replace(cockpit.setup.target, cpu_moe=False, n_cpu_moe=30, n_gpu_layers=41)
        loaded = replace(target, placed=chosen)
        facts = describe(cockpit.setup, loaded, 120)
        assert facts[1] == "-ncmoe 30, -ngl 41, -c 16k, -t 7"
        setup = replace(cockpit.setup, context=ContextOptions(ctx_size=1000))
        assert describe(setup, None, 120)[1] == "-cmoe, -c 1000"
        far = replace(setup.target, devices=Devices(rpc=("a:1", "b:1")))
        assert describe(replace(setup, target=far), None, 120)[1] == "-cmoe, 2 RPC servers, -c 1000"
        # In a narrow line the sampling stays, and the facts that come first.
        for width in (113, 106, 99, 92, 73):
            assert len(" | ".join(describe(cockpit.setup, loaded, width))) <= width
        assert describe(cockpit.setup, loaded, 92)[1:] == (
            "-ncmoe 30",
            "draft-simple max 4, min 0, p_min 0.00",
            "greedy",
        )
        assert describe(cockpit.setup, loaded, 73)[1:] == (
            "-ncmoe 30",
            "draft-simple max 4",
            "greedy",
        )
        # What models of one family have in common says nothing of either.
        alike = replace(
            cockpit.setup,
            target=replace(chosen, path=Path("Qwen3-30B-A3B-Instruct-Q4_K_M.gguf")),
            draft=replace(chosen, path=Path("Qwen3-0.6B-Instruct-Q4_K_M.gguf")),
        )
        assert describe(alike, loaded, 92)[0] == "Qwen3-30B-A3B + 0.6B"
        assert describe(alike, loaded, 200)[0].startswith("Qwen3-30B-A3B-Instruct-Q4_K_M + Qwen3")


@pytest.mark.parametrize("draft", [True, False], ids=["with draft", "target alone"])
async def test_an_ngram_drafter_stays_who_drafts_with_what_was_set(*, draft: bool) -> None:
    cockpit = cockpit_of(Speculation(MOD), draft=draft)
    failed = EngineFailed(error=BadInputError("the draft is broken"), trace=None)
    cockpit.script.load_events[1] = [failed]
    wanted = Speculation(NgramMod(n_match=24, n_min=0, n_max=12))
    async with cockpit.loaded():
        # A draft that cannot be loaded does not cost it.
        assert cockpit.setup.drafting == Speculation(MOD)
        said = " ".join(cockpit.said.split())
        assert ("the draft is broken. It is not needed." in said) is draft
        await cockpit.press("f3")
        type_into(cockpit, "n_max", "12")
        await cockpit.press("enter")
        assert cockpit.setup.drafting == wanted
        assert "ngram-mod n 24, min 0, max 12" in status(cockpit)
        await cockpit.press("f4")
        assert "draft off" in status(cockpit)
        await cockpit.press("f4")
        assert cockpit.setup.drafting == wanted
        # What is set while it is off holds when it is switched on.
        await cockpit.press("f4", "f3")
        type_into(cockpit, "n_match", "16")
        await cockpit.press("enter")
        assert cockpit.setup.speculation is None
        await cockpit.press("f4")
        assert cockpit.setup.speculation == Speculation(NgramMod(n_match=16, n_min=0, n_max=12))


NUMBERS = ["draft_max", "draft_min", "draft_p_min"]
FORMS = [
    (MODEL, NUMBERS),
    (Speculation(DraftMtp(draft_max=4)), NUMBERS),
    (Speculation(CACHE), []),
    (Speculation(MAP_K), ["size_n", "size_m"]),
    (MODEL.after((SIMPLE, MOD)), NUMBERS),
]


async def test_the_form_shows_what_who_drafts_reads_and_nothing_else() -> None:
    app = ColouredApp[None]()
    changed: list[LiveSetup | None] = []
    async with app.run_test() as pilot:
        for speculation, fields in FORMS:
            wanted = replace(setup(Pair(target=TARGET, draft=DRAFT)), speculation=speculation)
            await app.push_screen(SettingsScreen(wanted, max_draft=16), changed.append)
            await handled(pilot)
            assert [one.id for one in app.screen.query(Input)] == [*fields, *ANSWER]
            await press_keys(pilot, "enter")
            applied = changed.pop()
            assert applied is not None
            assert applied.speculation == speculation


WRONG = [
    ("draft_max", "17", "draft_max must be 1 to 16, which is what the pair was loaded for"),
    ("draft_max", "many", "draft_max must be 1 to 16"),
    ("draft_min", "9", "draft_min 9 is above draft_max 4, so every draft would be dropped"),
    ("draft_p_min", "nan", "draft_p_min must be 0 to 1"),
    ("n_predict", "0", "0 tokens would be no answer"),
    ("seed", "-1", "seed must be 0"),
]


async def test_a_wrong_number_is_said_and_who_is_asked_first_stays() -> None:
    cockpit = cockpit_of(MODEL.after((SIMPLE, CACHE)))
    # In a narrow terminal every number is in sight.
    async with cockpit.loaded(size=(40, 12)):
        await cockpit.press("f3")
        for box in cockpit.app.screen.query(Input):
            box.focus()
            await handled(cockpit.pilot)
            assert box.region.width >= len(box.value) + 1
            assert cockpit.app.screen.region.contains_region(box.region)
        for field, value, reason in WRONG:
            type_into(cockpit, field, value)
            await cockpit.press("enter")
            error = cockpit.app.screen.query_one("#error")
            assert reason in str(error.render())
            assert error.region.height
            assert cockpit.app.screen.region.contains_region(error.region)
            await cockpit.press("escape", "f3")
        type_into(cockpit, "draft_max", "6")
        await cockpit.press("enter")
        chain = (SIMPLE, CACHE, DraftSimple(draft_max=6))
        assert cockpit.setup.wanted.chain == chain


async def test_what_drafts_without_a_draft_is_switched_off_and_on() -> None:
    alone = Speculation(DraftMtp(draft_max=2))
    cockpit = cockpit_of(alone, draft=False)
    async with cockpit.loaded():
        for expected in (None, alone, None):
            await cockpit.press("f4")
            assert cockpit.setup.speculation == expected
