"""The replay of the chat, a view of the tune screen: driven by states and keys, seen as text."""

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from spectui.engine.events import EngineFailed, Role
from spectui.errors import BadInputError
from spectui.live.recording import ChatRecording
from spectui.live.replay import ChatReplay, replay_chat
from spectui.live.setup import Activity, ChatRecorded, LiveSetup, Pair
from spectui.measure.arm import Arm
from spectui.options.drafters import MTP_KIND, DraftMtp
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.trace.chains import record_chains
from spectui.trace.record import Recording
from spectui.trace.replay import Total
from spectui.tui.tune.map import Heatmap
from spectui.tui.tune.screen import TuneScreen
from spectui.tune.progress import TuningState
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    Stage,
    handled,
    launch,
    loaded,
    setup,
    staged,
)
from tests.support.engine import drafting, speculation
from tests.support.replay import COSTS, SCENE, record
from tests.support.scripted import hashed_draft, hashed_target
from tests.trace.test_replay_mtp import record_mtp
from tests.tui import test_tui_tune as tune
from tests.tui.test_tui_snapshots import SnapCompare
from tests.tui.test_tui_tune import SEARCHING, arm, forecast

DEPTH = 16
NAME = "SmolLM2-135M"


def recorded(seed: int, n_predict: int) -> Recording:
    """An answer with chains as long as a session records."""
    choose = hashed_target(seed)
    propose = hashed_draft(choose, seed, agreement=0.8)
    scene = replace(SCENE, choose=choose, propose=propose, n_predict=n_predict, n_ctx=400)
    recording, _ = record(scene)
    chains = record_chains(scene.reading(), recording.output, depth=DEPTH)
    return replace(recording, id=f"answer-{seed}", chains={NAME: chains})


ANSWERS = (recorded(1, 60), recorded(2, 90))
WAITING = replace(ANSWERS[1], chains={})
EMPTY = ChatRecording(draft=NAME, depth=DEPTH)
CHAT = replace(EMPTY, answers=ANSWERS)
REPLAYED = replay_chat(CHAT, COSTS)
MTP_EMPTY = ChatRecording(draft=MTP_KIND, depth=6, mtp_layers=3)
MTP_CHAT = replace(MTP_EMPTY, answers=(record_mtp(replace(SCENE, n_predict=40), 3)[0],))


def at(chat: ChatReplay, wanted: Speculation) -> Total:
    return next(total for total in chat.totals if total.speculation == wanted)


def counts(total: Total) -> str:
    return f"{total.n_drafted} drafted, {total.n_accepted} accepted"


class Host(tune.Host):
    """The replay of a chat in which four tokens are drafted."""

    def __init__(
        self,
        recording: ChatRecording | None = CHAT,
        state: TuningState | None = None,
    ) -> None:
        super().__init__(state)
        self.tune.shows_replay = True
        self.tune.in_use = speculation(4)
        self.tune.recorded = None if recording is None else (recording, COSTS)

    @property
    def is_idle(self) -> bool:
        return not self.tune.workers

    @property
    def selected(self) -> Speculation | None:
        found = self.tune.query_one(Heatmap).selected
        return None if found is None else found.speculation


async def test_a_cursor_on_the_map_says_what_replay_counts_and_a_key_uses_it() -> None:
    best = REPLAYED.totals[0]
    async with staged(Host()) as (app, stage):
        shown = app.words()
        assert "What if SmolLM2-135M drafts: 148 tokens of 2 answers, replayed exactly." in shown
        assert "Costs of rounds: as tuning measured them." in shown
        # It begins with what is in use.
        total = at(REPLAYED, speculation(4))
        assert f"max 4, min 0, p_min 0.00 • in use • predicted {total.speedup:.2f}× of" in shown
        assert f"{total.tokens_per_s:.1f} tokens/s" in shown
        assert f"{total.n_rounds} rounds, {counts(total)}, {total.tokens_per_round:.2f}" in shown
        assert "Loses most to rejected drafts: " in shown
        # One setting a step, wherever cells are merged, and no further than there are settings.
        for size in ((120, 40), (80, 24), (40, 12)):
            await stage.at(size)
            await stage.press("left", "left", "left", "left")
            assert app.selected == speculation(1), size
            await stage.press("right", "right", "right")
            assert app.selected == speculation(4), size
        await stage.at((80, 24))
        for keys, wanted in (
            (("right", "up", "up", "down"), drafting(5, 0, 0.3)),
            (("right",) * 20, drafting(16, 0, 0.3)),
            (("down", "down"), drafting(16)),
        ):
            shown = " ".join((await stage.press(*keys)).split())
            assert app.selected == Speculation(wanted)
            assert counts(at(REPLAYED, Speculation(wanted))) in shown
            assert "in use" not in shown
        await stage.press("enter")
        assert app.take() == [("apply", Arm(draft=NAME, speculation=speculation(16)))]
        assert "max 16, min 0, p_min 0.00, from the next answer on" in app.notices[0]
        await stage.press("b")
        assert app.selected == best.speculation
        # A click chooses the best of the cell.
        await stage.at((120, 40))
        await stage.click(Heatmap, len("0.00 ") + 6 * 2 + 3, 15)
        assert app.selected == speculation(3)
        await stage.press("escape")
        assert app.screen is not app.tune


