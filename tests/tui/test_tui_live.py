"""The live screen over a scripted engine: every action, every state, what is said and when."""

import gc
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest
from msgspec import structs
from textual.app import SystemCommand
from textual.events import Key, Paste
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Button, Input, Log, Static
from textual.widgets._footer import FooterKey

from spectui.demo import DemoModel, DemoProgress
from spectui.engine.events import (
    EngineFailed,
    GenerationFinished,
    PromptEvaluated,
    Role,
    TokenEmitted,
)
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    EngineDiedError,
    ReadsFromDiskError,
    SpectuiError,
)
from spectui.live.setup import Activity, LiveSetup, ModelsLost, ModelsRestored, Pair
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.setup import ContextOptions, ModelOptions, Schedule, TensorOverride
from spectui.options.speculation import Speculation
from spectui.paths import cache_dir
from spectui.sessions import (
    AnswerEnd,
    AnswerPart,
    Header,
    LoadOptions,
    SettingsChange,
    UserTurn,
    now,
    recent_sessions,
)
from spectui.sessions import Session as StoredSession
from spectui.settings import Settings, read_settings
from spectui.tui.base_app import KeyHandled
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.screen import Panels
from spectui.tui.chat.settings import SettingsScreen
from spectui.tui.chat.transcript import Transcript
from spectui.tui.help import HelpScreen
from spectui.tui.log import LogScreen
from spectui.tui.mailbox import EventsArrived, Mailbox
from spectui.tui.panels.base import Panel
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.question import QuestionScreen
from spectui.tui.threads import DemoBuilt, MonitorFailed, StartFailed, Threads
from spectui.tui.widgets import ChoiceRow, KeyBar, StatusBar
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    answer_events,
    handled,
    launch,
    loaded,
    press_keys,
    ready,
    resize,
    settled,
    setup,
    setup_of,
)

WORDS = ("The", " sea", " is", " [bold]", "wide", "\x1b[31m", " and", " deep", ".")
DEMO = {DemoModel.DENSE: Path("/demo/dense.gguf"), DemoModel.DRAFT: Path("/demo/d.gguf")}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


async def ask(cockpit: Cockpit, pilot: Pilot[None], text: str = "hello") -> None:
    cockpit.app.live.query_one(PromptBox).text = text
    await press_keys(pilot, "enter")


def strips(cockpit: Cockpit) -> list[Strip]:
    return cockpit.app.screen._compositor.render_strips()


def toasts(cockpit: Cockpit) -> list[str]:
    return [notification.message for notification in cockpit.app._notifications]


def test_a_pair_is_loaded_and_a_question_answered() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert cockpit.script.names() == ["load", "load_draft", "measure_baseline"]
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        transcript = cockpit.app.live.transcript
        assert "hello" in transcript.conversation.plain_text
        # As it came: neither markup nor escapes are interpreted.
        assert transcript.conversation.last_answer.startswith("The sea is [bold]wide")
        assert cockpit.app.session.conversation.chat.messages()[-1] == ("assistant", "".join(WORDS))

    cockpit.run(scenario)


def test_the_story_is_told_in_messages() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))
    told: list[Message] = []

    def hook(message: Message) -> None:
        # Messages bubble: each is seen at every step of its way.
        story = EventsArrived | PromptBox.Submitted
        if isinstance(message, story) and not any(message is other for other in told):
            told.append(message)

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)

    cockpit.run(scenario, message_hook=hook)
    # The start, then the question, then its answer.
    names = [type(message).__name__ for message in told]
    # Wake-ups come when they come; one is enough for many events.
    assert [name for name in names if name != "EventsArrived"] == ["Submitted"]
    assert names[0] == "EventsArrived"


def test_rejected_drafts_are_shown_on_demand() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        shown = [cockpit.app.live.transcript.show_rejected]
        for _ in range(2):
            await press_keys(pilot, "f2")
            shown.append(cockpit.app.live.transcript.show_rejected)
        assert shown == [False, True, False]

    cockpit.run(scenario)


def test_a_question_before_the_pair_is_ready_waits_for_it() -> None:
    cockpit = Cockpit()
    target_loaded = cockpit.script.load_events[0]
    cockpit.script.load_events[0] = []
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOADING)
        await ask(cockpit, pilot, "early")
        await ask(cockpit, pilot, "too many")
        assert cockpit.app.live.query_one(PromptBox).text == "too many"
        assert "send" not in cockpit.script.names()
        for event in target_loaded:
            cockpit.threads.post(event)
        await settled(pilot, lambda: "send" in cockpit.script.names())
        await ready(cockpit, pilot)
        assert cockpit.app.session.conversation.chat.questions == ["early"]

    cockpit.run(scenario)


