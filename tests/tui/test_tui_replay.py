"""The replay of the chat, a view of the tune screen: driven by states and keys, seen as text."""

import inspect
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from spectui.engine.events import Role
from spectui.live.recording import ChatRecording
from spectui.live.setup import ChatRecorded, LiveSetup
from spectui.options.drafters import MTP_KIND, DraftMtp
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.trace.chains import record_chains
from spectui.trace.record import Recording
from spectui.trace.replay import Total
from spectui.tui.launch import Pair
from spectui.tui.tune.ledger import replay_chat
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.tune.views import SettingsTable
from spectui.tune.progress import TuningState
from tests.support.cockpit import (
    TARGET,
    Cockpit,
    Stage,
    handled,
    launch,
    loaded,
    setup,
    staged,
)
from tests.support.engine import speculation
from tests.support.replay import COSTS, SCENE, record
from tests.support.scripted import hashed_draft, hashed_target
from tests.trace.test_replay_mtp import record_mtp
from tests.tui import test_tui_tune as tune
from tests.tui.test_tui_snapshots import SnapCompare
from tests.tui.test_tui_tune import SEARCHING

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


def at(totals: tuple[Total, ...], wanted: Speculation) -> Total:
    return next(total for total in totals if total.speculation == wanted)


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
        found = self.table.selected
        return None if found is None else found.arm.speculation


async def test_the_table_says_what_replay_counts_and_a_key_uses_it() -> None:
    best = REPLAYED[0]
    async with staged(Host()) as (app, stage):
        shown = app.words()
        assert "What if SmolLM2-135M drafts: 148 tokens of 2 answers, too few to choose" in shown
        # The best of each length, the best first, and what is in use.
        assert app.selected == best.speculation
        assert f"{best.speedup:.2f}×" in shown
        assert f"{best.n_rounds} rounds, {counts(best)}, {best.tokens_per_round:.2f}" in shown
        lengths = [row.arm.speculation.longest for row in app.table._rows if row.arm.speculation]
        assert set(lengths) == set(range(1, 17))
        assert "in use, best draft: max 4, min 0, p_min 0.00" in shown
        await stage.press("down")
        second = app.table.selected
        assert second is not None
        await stage.press("enter")
        assert app.take() == [("apply", second.arm)]
        assert "(replayed), from the next answer on" in app.notices[0]
        await stage.press("escape")
        assert app.screen is not app.tune


async def test_it_follows_what_is_recorded_and_the_search() -> None:
    async with staged(Host(EMPTY), (120, 30)) as (app, stage):
        app.tune.not_recorded = "Nothing yet."
        assert "Nothing yet." in await stage.idle()
        assert not app.table.region
        # Without costs there are the counts.
        app.tune.recorded = CHAT, None
        shown = " ".join((await stage.idle()).split())
        unpriced = replay_chat(CHAT, None)
        assert "No speedup is known before a search has measured what rounds cost." in shown
        # The shortest drafts come first: nothing says which setting is the best.
        first = next(total for total in unpriced if total.model.draft_max == 1)
        assert f"{first.tokens_per_round:.2f} tokens/round" in shown
        app.tune.recorded = replace(CHAT, answers=(ANSWERS[0], WAITING)), COSTS
        shown = " ".join((await stage.idle()).split())
        assert "59 tokens of 1 answer, too few to choose by, replayed exactly." in shown
        app.tune.recorded = CHAT, COSTS
        assert "148 tokens of 2 answers" in await stage.idle()
        # Another setting may be in use.
        app.tune.in_use = speculation(5)
        shown = " ".join((await stage.idle()).split())
        assert "in use draft: max 5, min 0, p_min 0.00" in shown
        # The search itself, and back.
        app.tune.show(SEARCHING)
        assert "Stop" not in app.footer()
        app.tune.shows_replay = False
        assert "Tuning: searching" in await stage.idle()
        assert app.focused is app.table
        assert "Stop" in app.footer()


async def test_a_replay_may_end_when_its_screen_is_gone() -> None:
    async with staged(Host()) as (app, stage):
        await stage.press("escape")
        replay = inspect.unwrap(TuneScreen._replay)
        await replay(app.tune)
        assert app.screen is not app.tune


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
        assert "the target reads it once" in await looked(cockpit)
        post(cockpit, MTP_CHAT)
        cockpit.tuning(TuningState(costs={MTP_KIND: COSTS}))
        await cockpit.settled()
        shown = await looked(cockpit)
        assert "What if draft-mtp drafts: 39 tokens of 1 answer" in shown
        # What is longer than the layers is one of their number.
        assert "in use draft-mtp: max 3, min 0, p_min 0.00" in shown
        table = cockpit.app.screen.query_one(SettingsTable)
        index = next(n for n, row in enumerate(table._rows) if row.arm.speculation == mtp(2))
        await cockpit.press("home", *["down"] * index, "enter")
        assert cockpit.setup.speculation == mtp(2)
        assert "in use draft-mtp: max 2, min 0, p_min 0.00" in await looked(cockpit)
        # Each view has the key of the other.
        screen = cockpit.app.screen
        assert isinstance(screen, TuneScreen)
        for key, shows_replay in (("f10", True), ("f5", False), ("f5", False), ("f10", True)):
            await cockpit.press(key)
            assert screen.shows_replay is shows_replay
        await cockpit.press("escape")
        assert cockpit.app.screen is cockpit.app.live


async def test_the_app_says_why_there_is_nothing_to_replay() -> None:
    unrecorded = Settings(keep_sessions=False, record_chats=False)
    for cockpit, words in (
        (Cockpit(launch(pair=Pair(target=TARGET, draft=None))), "before a pair with a draft"),
        (Cockpit(launch(settings=unrecorded)), "config.toml says record_chats = false"),
    ):
        async with cockpit.loaded():
            await cockpit.press("f10")
            assert words in await looked(cockpit)
    assert cockpit.script.records_chats is False
    cockpit = Cockpit()
    async with cockpit.loaded():
        await cockpit.press("f10")
        for recording, words in (
            (EMPTY, "Ask something"),
            (replace(CHAT, answers=(WAITING,)), "the draft reads it once"),
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
        await stage.press("down", "down")

    assert snap_compare(app, terminal_size=size, run_before=run)