async def test_it_follows_what_is_recorded_and_the_search() -> None:
    async with staged(Host(EMPTY), (80, 24)) as (app, stage):
        app.tune.not_recorded = "Nothing yet."
        assert "Nothing yet." in await stage.idle()
        assert not app.tune.query_one(Heatmap).region
        assert "Use" not in app.footer()
        # Without costs the map has tokens per round.
        app.tune.recorded = CHAT, None
        shown = " ".join((await stage.idle()).split())
        unpriced = replay_chat(CHAT, None)
        assert "No speedup is known before the target alone is measured." in shown
        assert f"to {unpriced.totals[0].tokens_per_round:.2f} tokens/round, replayed" in shown
        assert counts(at(unpriced, speculation(4))) in shown
        for unknown in ("predicted", "• best", "of off"):
            assert unknown not in shown
        app.tune.recorded = replace(CHAT, answers=(ANSWERS[0], WAITING), failure="too long"), COSTS
        shown = " ".join((await stage.idle()).split())
        assert "59 tokens of 1 answer, replayed exactly. 1 answer more to be recorded." in shown
        assert "An answer could not be recorded: too long." in shown
        await stage.press("right")
        app.tune.recorded = CHAT, COSTS
        assert "148 tokens of 2 answers" in await stage.idle()
        # What the user looks at stays; another setting may be in use.
        assert app.selected == speculation(5)
        app.tune.in_use = speculation(5)
        assert "max 5, min 0, p_min 0.00 • in use" in await stage.idle()
        # Without an answer there is the search's map, if there is one.
        forecasts = (forecast(3, 0.5, 1.5), forecast(8, 0.25, 1.2))
        app.tune.show(replace(SEARCHING, records=(), forecasts=forecasts))
        app.tune.recorded = None
        shown = " ".join((await stage.press("b")).split())
        assert "Nothing yet. The map is of the search's own prompts." in shown
        assert "forecast, good: max 3, min 0, p_min 0.50: 1.50× of off, acceptance 67%" in shown
        assert "Pause" not in app.footer()
        # The search itself, and back.
        app.tune.shows_replay = False
        assert "Tuning: searching" in await stage.idle()
        assert app.focused is app.table
        assert "Pause" in app.footer()


async def test_the_map_of_a_search_has_the_cursor_too() -> None:
    forecasts = (forecast(3, 0.5, 1.5), forecast(8, 0.25, 1.2))
    state = replace(SEARCHING, forecasts=forecasts)
    async with staged(tune.Host(state)) as (app, stage):
        await stage.press("enter")
        assert app.take() == []
        shown = " ".join((await stage.press("tab")).split())
        assert "forecast, good: max 3, min 0, p_min 0.50: 1.50× of off," in shown
        await stage.press("enter")
        assert app.take() == [("apply", arm(3, 0.5))]
        # There is nothing between the settings.
        await stage.press("left", "enter")
        assert app.take() == []


def mtp(draft_max: int) -> Speculation:
    return Speculation(DraftMtp(draft_max=draft_max, draft_min=0, draft_p_min=0.0))


def own_setup(pair: Pair) -> LiveSetup:
    return replace(setup(pair), speculation=mtp(16))