def test_a_second_question_waits_for_the_answer() -> None:
    cockpit = Cockpit()
    first = answer_events(WORDS)
    cockpit.script.answers += [first[:5], answer_events(WORDS)]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "one")
        await ask(cockpit, pilot, "two")
        assert cockpit.script.names().count("send") == 1
        for event in first[5:]:
            cockpit.threads.post(event)
        await settled(pilot, lambda: cockpit.script.names().count("send") == 2)
        await ready(cockpit, pilot)
        assert cockpit.app.session.conversation.chat.questions == ["one", "two"]

    cockpit.run(scenario)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_an_answer_is_stopped_and_the_chat_goes_on(key: str) -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS)[:4])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.ANSWERING)
        await press_keys(pilot, key)
        await ready(cockpit, pilot)
        assert "stop" in cockpit.script.names()
        assert not cockpit.app.session.conversation.is_answering

    cockpit.run(scenario)


def test_an_engine_error_is_a_notice_in_the_transcript_and_the_chat_goes_on() -> None:
    cockpit = Cockpit()
    reason = "the prompt has 9000 tokens; raise -c or shorten the prompt"
    failure = EngineFailed(error=BadInputError(reason), trace=None)
    cockpit.script.answers += [[failure], answer_events(WORDS)]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "far too long")
        await settled(pilot, lambda: reason in cockpit.app.live.transcript.conversation.plain_text)
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "short")
        await ready(cockpit, pilot)
        # The question that got no answer is not part of the conversation.
        assert cockpit.app.session.conversation.chat.questions == ["short"]

    cockpit.run(scenario)


DIED = EngineDiedError("llama.cpp ended its process with SIGABRT while generating")


def said(cockpit: Cockpit) -> str:
    return cockpit.app.live.transcript.conversation.plain_text


def test_models_that_are_lost_come_back_on_a_key_and_the_text_stays() -> None:
    cockpit = Cockpit()
    cockpit.script.answers += [
        [*answer_events(WORDS)[:4], EngineFailed(error=DIED, trace=None)],
        answer_events(WORDS),
    ]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert not cockpit.app.live.check_action("load_again", ())
        cockpit.script.is_lost = True
        await ask(cockpit, pilot, "first")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)
        assert f"{DIED}. Ctrl+R loads the models again" in said(cockpit)
        assert WORDS[0] in said(cockpit)
        assert cockpit.app.live.check_action("load_again", ())
        await press_keys(pilot, "ctrl+r")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOADING)
        assert cockpit.script.names()[-1] == "load_again"
        cockpit.script.stop()
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)
        assert "The load was cancelled" in said(cockpit)
        await press_keys(pilot, "ctrl+r")
        cockpit.script.is_lost = False
        cockpit.threads.post(ModelsRestored())
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "second")
        await ready(cockpit, pilot)
        assert "first" in said(cockpit)

    cockpit.run(scenario)


def test_keys_that_the_footer_shows_no_more_are_let_go() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        first = [weakref.ref(each) for each in cockpit.app.live.query(FooterKey)]
        assert first
        # Esc is shown while an answer is written.
        for _ in range(2):
            for activity in (Activity.ANSWERING, Activity.READY):
                cockpit.app.live.activity = activity
                await handled(pilot)
        gc.collect()
        assert [each() for each in first if each() is not None] == []

    cockpit.run(scenario)


def test_screens_that_are_closed_are_let_go() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        rounds: list[list[weakref.ref[Widget]]] = []
        for _ in range(2):
            shown = []
            for pressed in ("f1", "f3", "f5", "f6", "f7", "f8", "f10", "ctrl+p"):
                await press_keys(pilot, pressed)
                await handled(pilot)
                assert cockpit.app.screen is not cockpit.app.live
                shown += [weakref.ref(each) for each in cockpit.app.screen.query("*")]
                await press_keys(pilot, "escape")
                await handled(pilot)
            rounds.append(shown)
        gc.collect()
        assert [each() for each in rounds[0] if each() is not None] == []

    cockpit.run(scenario)


def test_the_users_own_keys_are_named_where_models_are_lost() -> None:
    keys = {"live.load_again": "ctrl+l,f12", "app.log": "alt+v"}
    cockpit = Cockpit(launch(settings=Settings(keys=keys, keep_sessions=False)))
    cockpit.script.answers.append([EngineFailed(error=DIED, trace=None)])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.script.is_lost = True
        await ask(cockpit, pilot)
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)
        assert "Ctrl+L or F12 loads the models again" in said(cockpit)
        assert "the log (Alt+V) has" in said(cockpit)
        await press_keys(pilot, "f12")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOADING)

    cockpit.run(scenario)


def test_a_search_brings_the_models_back_without_a_key() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append([EngineFailed(error=DIED, trace=None)])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await settled(pilot, lambda: "The search loads the models again" in said(cockpit))
        await ready(cockpit, pilot)

    cockpit.run(scenario)


