"""How the app connects its screens: tuning, export and picking over a scripted engine."""

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from spectui.engine.events import PairCompared
from spectui.live.launch import Pair
from spectui.models.files import FoundModel
from spectui.models.ranking import ModelFacts
from spectui.prompts import Prompt, builtin_suite
from spectui.sessions import AnswerPart, Header, SessionLog, UserTurn, now
from spectui.settings import Settings
from spectui.tui.messages import ScanFinished
from spectui.tui.screens.export import ExportScreen
from spectui.tui.screens.live import Activity
from spectui.tui.screens.picker import PickerScreen
from spectui.tui.screens.tune import TuneScreen
from spectui.tui.tune.source import PromptSource
from spectui.tui.widgets.picker_choices import (
    DemoChoice,
    PairChoice,
    PresetChoice,
    RecentChoice,
)
from spectui.tui.widgets.status_bar import StatusBar
from spectui.tune.progress import Phase, TuningState
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    answer_events,
    launch,
    ready,
    settled,
    setup_of,
)
from tests.test_tui_tune import SEARCHING, TURN_OFF, USE_IT

WORDS = ("The", " sea", " is", " wide", ".")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


async def tell(cockpit: Cockpit, pilot: Pilot[None], state: TuningState) -> None:
    cockpit.tuning(state)
    await settled(pilot, lambda: cockpit.app.tuning.state == state)


def started_with(cockpit: Cockpit) -> tuple[tuple[Prompt, ...], int]:
    (value,) = [value for name, value in cockpit.script.asked if name == "start_tuning"]
    assert isinstance(value, tuple)
    return value[1], value[2]


# Tuning


def test_tuning_is_started_on_the_built_in_prompts() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await pilot.press("f5")
        assert isinstance(cockpit.app.screen, TuneScreen)
        await pilot.press("s")
        await pilot.pause()
        prompts, n_trials = started_with(cockpit)
        assert prompts == builtin_suite()
        assert n_trials > 0

    cockpit.run(scenario)


def test_tuning_on_the_turns_of_this_chat() -> None:
    cockpit = Cockpit()
    cockpit.script.answers += [answer_events(WORDS), answer_events(WORDS)]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        for text in ("one", "two"):
            cockpit.app.director.ask(text)
            await ready(cockpit, pilot)
        cockpit.app.tuning.start(PromptSource.CHAT, None, 5)
        prompts, n_trials = started_with(cockpit)
        assert [prompt.messages[-1].content for prompt in prompts] == ["one", "two"]
        assert n_trials == 5

    cockpit.run(scenario)


def test_tuning_on_files(tmp_path: Path) -> None:
    cockpit = Cockpit()
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "a", "category": "c", "prompt": "hello"}\n')

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.app.tuning.start(PromptSource.FILES, path, 5)
        prompts, _n_trials = started_with(cockpit)
        assert [prompt.text for prompt in prompts] == ["hello"]

    cockpit.run(scenario)


@pytest.mark.parametrize("content", [None, "not json\n"])
def test_prompts_that_cannot_be_read_start_nothing(tmp_path: Path, content: str | None) -> None:
    cockpit = Cockpit()
    path = tmp_path / "mine.jsonl"
    if content is not None:
        path.write_text(content)

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.app.tuning.start(PromptSource.FILES, path, 5)
        await pilot.pause()
        assert "start_tuning" not in cockpit.script.names()
        assert any("mine.jsonl" in toast.message for toast in cockpit.app._notifications)

    cockpit.run(scenario)


@pytest.mark.parametrize("source", [PromptSource.CHAT, PromptSource.BUILTIN])
def test_tuning_needs_turns_and_a_draft(source: PromptSource) -> None:
    alone = launch(pair=Pair(target=TARGET, draft=None))
    cockpit = Cockpit(alone if source is PromptSource.BUILTIN else None)

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.app.tuning.start(source, None, 5)
        await pilot.pause()
        assert "start_tuning" not in cockpit.script.names()
        assert len(cockpit.app._notifications) == 1

    cockpit.run(scenario)