def post(cockpit: Cockpit, recording: ChatRecording | None) -> None:
    cockpit.threads.post(ChatRecorded(recording=recording))


async def looked(cockpit: Cockpit) -> str:
    """Wait until nothing is replayed any more; return what the screen says."""
    await handled(cockpit.pilot)
    await cockpit.settled(lambda: not cockpit.app.workers)
    return " ".join(" ".join(cockpit.lines()).split())


async def test_a_key_opens_it_and_layers_of_the_target_draft_what_is_used() -> None:
    cockpit = Cockpit(launch(make_setup=own_setup, pair=Pair(target=TARGET, draft=None)))
    told = [replace(loaded(Role.TARGET), mtp_layers=3), ChatRecorded(recording=MTP_EMPTY)]
    cockpit.script.load_events = [told, []]
    async with cockpit.loaded():
        await cockpit.press("f10")
        shown = await looked(cockpit)
        assert "Nothing is recorded yet" in shown
        assert "the target goes along it once more with its MTP layers" in shown
        post(cockpit, replace(MTP_CHAT, answers=(replace(MTP_CHAT.answers[0], chains={}),)))
        await cockpit.settled()
        assert "about as long as it takes to write that without" in await looked(cockpit)
        post(cockpit, MTP_CHAT)
        cockpit.tuning(TuningState(costs={MTP_KIND: COSTS}))
        await cockpit.settled()
        shown = await looked(cockpit)
        assert "What if draft-mtp drafts: 39 tokens of 1 answer" in shown
        assert "as tuning measured them" in shown
        # What is longer than the layers is one of their number, and there are no more columns.
        assert "max 3, min 0, p_min 0.00 • in use" in shown
        await cockpit.press("right", "left", "enter")
        assert cockpit.setup.speculation == mtp(2)
        assert "max 2, min 0, p_min 0.00 • in use" in await looked(cockpit)
        # Each view has the key of the other.
        screen = cockpit.app.screen
        assert isinstance(screen, TuneScreen)
        for key, shows_replay in (("f10", True), ("f5", False), ("f5", False), ("f10", True)):
            await cockpit.press(key)
            assert screen.shows_replay is shows_replay
        await cockpit.press("escape")
        assert cockpit.app.screen is cockpit.app.live


async def test_the_app_says_why_there_is_nothing_to_replay() -> None:
    different = Cockpit()
    reason = EngineFailed(error=BadInputError("the vocabularies differ"), trace=None)
    different.script.load_events[1] = [reason]
    unrecorded = Settings(keep_sessions=False, record_chats=False)
    for cockpit, words in (
        (Cockpit(launch(pair=Pair(target=TARGET, draft=None))), "No draft is loaded"),
        (different, "start with --spec-type draft-mtp"),
        (Cockpit(launch(settings=unrecorded)), "config.toml says record_chats = false"),
    ):
        async with cockpit.loaded():
            await cockpit.press("f10")
            assert words in await looked(cockpit)
    assert cockpit.script.records_chats is False
    cockpit = Cockpit(launch(pair=None))
    async with cockpit.shown():
        await cockpit.reach(Activity.NO_MODEL)
        await cockpit.press("f10")
        assert "No pair is loaded yet" in await looked(cockpit)
        await cockpit.press("escape")
        cockpit.script.load_events[0], events = [], cockpit.script.load_events[0]
        cockpit.app.picker.choose(Pair(target=TARGET, draft=DRAFT))
        await cockpit.reach(Activity.LOADING)
        await cockpit.press("f10")
        assert "The models are being loaded" in await looked(cockpit)
        for event in events:
            cockpit.threads.post(event)
        await cockpit.is_ready()
        for recording, words in (
            (EMPTY, "Nothing is recorded yet"),
            (replace(CHAT, answers=(WAITING,)), "The draft is going along what was answered"),
            (replace(EMPTY, failure="no room"), "An answer could not be recorded: no room."),
        ):
            post(cockpit, recording)
            await cockpit.settled()
            assert words in await looked(cockpit)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["wide", "narrow"])
def test_pictures(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    app = Host()

    async def run(pilot: Pilot[None]) -> None:
        stage = Stage(app, pilot)
        await stage.idle()
        await stage.press("right", "right")

    assert snap_compare(app, terminal_size=size, run_before=run)