def test_models_that_are_lost_while_nobody_waits_are_told_and_a_prompt_goes_on() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.script.is_lost = True
        cockpit.threads.post(ModelsLost(error=DIED))
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)
        assert str(DIED) in said(cockpit)
        cockpit.script.is_lost = False
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        assert cockpit.script.names()[-1] == "send"

    cockpit.run(scenario)


def test_the_palette_remembers_where_the_models_are_to_be() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)

        def offered() -> SystemCommand:
            commands = cockpit.app.get_system_commands(cockpit.app.screen)
            (found,) = (one for one in commands if one.title.startswith("Models in"))
            return found

        assert offered().title == "Models in spectui's own process"
        offered().callback()
        assert not read_settings().isolate
        assert offered().title == "Models in a process of their own"
        offered().callback()
        assert read_settings().isolate

    cockpit.run(scenario)


def test_a_defect_points_to_the_log() -> None:
    cockpit = Cockpit()
    failure = EngineFailed(error=SpectuiError("KeyError: 3"), trace="Traceback ...")
    cockpit.script.answers.append([failure])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await settled(
            pilot, lambda: "defect" in cockpit.app.live.transcript.conversation.plain_text
        )

    cockpit.run(scenario)


def test_a_draft_that_fails_leaves_the_target() -> None:
    cockpit = Cockpit()
    reason = "token 9 differs; choose a draft of the same model family"
    cockpit.script.load_events[1] = [EngineFailed(error=BadInputError(reason), trace=None)]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert setup_of(cockpit).draft is None
        assert reason in cockpit.app.live.transcript.conversation.plain_text
        await ask(cockpit, pilot)
        assert cockpit.script.names()[-1] == "send"

    cockpit.run(scenario)


def test_a_target_that_fails_opens_the_picker_with_the_reason() -> None:
    cockpit = Cockpit()
    reason = "notes.gguf is not a GGUF file; give the path of a GGUF model"
    cockpit.script.load_events[0] = [EngineFailed(error=BadInputError(reason), trace=None)]

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert reason in toasts(cockpit)

    cockpit.run(scenario)


SLOW = ReadsFromDiskError("RAM has room for half of the weights")


def refused(error: DoesNotFitError) -> Cockpit:
    cockpit = Cockpit()
    cockpit.script.load_events[0] = [EngineFailed(error=error, trace=None)]
    return cockpit


def question(cockpit: Cockpit) -> str:
    assert isinstance(cockpit.app.screen, QuestionScreen)
    return str(cockpit.app.screen.query(Static).first().content)


def test_a_pair_without_room_says_so_until_it_is_read() -> None:
    cockpit = refused(DoesNotFitError("CUDA0 has no room; use -c 4096"))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, QuestionScreen))
        assert question(cockpit) == "CUDA0 has no room; use -c 4096."
        assert len(cockpit.app.screen.query(Button)) == 1
        assert cockpit.app.live.activity is Activity.NO_MODEL
        await press_keys(pilot, "enter")
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert cockpit.script.names() == ["load"]

    cockpit.run(scenario)


@pytest.mark.parametrize("keys", [("tab", "enter"), ("left", "enter")])
def test_a_pair_that_would_be_slow_is_loaded_if_the_user_says_so(keys: tuple[str, ...]) -> None:
    cockpit = refused(SLOW)

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, QuestionScreen))
        assert question(cockpit) == "RAM has room for half of the weights."
        cockpit.script.load_events[0] = [loaded(Role.TARGET)]
        await press_keys(pilot, *keys)
        await ready(cockpit, pilot)
        assert cockpit.script.names()[:3] == ["load", "load from disk", "load_draft"]

    cockpit.run(scenario)


@pytest.mark.parametrize("key", ["enter", "escape"])
def test_a_pair_that_would_be_slow_is_not_loaded_unasked(key: str) -> None:
    cockpit = refused(SLOW)

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, QuestionScreen))
        await press_keys(pilot, key)
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert cockpit.script.names() == ["load"]

    cockpit.run(scenario)


def test_with_yes_nothing_is_asked() -> None:
    cockpit = Cockpit(launch(from_disk=True))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert cockpit.script.names()[0] == "load from disk"

    cockpit.run(scenario)


def test_a_load_can_be_cancelled() -> None:
    cockpit = Cockpit()
    cockpit.script.load_events[0] = []

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOADING)
        assert cockpit.app.live.loading_bars.has_class("-busy")
        await press_keys(pilot, "escape")
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert not cockpit.app.live.loading_bars.has_class("-busy")

    cockpit.run(scenario)


def test_without_models_the_picker_opens() -> None:
    cockpit = Cockpit(launch(pair=None))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert cockpit.script.names() == []

    cockpit.run(scenario)