def test_the_search_is_paused_resumed_and_stopped() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await pilot.press("f5")
        await tell(cockpit, pilot, SEARCHING)
        await pilot.press("space")
        await tell(cockpit, pilot, replace(SEARCHING, paused=True))
        await pilot.press("space")
        await tell(cockpit, pilot, SEARCHING)
        await pilot.press("x")
        await pilot.pause()
        steps = [name for name in cockpit.script.names() if name.endswith("tuning")]
        assert steps == ["pause_tuning", "resume_tuning", "end_tuning"]

    cockpit.run(scenario)


def test_the_status_bar_says_what_the_tuner_does() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        bar = cockpit.app.live.query_one(StatusBar)
        await tell(cockpit, pilot, SEARCHING)
        assert "tuning 5/20" in bar.right
        await tell(cockpit, pilot, replace(SEARCHING, paused=True))
        assert "tuning paused" in bar.right
        await tell(cockpit, pilot, USE_IT)
        assert "tuning" not in bar.right

    cockpit.run(scenario)


def test_the_screen_is_quiet_while_a_trial_is_measured() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS)[:3])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        lively_s = cockpit.app._pace.interval_s
        await tell(cockpit, pilot, SEARCHING)
        assert cockpit.app._pace.interval_s > lively_s
        cockpit.app.director.ask("hello")
        await settled(pilot, lambda: cockpit.app._pace.interval_s == lively_s)

    cockpit.run(scenario)


@pytest.mark.parametrize("state", [SEARCHING, USE_IT, TURN_OFF])
def test_one_key_applies_the_best_to_the_chat(state: TuningState) -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await pilot.press("f5")
        await tell(cockpit, pilot, state)
        await pilot.press("a")
        await pilot.pause()
        speculation = setup_of(cockpit).speculation
        if state is TURN_OFF:
            assert speculation is None
        else:
            assert speculation is not None
            assert (speculation.draft_max, speculation.draft_min) == (6, 1)

    cockpit.run(scenario)


def test_a_failed_search_says_why() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await pilot.press("f5")
        await tell(cockpit, pilot, TuningState(phase=Phase.FAILED, error="the disk is full"))
        lines = cockpit.app.screen._compositor.render_strips()
        assert any("the disk is full" in line.text for line in lines)
        await pilot.press("escape")
        # What the search still tells is nobody's to show: the screen is closed.
        await tell(cockpit, pilot, SEARCHING)
        assert cockpit.app.screen is cockpit.app.live

    cockpit.run(scenario)


# Export


async def exported(cockpit: Cockpit, pilot: Pilot[None]) -> str:
    await pilot.press("f6")
    await pilot.pause()
    assert isinstance(cockpit.app.screen, ExportScreen)
    return cockpit.app.screen.query_one(TextArea).text


def test_the_live_settings_are_exported() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        text = await exported(cockpit, pilot)
        assert "--spec-draft-n-max 4" in text
        assert "--cpu-moe" in text
        # The core that is left to the screen is no business of the server's.
        assert "-t 7" not in text
        await pilot.press("c")
        assert cockpit.app.clipboard == text

    cockpit.run(scenario)


def test_what_tuning_found_is_exported_first() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await tell(cockpit, pilot, USE_IT)
        assert "--spec-draft-n-max 6" in await exported(cockpit, pilot)

    cockpit.run(scenario)


def test_a_verdict_against_speculation_is_exported_without_it() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await tell(cockpit, pilot, TURN_OFF)
        assert "--spec-draft" not in await exported(cockpit, pilot)

    cockpit.run(scenario)


def test_before_a_pair_there_is_nothing_to_export() -> None:
    cockpit = Cockpit(launch(pair=None))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        await pilot.press("f6")
        assert isinstance(cockpit.app.screen, PickerScreen)
        assert any("nothing to export" in toast.message for toast in cockpit.app._notifications)

    cockpit.run(scenario)


# Choosing models


def found(path: Path, size_bytes: int = 1000) -> FoundModel:
    return FoundModel(path=path, name=path.stem, size_bytes=size_bytes, n_shards=1, missing=())


