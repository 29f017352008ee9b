"""The what-if screen over a target that drafts for itself."""

from dataclasses import replace

from spectui.engine.events import EngineFailed, Role
from spectui.errors import BadInputError
from spectui.live.recording import ChatRecording, ChatText
from spectui.live.setup import ChatRecorded, LiveSetup, Pair
from spectui.live.whatif import KnownCosts, WhatIf, WhatIfState
from spectui.options.drafters import MTP_KIND, DraftMtp
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.progress import TuningState
from tests.support.cockpit import (
    TARGET,
    Cockpit,
    launch,
    loaded,
    press_keys,
    ready,
    settled,
    setup,
    setup_of,
    staged,
)
from tests.support.replay import COSTS, DEPTH, SCENE
from tests.trace.test_replay_mtp import record_mtp
from tests.tui.test_tui_whatif import Host, looked, post, screen_of, show


def mtp(draft_max: int, draft_min: int = 0, draft_p_min: float = 0.0) -> DraftMtp:
    return DraftMtp(draft_max=draft_max, draft_min=draft_min, draft_p_min=draft_p_min)


def empty(n_layers: int) -> ChatRecording:
    return ChatRecording(draft=MTP_KIND, depth=DEPTH, mtp_layers=n_layers)


def recorded(n_layers: int) -> ChatRecording:
    recording, _chains = record_mtp(replace(SCENE, n_predict=40), n_layers)
    text = ChatText(recording=recording, sampling=SamplingConfig(temp=0.0))
    return replace(empty(n_layers), texts=(text,))


def state(n_layers: int, applied: DraftMtp | None) -> WhatIfState:
    return WhatIfState(
        recording=recorded(n_layers),
        known=KnownCosts(costs=COSTS, source="fitted to 80 rounds of up to 3 drafted"),
        applied=applied,
    )


async def test_it_says_who_drafts_and_how_far_several_layers_go() -> None:
    async with staged(Host(state(3, mtp(2)))) as (app, stage):
        shown = app.words()
        assert "What if draft-mtp drafts: " in shown
        assert "3 MTP layers draft one token each: draft_max goes up to 3." in shown
        assert "Best predicted: draft-mtp max " in shown
        assert app.whatif.setting == mtp(2)
        assert "in use" in shown
        await stage.press("end")
        assert app.whatif.setting == mtp(3)
        chat = recorded(3)
        total = WhatIf(chat.recordings, MTP_KIND, longest=3, costs=COSTS).at(mtp(3))
        assert f"{total.n_drafted} drafted, {total.n_accepted} accepted" in app.words()
        await stage.press("a")
        assert app.take() == [("apply", mtp(3))]
        assert app.notices == ["From the next answer on: draft-mtp max 3, min 0, p_min 0.00."]
    # What is longer than the layers begins at their number.
    async with staged(Host(state(3, mtp(16)))) as (app, stage):
        assert app.whatif.setting == mtp(3)
        await stage.press("9", "enter")
        assert app.whatif.setting == mtp(3)


async def test_one_layer_goes_on_from_itself_and_drafts_again_once_applied() -> None:
    chat = recorded(1)
    waiting = replace(chat.texts[0], recording=replace(chat.texts[0].recording, chains={}))
    # It is switched off.
    async with staged(Host(state(1, None))) as (app, stage):
        assert "MTP layers draft one token each" not in app.words()
        await stage.press("end", "a")
        assert app.take() == [("apply", mtp(DEPTH))]
        # While the target goes along it says how long that takes.
        shown = await show(stage, WhatIfState(recording=replace(chat, texts=(waiting,))))
        assert "about as long as it takes to write that without a draft" in shown


def own_setup(pair: Pair) -> LiveSetup:
    return replace(setup(pair), speculation=Speculation(mtp(2)))


async def test_a_key_opens_it_and_what_is_applied_drafts_with_its_layers() -> None:
    cockpit = Cockpit(launch(make_setup=own_setup, pair=Pair(target=TARGET, draft=None)))
    told = [replace(loaded(Role.TARGET), mtp_layers=1), ChatRecorded(recording=empty(1))]
    cockpit.script.load_events = [told, []]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f10")
        shown = await looked(cockpit, pilot)
        assert "Nothing has been said yet: ask something" in shown
        assert "the target goes along it once more with its MTP layers" in shown
        post(cockpit, recorded(1))
        cockpit.tuning(TuningState(costs={MTP_KIND: COSTS}))
        await settled(pilot)
        shown = await looked(cockpit, pilot)
        assert "costs as tuning measured them" in shown
        assert screen_of(cockpit).setting == mtp(2)
        await press_keys(pilot, "right", "a")
        assert setup_of(cockpit).speculation == Speculation(mtp(3))
        assert "in use" in await looked(cockpit, pilot)


async def test_without_anybody_to_draft_it_says_what_to_do() -> None:
    cockpit = Cockpit()
    reason = EngineFailed(error=BadInputError("the vocabularies differ"), trace=None)
    cockpit.script.load_events[1] = [reason]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f10")
        shown = await looked(cockpit, pilot)
        assert "No draft is loaded, and the target was not loaded to draft for itself" in shown
        assert "start with --spec-type draft-mtp" in shown