def test_the_demo_models_are_built_before_they_are_loaded() -> None:
    cockpit = Cockpit(launch(pair=None, demo=DemoModel.DENSE))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: cockpit.threads.built == [DemoModel.DENSE])
        assert cockpit.app.live.activity is Activity.LOADING
        cockpit.threads.post(DemoBuilt(paths=DEMO))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == Path("/demo/dense.gguf")

    cockpit.run(scenario)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_the_build_of_the_demo_models_can_be_cancelled(key: str) -> None:
    cockpit = Cockpit(launch(pair=None, demo=DemoModel.DENSE))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: bool(cockpit.threads.built))
        await press_keys(pilot, key)
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert cockpit.threads.n_stopped_builds == 1
        assert toasts(cockpit) == ["The build of the demo models was cancelled."]
        assert not cockpit.app.live.loading_bars.has_class("-busy")
        # What the build has told meanwhile starts nothing any more.
        cockpit.threads.post(DemoBuilt(paths=DEMO))
        await settled(pilot)
        assert cockpit.script.names() == []

    cockpit.run(scenario)


def test_another_pair_ends_the_build_of_the_demo_models() -> None:
    cockpit = Cockpit(launch(pair=None, demo=DemoModel.DENSE))

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: bool(cockpit.threads.built))
        cockpit.app.session.loader.load(Pair(target=TARGET, draft=DRAFT))
        assert cockpit.threads.n_stopped_builds == 1
        cockpit.threads.post(DemoBuilt(paths=DEMO))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == TARGET

    cockpit.run(scenario)


@pytest.mark.ci
def test_a_build_that_is_stopped_leaves_no_model_and_tells_nothing_more() -> None:
    told: SimpleQueue[object] = SimpleQueue()
    threads = Threads(Mailbox(lambda: None))
    threads._post = told.put
    threads.build_demo(DemoModel.DENSE)
    assert isinstance(told.get(timeout=60), DemoProgress)
    threads.stop_demo()
    for thread in threading.enumerate():
        if thread.name == "spectui-demo":
            thread.join()
    rest = [told.get() for _ in range(told.qsize())]
    assert all(isinstance(event, DemoProgress) for event in rest)
    assert list((cache_dir() / "demo").glob("*.gguf*")) == []


def test_without_an_engine_the_reason_is_shown() -> None:
    cockpit = Cockpit()
    cockpit.threads.starts = False

    async def scenario(pilot: Pilot[None]) -> None:
        cockpit.threads.post(StartFailed(reason="llama-cpp-python cannot be loaded (x)"))
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        assert "llama-cpp-python cannot be loaded (x)" in toasts(cockpit)

    cockpit.run(scenario)


def test_a_monitor_that_fails_is_told_and_the_rest_goes_on() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        cockpit.app.live.recorded = True
        cockpit.threads.post(MonitorFailed(reason="the recording x.jsonl holds no snapshot"))
        await ready(cockpit, pilot)
        assert not cockpit.app.live.recorded
        assert "the recording x.jsonl holds no snapshot" in toasts(cockpit)

    cockpit.run(scenario)


def test_the_draft_is_switched_off_and_on_with_its_settings() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        before = setup_of(cockpit).speculation
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation is None
        assert "draft off" in str(cockpit.app.live.query_one(StatusBar).left)
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation == before

    cockpit.run(scenario)


@pytest.mark.parametrize(
    "alone",
    [Speculation(DraftMtp(draft_max=2)), Speculation(NgramSimple(size_n=3, size_m=3))],
    ids=["mtp", "ngram"],
)
def test_what_drafts_without_a_draft_is_switched_off_and_on(alone: Speculation) -> None:
    def make_setup(pair: Pair) -> LiveSetup:
        return replace(setup(pair), speculation=alone)

    cockpit = Cockpit(launch(make_setup=make_setup, pair=Pair(target=TARGET, draft=None)))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation is None
        assert "draft off" in str(cockpit.app.live.query_one(StatusBar).left)
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation == alone
        await press_keys(pilot, "f4", "f3")
        row = cockpit.app.screen.query_one("#draft", ChoiceRow)
        assert (row.index, row.disabled) == (1, False)
        row.index = 0
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).speculation == alone

    cockpit.run(scenario)


def test_settings_are_applied_from_the_next_answer_on() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        screen = cockpit.app.screen
        assert isinstance(screen, SettingsScreen)
        screen.query_one("#draft_max", Input).value = "8"
        screen.query_one("#draft_p_min", Input).value = "0.25"
        screen.query_one("#temp", Input).value = "0.7"
        screen.query_one("#system", Input).value = "Be brief."
        screen.query_one("#schedule", ChoiceRow).focus()
        await press_keys(pilot, "right")
        screen.query_one("#system", Input).focus()
        await press_keys(pilot, "enter")
        changed = setup_of(cockpit)
        assert changed.speculation == Speculation(DraftSimple(draft_max=8, draft_p_min=0.25))
        assert changed.sampling.temp == 0.7
        assert changed.schedule is Schedule.FAST
        await ask(cockpit, pilot)
        (sent,) = [value for name, value in cockpit.script.asked if name == "send"]
        assert isinstance(sent, tuple)
        assert sent[1] == (("system", "Be brief."), ("user", "hello"))

    cockpit.run(scenario)