async def picker(cockpit: Cockpit, pilot: Pilot[None]) -> PickerScreen:
    await settled(
        pilot,
        lambda: (
            isinstance(cockpit.app.screen, PickerScreen)
            and bool(cockpit.app.screen.query("#targets"))
        ),
    )
    screen = cockpit.app.screen
    assert isinstance(screen, PickerScreen)
    return screen


def test_models_are_found_compared_and_loaded() -> None:
    cockpit = Cockpit(launch(pair=None))
    cockpit.backstage.found = [found(TARGET, 20_000), found(DRAFT), ScanFinished(reasons=())]

    async def scenario(pilot: Pilot[None]) -> None:
        screen = await picker(cockpit, pilot)
        cockpit.app.picking.compare(found(TARGET, 20_000), (found(DRAFT),))
        assert ("compare", (TARGET, DRAFT)) in cockpit.script.asked
        facts = ModelFacts(
            path=DRAFT,
            arch="qwen3",
            name="draft",
            n_params=None,
            size_bytes=1000,
            n_layers=2,
            n_ctx_train=100,
            n_vocab=100,
            kv_bytes_per_token=16,
            n_experts=0,
        )
        cockpit.backstage.post(PairCompared(target=TARGET, draft=DRAFT, facts=facts, reason=None))
        await pilot.pause()
        screen.post_message(PickerScreen.Chosen(PairChoice(target=TARGET, draft=DRAFT)))
        await ready(cockpit, pilot)
        assert cockpit.app.screen is cockpit.app.live
        assert setup_of(cockpit).draft is not None

    cockpit.run(scenario)


def test_a_target_may_be_chosen_alone() -> None:
    cockpit = Cockpit(launch(pair=None))

    async def scenario(pilot: Pilot[None]) -> None:
        screen = await picker(cockpit, pilot)
        screen.post_message(PickerScreen.Chosen(PairChoice(target=TARGET, draft=None)))
        await ready(cockpit, pilot)
        assert "load_draft" not in cockpit.script.names()

    cockpit.run(scenario)


def test_a_preset_may_be_chosen() -> None:
    cockpit = Cockpit(launch(pair=None))

    async def scenario(pilot: Pilot[None]) -> None:
        screen = await picker(cockpit, pilot)
        screen.post_message(PickerScreen.Chosen(PresetChoice(name="small")))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == Path("/small.gguf")

    cockpit.run(scenario)


def test_the_demo_may_be_chosen() -> None:
    cockpit = Cockpit(launch(pair=None))

    async def scenario(pilot: Pilot[None]) -> None:
        screen = await picker(cockpit, pilot)
        screen.post_message(PickerScreen.Chosen(DemoChoice()))
        await settled(pilot, lambda: bool(cockpit.backstage.built))
        assert cockpit.app.live.activity is Activity.LOADING

    cockpit.run(scenario)


def test_the_last_session_is_offered_and_taken_up() -> None:
    log = SessionLog(Header(started=now(), target=str(TARGET), draft=str(DRAFT)))
    log.append(UserTurn(text="2+2?"))
    log.append(AnswerPart(text="4", drafted=()))
    log.close()
    cockpit = Cockpit(launch(pair=None, settings=Settings()))

    async def scenario(pilot: Pilot[None]) -> None:
        screen = await picker(cockpit, pilot)
        (recent,) = cockpit.app.picking._recent
        assert recent.pair.n_turns == 1
        screen.post_message(PickerScreen.Chosen(RecentChoice(recent=recent.pair)))
        await ready(cockpit, pilot)
        assert cockpit.app.live.transcript.last_answer == "4"

    cockpit.run(scenario)


def test_over_a_loaded_pair_the_picker_can_be_left() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await pilot.press("f7")
        await picker(cockpit, pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: cockpit.app.screen is cockpit.app.live)
        # What a scan still finds is nobody's business any more.
        cockpit.backstage.post(found(TARGET))
        await pilot.pause()
        assert cockpit.app.live.activity is Activity.READY

    cockpit.run(scenario)