WRONG = [
    ("draft_max", "0", "draft_max must be 1 to 16, which is what the pair was loaded for"),
    ("draft_max", "17", "draft_max must be 1 to 16"),
    ("draft_max", "many", "draft_max must be 1 to 16"),
    ("draft_min", "9", "draft_min 9 is above draft_max"),
    ("draft_p_min", "1.5", "draft_p_min must be 0 to 1"),
    ("draft_p_min", "nan", "draft_p_min must be 0 to 1"),
    ("n_predict", "0", "0 tokens would be no answer"),
    ("seed", "-1", "seed must be 0"),
]


def test_wrong_settings_are_explained_and_change_nothing() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        before = setup_of(cockpit)
        for field, value, reason in WRONG:
            await press_keys(pilot, "f3")
            screen = cockpit.app.screen
            screen.query_one(f"#{field}", Input).value = value
            await press_keys(pilot, "enter")
            assert cockpit.app.screen is screen, field
            assert reason in str(screen.query_one("#error").render())
            await press_keys(pilot, "escape")
            assert setup_of(cockpit) == before, field

    cockpit.run(scenario)


def test_keys_that_come_in_a_burst_go_to_the_field_that_has_the_focus_by_then() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        screen = cockpit.app.screen
        burst = ("8", "tab", "2", "tab", "0", ".", "5", "shift+tab", "home", "delete", "1")
        for key in burst:
            character = key if len(key) == 1 else None
            cockpit.app.post_message(Key("full_stop" if key == "." else key, character))
        cockpit.app.post_message(Paste("3"))
        names = ("draft_max", "draft_min", "draft_p_min")
        fields = [screen.query_one(f"#{name}", Input) for name in names]
        await settled(pilot, lambda: fields[1].value == "13")
        assert [field.value for field in fields] == ["8", "13", "0.5"]

    cockpit.run(scenario)


def test_keys_go_on_when_the_widget_that_had_the_last_one_is_gone() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        cockpit.app.post_message(Key("5", "5"))
        cockpit.app.pop_screen()
        await settled(pilot, lambda: cockpit.app.screen is cockpit.app.live)
        await press_keys(pilot, "x")
        assert cockpit.app.live.query_one(PromptBox).text.endswith("x")

    cockpit.run(scenario)


def burst(cockpit: Cockpit, *keys: str) -> None:
    """Press keys faster than any of them can be handled."""
    for key in keys:
        cockpit.app.post_message(Key(key, key if len(key) == 1 else None))


def test_keys_that_follow_the_one_that_opens_a_screen_go_to_that_screen() -> None:
    cockpit = Cockpit()

    def typed(field: str) -> list[str]:
        return [box.value for box in cockpit.app.screen.query(field).results(Input)]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        burst(cockpit, "f3", "1", "2", "tab", "2")
        await settled(pilot, lambda: typed("#draft_min") == ["2"])
        assert typed("#draft_max") == ["12"]
        assert cockpit.app.live.query_one(PromptBox).text == ""

    cockpit.run(scenario)


def test_keys_go_on_over_screens_that_do_not_open_and_that_close_at_once() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.STARTING)
        # There is nothing to set yet; help is left at once.
        burst(cockpit, "f3", "a", "f1", "escape", "b", "f8", "escape", "c")
        box = cockpit.app.live.query_one(PromptBox)
        await settled(pilot, lambda: box.text == "abc")

    cockpit.threads.starts = False
    cockpit.run(scenario)


def test_a_late_word_of_an_earlier_key_lets_no_later_key_overtake() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        burst(cockpit, "f8")
        # Of a key whose widget was given up, since it went with its screen.
        cockpit.app.post_message(KeyHandled())
        burst(cockpit, "escape", "c")
        await settled(pilot, lambda: cockpit.app.live.query_one(PromptBox).text == "c")

    cockpit.run(scenario)


def test_a_draft_switched_off_during_an_answer_is_told_to_be_the_next_ones() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f4", "f4")
        assert not cockpit.app._notifications
        await press_keys(pilot, "h", "enter")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.ANSWERING)
        await press_keys(pilot, "f4", "f4")
        told = [notice.message for notice in cockpit.app._notifications]
        assert told == [
            f"The draft is {word} from the next answer on; this one goes on as it is."
            for word in ("off", "on")
        ]

    cockpit.run(scenario)


def test_drafts_may_be_as_long_as_the_pair_was_loaded_for() -> None:
    cockpit = Cockpit()
    cockpit.script.max_draft = 40

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        cockpit.app.screen.query_one("#draft_max", Input).value = "40"
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).speculation == Speculation(DraftSimple(draft_max=40))

    cockpit.run(scenario)


def baseline_commands(cockpit: Cockpit) -> list[SystemCommand]:
    offered = cockpit.app.get_system_commands(cockpit.app.screen)
    return [command for command in offered if "baseline" in command.title]


def test_the_baseline_is_measured_again_on_demand() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        (command,) = baseline_commands(cockpit)
        command.callback()
        assert cockpit.script.names().count("measure_baseline") == 2

    cockpit.run(scenario)


def test_there_is_no_baseline_to_measure_before_a_target_is_loaded() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.STARTING)
        assert baseline_commands(cockpit) == []

    cockpit.threads.starts = False
    cockpit.run(scenario)


def test_ctrl_c_empties_the_prompt_before_it_quits() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        box = cockpit.app.live.query_one(PromptBox)
        await press_keys(pilot, "h", "i", "ctrl+c")
        assert cockpit.app.is_running
        assert box.text == ""
        await press_keys(pilot, "up")
        assert box.text == "hi"
        await press_keys(pilot, "ctrl+c")
        assert cockpit.app.is_running
        await pilot.press("ctrl+c")
        assert not cockpit.app.is_running

    cockpit.run(scenario)


def test_settings_can_switch_the_draft_off() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        # From the first field up to the choices.
        await press_keys(pilot, "shift+tab", "shift+tab", "right", "ctrl+s")
        assert setup_of(cockpit).speculation is None

    cockpit.run(scenario)


def test_a_new_chat_forgets_the_old_one() -> None:
    cockpit = Cockpit()
    cockpit.script.answers += [answer_events(WORDS), answer_events(WORDS)[:3]]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        await press_keys(pilot, "ctrl+n")
        assert cockpit.app.session.conversation.chat.messages() == ()
        assert "hello" not in cockpit.app.live.transcript.conversation.plain_text
        await ask(cockpit, pilot, "again")
        await press_keys(pilot, "ctrl+n")
        # Not while an answer is being written.
        assert cockpit.app.session.conversation.chat.questions == ["again"]

    cockpit.run(scenario)


def test_the_answer_is_copied() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f9")
        assert cockpit.app.clipboard == ""
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        await press_keys(pilot, "f9")
        assert cockpit.app.clipboard == "".join(WORDS)

    cockpit.run(scenario)


def test_a_model_without_a_template_continues_the_text() -> None:
    cockpit = Cockpit()
    cockpit.script.load_events[0] = [loaded(Role.TARGET, has_chat_template=False)]
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "Once upon a time")
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, " Then")
        sent = [value for name, value in cockpit.script.asked if name == "send"]
        texts = [value[2] for value in sent if isinstance(value, tuple)]
        assert texts == ["Once upon a time", "Once upon a time" + "".join(WORDS) + " Then"]

    cockpit.run(scenario)


def screen_text(cockpit: Cockpit) -> list[str]:
    """Lines of the whole screen."""
    strips = cockpit.app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def test_help_lists_every_action_with_its_id_and_key() -> None:
    keys = {"live.rejected": "ctrl+r"}
    cockpit = Cockpit(launch(settings=Settings(keys=keys, keep_sessions=False)))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        # The key of the user's settings works, too.
        await press_keys(pilot, "ctrl+r")
        assert cockpit.app.live.transcript.show_rejected
        await press_keys(pilot, "f1")
        assert isinstance(cockpit.app.screen, HelpScreen)
        actions = {action.id: action for action in cockpit.app.screen._actions}
        for name in ("app.quit", "live.stop", "prompt.submit", "tune.start", "export.copy"):
            assert name in actions
        assert actions["live.rejected"].key_display == "Ctrl+R"
        await press_keys(pilot, "escape")
        assert len(cockpit.app.screen_stack) == 2

    cockpit.run(scenario)


def test_ids_give_way_to_explanations_where_room_is_short() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f1")
        # The present screen's own keys come first.
        assert "Live screen" in screen_text(cockpit)[2]
        assert "live.stop" not in "\n".join(screen_text(cockpit))
        assert "Stop the answer or the load" in "\n".join(screen_text(cockpit))
        await resize(pilot, 100, 24)
        assert "live.stop" in "\n".join(screen_text(cockpit))

    cockpit.run(scenario, size=(60, 15))


def test_frame_and_footer_of_the_settings_name_the_same_keys() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f3")
        lines = screen_text(cockpit)
        assert any("Ctrl+S or F3 applies, Esc cancels" in line for line in lines)
        assert "Ctrl+S Apply  Esc Cancel" in lines[-1]

    cockpit.run(scenario, size=(80, 24))


def test_what_the_log_says_of_a_stop_is_told_to_be_no_error() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.threads.log.add("llama_decode: failed to decode, ret = 2")
        await press_keys(pilot, "f8")
        text = "\n".join(screen_text(cockpit))
        assert "ret = 2" in text
        assert "ended on purpose" in text
        # Others are what they say.
        cockpit.threads.log.add("llama_decode: failed to decode, ret = -3")
        assert cockpit.threads.log.since(0)[1][-1].endswith("-3")

    cockpit.run(scenario)


def test_the_command_palette_offers_the_actions_of_the_screen() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        titles = [c.title for c in cockpit.app.get_system_commands(cockpit.app.screen)]
        assert any(title.startswith("Rejected") for title in titles)
        assert any(title.startswith("Export") for title in titles)
        # Nothing runs, so there is nothing to stop.
        assert not any(title.startswith("Stop (") for title in titles)

    cockpit.run(scenario)


def test_the_log_screen_follows_the_log() -> None:
    cockpit = Cockpit()

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        cockpit.threads.log.add("llama_model_loader: loaded [meta] data")
        await press_keys(pilot, "f8")
        screen = cockpit.app.screen
        assert isinstance(screen, LogScreen)
        assert "llama_model_loader: loaded [meta] data" in screen.query_one(Log).lines
        await press_keys(pilot, "escape")
        assert cockpit.app.screen is cockpit.app.live

    cockpit.run(scenario)


def test_sessions_are_stored_as_they_happen() -> None:
    cockpit = Cockpit(launch(settings=Settings()))
    cockpit.script.answers.append(answer_events(WORDS))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert recent_sessions(1) == ()
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        (stored,) = recent_sessions(1)
        assert stored.header.target == str(TARGET)
        parts = [entry for entry in stored.entries if isinstance(entry, AnswerPart)]
        assert "".join(part.text for part in parts) == "".join(WORDS)

    cockpit.run(scenario)


LOAD = LoadOptions(
    target=ModelOptions(
        path=TARGET, override_tensor=(TensorOverride(pattern="exps", buffer="CPU"),)
    ),
    draft=ModelOptions(path=DRAFT, cache_type_k="q8_0"),
    context=ContextOptions(ctx_size=1024, threads=1),
    extra=("--jinja",),
)


def test_another_pair_is_not_loaded_as_the_stored_one() -> None:
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    stored = StoredSession(
        path=Path("session.jsonl"),
        header=Header(started=now(), target=str(TARGET), draft=str(DRAFT), load=LOAD),
        entries=(),
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        cockpit.app.pop_screen()
        cockpit.app.session.loader.resume(stored, Pair(target=Path("/other.gguf"), draft=DRAFT))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == Path("/other.gguf")

    cockpit.run(scenario)


def test_where_layers_allow_one_schedule_alone_it_stands_there_and_another_is_refused() -> None:
    def make_setup(pair: Pair) -> LiveSetup:
        return replace(setup(pair), speculation=Speculation(DraftMtp(draft_max=2)))

    cockpit = Cockpit(launch(make_setup=make_setup, pair=Pair(target=TARGET, draft=None)))
    cockpit.script.load_events = [[replace(loaded(Role.TARGET), mtp_layers=3)], []]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert setup_of(cockpit).schedule is Schedule.SERVER
        assert cockpit.app.live.query_one(StatusBar).left[-2:] == (
            "schedule server",
            "sampling greedy",
        )
        await press_keys(pilot, "f3")
        cockpit.app.screen.query_one("#schedule", ChoiceRow).focus()
        await press_keys(pilot, "left")
        cockpit.app.screen.query_one("#system", Input).focus()
        await press_keys(pilot, "enter")
        assert setup_of(cockpit).schedule is Schedule.SERVER
        told = [notice.message for notice in cockpit.app._notifications]
        reason = "several MTP layers draft on llama-server's schedule alone"
        assert told == [f"The schedule stays server: {reason}."]

    cockpit.run(scenario)


def test_a_target_that_drafted_for_itself_is_loaded_to_do_so_again() -> None:
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    load = msgspec.structs.replace(LOAD, draft=None)
    stored = StoredSession(
        path=Path("session.jsonl"),
        header=Header(started=now(), target=str(TARGET), draft=None, load=load),
        entries=(SettingsChange(speculation=Speculation(DraftMtp(draft_max=2))),),
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        cockpit.app.pop_screen()
        cockpit.app.session.loader.resume(stored, Pair(target=TARGET, draft=None))
        await ready(cockpit, pilot)
        (loaded_as,) = [value for name, value in cockpit.script.asked if name == "load"]
        assert isinstance(loaded_as, LiveSetup)
        assert loaded_as.speculation == Speculation(DraftMtp(draft_max=2))

    cockpit.run(scenario)


def test_a_stored_session_is_taken_up() -> None:
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    stored = StoredSession(
        path=Path("session.jsonl"),
        header=Header(started=now(), target=str(TARGET), draft=str(DRAFT), load=LOAD),
        entries=(
            UserTurn(text="2+2?"),
            AnswerPart(text="It is 4.", drafted=((2, 5),)),
            AnswerEnd(note="4 tokens"),
            SettingsChange(speculation=Speculation(DraftSimple(draft_max=7, draft_p_min=0.5))),
        ),
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        cockpit.app.pop_screen()
        cockpit.app.session.loader.resume(stored, Pair(target=TARGET, draft=DRAFT))
        await ready(cockpit, pilot)
        assert cockpit.app.live.transcript.conversation.last_answer == "It is 4."
        resumed = setup_of(cockpit)
        wanted = Speculation(DraftSimple(draft_max=7, draft_p_min=0.5))
        assert resumed.speculation == wanted
        (loaded_as,) = [value for name, value in cockpit.script.asked if name == "load"]
        assert isinstance(loaded_as, LiveSetup)
        assert loaded_as.speculation == wanted
        assert (resumed.target, resumed.draft) == (LOAD.target, LOAD.draft)
        assert (resumed.context, resumed.extra) == (LOAD.context, ("--jinja",))
        assert recent_sessions(1) == ()
        await ask(cockpit, pilot, "And 3+3?")
        # With what follows, the past is stored again: the next start offers all of it.
        (kept,) = recent_sessions(1)
        assert kept.entries[: len(stored.entries)] == stored.entries
        assert kept.header.load == structs.replace(LOAD, sampling=resumed.sampling)
        assert cockpit.app.session.conversation.chat.messages() == (
            ("user", "2+2?"),
            ("assistant", "It is 4."),
            ("user", "And 3+3?"),
        )

    cockpit.run(scenario)


def test_the_first_token_is_shown_before_its_round_ends() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(
        [
            PromptEvaluated(n_tokens=3, seconds=0.1, n_reused=0),
            TokenEmitted(token=1, piece=b"Soon", from_draft=False),
        ]
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await settled(pilot, lambda: "Soon" in cockpit.app.live.transcript.conversation.plain_text)

    cockpit.run(scenario)


def test_an_answer_without_tokens_ends_as_well() -> None:
    cockpit = Cockpit()
    events = answer_events(("one",))
    finished = events[-1]
    assert isinstance(finished, GenerationFinished)
    empty = replace(finished, result=replace(finished.result, tokens=(), text=""))
    cockpit.script.answers.append([events[0], empty])

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        assert cockpit.app.session.conversation.chat.messages() == ()

    cockpit.run(scenario)


def test_a_narrow_terminal_is_told_where_the_panels_are() -> None:
    cockpit = Cockpit()

    def is_told() -> bool:
        return any("Panels: widen the terminal to 64" in strip.text for strip in strips(cockpit))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        assert is_told()
        await resize(pilot, 64, 24)
        assert not is_told()
        assert in_view(cockpit, Panels)

    cockpit.run(scenario, (63, 24))


def test_the_footer_shows_whole_keys_only() -> None:
    cockpit = Cockpit()

    def shown() -> list[FooterKey]:
        return [key for key in cockpit.app.screen.query(FooterKey) if key.region]

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        n_keys = len(shown())
        for width in (60, 40, 25):
            await resize(pilot, width, 24)
            keys = shown()
            assert 0 < len(keys) < n_keys
            assert all(key.region.right <= width for key in keys)
            assert all(key.size.width == len(str(key.render())) for key in keys)
        await resize(pilot, 120, 40)
        assert len(shown()) == n_keys

    cockpit.run(scenario)


def in_view(cockpit: Cockpit, kind: type[Widget]) -> bool:
    """Whether the whole widget is on the screen."""
    region = cockpit.app.live.query_one(kind).region
    return bool(region) and cockpit.app.live.region.contains_region(region)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (40, 12)])
def test_at_every_size_what_matters_is_in_view(size: tuple[int, int]) -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    def check() -> None:
        for kind in (StatusBar, Transcript, PromptBox, KeyBar):
            assert in_view(cockpit, kind)
        width = cockpit.app.size.width
        assert in_view(cockpit, Panels) == (width >= 64)
        if width >= 120:
            panels = cockpit.app.live.query(Panel)
            assert all(cockpit.app.live.region.contains_region(panel.region) for panel in panels)
        assert "The sea is" in "".join(strip.text for strip in strips(cockpit))

    async def scenario(pilot: Pilot[None]) -> None:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        check()
        for other in ((100, 30), (30, 10), size):
            await resize(pilot, *other)
            check()

    cockpit.run(scenario, size)
