"""The live screen over a scripted engine: every action, every state, what is said and when."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pytest
from msgspec import structs
from textual.app import SystemCommand
from textual.events import Key, Paste
from textual.pilot import Pilot
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
from spectui.live.session import LiveSession
from spectui.live.setup import Activity, LiveSetup, ModelsLost, ModelsRestored, Pair
from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
from spectui.paths import cache_dir
from spectui.sessions import (
    AnswerEnd,
    AnswerPart,
    Entry,
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
from spectui.tui.chat.transcript import Transcript
from spectui.tui.help import HelpScreen
from spectui.tui.mailbox import Mailbox
from spectui.tui.panels.base import Panel
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.question import QuestionScreen
from spectui.tui.threads import DemoBuilt, EngineStarted, MonitorFailed, StartFailed, Threads
from spectui.tui.widgets import KeyBar, StatusBar
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    answer_events,
    launch,
    loaded,
    press_keys,
    ready,
    resize,
    settled,
    setup_of,
)

WORDS = ("The", " sea", " is", " [bold]", "wide", "\x1b[31m", " and", " deep", ".")
DEMO = {DemoModel.DENSE: Path("/demo/dense.gguf"), DemoModel.DRAFT: Path("/demo/d.gguf")}


async def ask(cockpit: Cockpit, pilot: Pilot[None], text: str = "hello") -> None:
    cockpit.app.live.query_one(PromptBox).text = text
    await press_keys(pilot, "enter")


def said(cockpit: Cockpit) -> str:
    return cockpit.app.live.transcript.conversation.plain_text


async def reach(cockpit: Cockpit, pilot: Pilot[None], activity: Activity) -> None:
    await settled(pilot, lambda: cockpit.app.live.activity is activity)


async def picker_opens(cockpit: Cockpit, pilot: Pilot[None]) -> None:
    await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
    assert not cockpit.app.live.loading_bars.has_class("-busy")


def loaded_as(cockpit: Cockpit) -> LiveSetup:
    """What the engine was asked to load."""
    (wanted,) = [value for name, value in cockpit.script.asked if name == "load"]
    assert isinstance(wanted, LiveSetup)
    return wanted


async def test_questions_are_answered_copied_and_forgotten() -> None:
    cockpit = Cockpit()
    (*_, finished) = answer_events(("one",))
    assert isinstance(finished, GenerationFinished)
    empty = replace(finished, result=replace(finished.result, tokens=(), text=""))
    evaluated = PromptEvaluated(n_tokens=3, seconds=0.1, n_reused=0)
    first = [evaluated, TokenEmitted(token=1, piece=b"Soon", from_draft=False)]
    cockpit.script.answers += [answer_events(WORDS), [evaluated, empty], first]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        transcript = cockpit.app.live.transcript
        chat = cockpit.app.session.conversation.chat
        assert cockpit.script.names() == ["load", "load_draft", "measure_baseline"]
        await press_keys(pilot, "f9")
        assert cockpit.app.clipboard == ""
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        assert "hello" in said(cockpit)
        # As it came: neither markup nor escapes are interpreted.
        assert transcript.conversation.last_answer.startswith("The sea is [bold]wide")
        assert chat.messages()[-1] == ("assistant", "".join(WORDS))
        await press_keys(pilot, "f9")
        assert cockpit.app.clipboard == "".join(WORDS)
        for shows in (True, False):
            await press_keys(pilot, "f2")
            assert transcript.show_rejected is shows
        await press_keys(pilot, "ctrl+n")
        assert cockpit.app.session.conversation.chat.messages() == ()
        assert "hello" not in said(cockpit)
        # An answer without tokens ends as well.
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        assert cockpit.app.session.conversation.chat.messages() == ()
        # The first token is shown before its round ends; a new chat waits for the answer's end.
        await ask(cockpit, pilot, "again")
        await settled(pilot, lambda: "Soon" in said(cockpit))
        await press_keys(pilot, "ctrl+n")
        assert cockpit.app.session.conversation.chat.questions == ["again"]


async def test_questions_wait_for_the_pair_and_for_each_other_and_answers_are_stopped() -> None:
    cockpit = Cockpit()
    target_loaded = cockpit.script.load_events[0]
    cockpit.script.load_events[0] = []
    answer = answer_events(WORDS)
    cockpit.script.answers += [answer, answer[:5], answer, answer[:4], answer[:4]]
    async with cockpit.shown() as pilot:
        await reach(cockpit, pilot, Activity.LOADING)
        await ask(cockpit, pilot, "early")
        await ask(cockpit, pilot, "too many")
        assert cockpit.app.live.query_one(PromptBox).text == "too many"
        assert "send" not in cockpit.script.names()
        for event in target_loaded:
            cockpit.threads.post(event)
        await settled(pilot, lambda: "send" in cockpit.script.names())
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "one")
        await ask(cockpit, pilot, "two")
        assert cockpit.script.names().count("send") == 2
        for event in answer[5:]:
            cockpit.threads.post(event)
        await settled(pilot, lambda: cockpit.script.names().count("send") == 3)
        await ready(cockpit, pilot)
        assert cockpit.app.session.conversation.chat.questions == ["early", "one", "two"]
        for n, key in enumerate(("escape", "ctrl+c"), start=1):
            await ask(cockpit, pilot)
            await reach(cockpit, pilot, Activity.ANSWERING)
            await press_keys(pilot, key)
            await ready(cockpit, pilot)
            assert cockpit.script.names().count("stop") == n
            assert not cockpit.app.session.conversation.is_answering


async def test_an_engine_error_is_a_notice_in_the_transcript_and_the_chat_goes_on() -> None:
    cockpit = Cockpit()
    reason = "the prompt has 9000 tokens; raise -c or shorten the prompt"
    failure = EngineFailed(error=BadInputError(reason), trace=None)
    defect = EngineFailed(error=SpectuiError("KeyError: 3"), trace="Traceback ...")
    cockpit.script.answers += [[failure], answer_events(WORDS), [defect]]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "far too long")
        await settled(pilot, lambda: reason in said(cockpit))
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "short")
        await ready(cockpit, pilot)
        # The question that got no answer is not part of the conversation.
        assert cockpit.app.session.conversation.chat.questions == ["short"]
        assert "the log" not in said(cockpit)
        await ask(cockpit, pilot)
        await settled(pilot, lambda: "defect" in said(cockpit))
        assert "the log" in said(cockpit)


DIED = EngineDiedError("llama.cpp ended its process with SIGABRT while generating")


async def test_models_that_are_lost_come_back_and_the_text_stays() -> None:
    cockpit = Cockpit()
    died = EngineFailed(error=DIED, trace=None)
    answer = answer_events(WORDS)
    cockpit.script.answers += [[*answer[:4], died], answer, answer, [died]]
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        assert not cockpit.app.live.check_action("load_again", ())
        cockpit.script.is_lost = True
        await ask(cockpit, pilot, "first")
        await reach(cockpit, pilot, Activity.LOST)
        assert f"{DIED}. Ctrl+R loads the models again" in said(cockpit)
        assert WORDS[0] in said(cockpit)
        assert cockpit.app.live.check_action("load_again", ())
        await press_keys(pilot, "ctrl+r")
        await reach(cockpit, pilot, Activity.LOADING)
        assert cockpit.script.names()[-1] == "load_again"
        cockpit.script.stop()
        await reach(cockpit, pilot, Activity.LOST)
        assert "The load was cancelled" in said(cockpit)
        await press_keys(pilot, "ctrl+r")
        cockpit.script.is_lost = False
        cockpit.threads.post(ModelsRestored())
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, "second")
        await ready(cockpit, pilot)
        assert "first" in said(cockpit)
        # While nobody waits: it is said, and a prompt goes on.
        cockpit.script.is_lost = True
        cockpit.threads.post(ModelsLost(error=DIED))
        await reach(cockpit, pilot, Activity.LOST)
        assert said(cockpit).count(str(DIED)) == 2
        cockpit.script.is_lost = False
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        assert cockpit.script.names()[-1] == "send"
        # A search brings them back without a key.
        await ask(cockpit, pilot)
        await settled(pilot, lambda: "The search loads the models again" in said(cockpit))
        await ready(cockpit, pilot)


async def test_the_users_own_keys_work_and_are_named() -> None:
    keys = {"live.load_again": "ctrl+l,f12", "app.log": "alt+v", "live.rejected": "ctrl+r"}
    cockpit = Cockpit(launch(settings=Settings(keys=keys, keep_sessions=False)))
    cockpit.script.answers.append([EngineFailed(error=DIED, trace=None)])
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "ctrl+r")
        assert cockpit.app.live.transcript.show_rejected
        # Help lists every action with its id and key.
        await press_keys(pilot, "f1")
        assert isinstance(cockpit.app.screen, HelpScreen)
        actions = {action.id: action for action in cockpit.app.screen._actions}
        for name in ("app.quit", "live.stop", "prompt.submit", "tune.start", "export.copy"):
            assert name in actions
        assert actions["live.rejected"].key_display == "Ctrl+R"
        await press_keys(pilot, "escape")
        cockpit.script.is_lost = True
        await ask(cockpit, pilot)
        await reach(cockpit, pilot, Activity.LOST)
        assert "Ctrl+L or F12 loads the models again" in said(cockpit)
        assert "the log (Alt+V) has" in said(cockpit)
        await press_keys(pilot, "f12")
        await reach(cockpit, pilot, Activity.LOADING)


async def test_the_palette_offers_what_can_be_done() -> None:
    cockpit = Cockpit()

    def offered(word: str) -> list[SystemCommand]:
        commands = cockpit.app.get_system_commands(cockpit.app.screen)
        return [command for command in commands if word in command.title]

    cockpit.threads.starts = False
    async with cockpit.shown() as pilot:
        # Before a target is loaded there is no baseline to measure.
        await reach(cockpit, pilot, Activity.STARTING)
        assert offered("baseline") == []
        session = cast("LiveSession", cockpit.script)
        cockpit.threads.post(EngineStarted(session=session))
        await ready(cockpit, pilot)
        (command,) = offered("baseline")
        command.callback()
        assert cockpit.script.names().count("measure_baseline") == 2
        assert offered("Rejected")
        assert offered("Export")
        # Nothing runs, so there is nothing to stop.
        assert not offered("Stop (")
        for title in ("Models in spectui's own process", "Models in a process of their own"):
            (command,) = offered("Models in")
            assert command.title == title
            command.callback()
            assert read_settings().isolate is ("own process" not in title)


SLOW = ReadsFromDiskError("RAM has room for half of the weights")


async def test_a_target_that_is_not_loaded_opens_the_picker() -> None:
    cockpit = Cockpit()
    reason = "notes.gguf is not a GGUF file; give the path of a GGUF model"
    pair = Pair(target=TARGET, draft=DRAFT)
    cockpit.script.load_events[0] = [EngineFailed(error=BadInputError(reason), trace=None)]

    async def load(pilot: Pilot[None], error: DoesNotFitError) -> None:
        cockpit.script.asked.clear()
        cockpit.script.load_events[0] = [EngineFailed(error=error, trace=None)]
        cockpit.app.screen.dismiss(None)
        cockpit.app.session.loader.load(pair)
        await settled(pilot, lambda: isinstance(cockpit.app.screen, QuestionScreen))
        question = str(cockpit.app.screen.query(Static).first().content)
        assert question == str(error).partition("; --yes")[0] + "."

    async with cockpit.shown() as pilot:
        await picker_opens(cockpit, pilot)
        assert reason in cockpit.notices
        # Without room it says so until that is read.
        await load(pilot, DoesNotFitError("CUDA0 has no room; use -c 4096"))
        assert len(cockpit.app.screen.query(Button)) == 1
        assert cockpit.app.live.activity is Activity.NO_MODEL
        await press_keys(pilot, "enter")
        await picker_opens(cockpit, pilot)
        assert cockpit.script.names()[0] == "load"
        # What would be slow is loaded only if the user says so.
        for key in ("enter", "escape"):
            await load(pilot, SLOW)
            await press_keys(pilot, key)
            await picker_opens(cockpit, pilot)
            assert "load from disk" not in cockpit.script.names()
        for key in ("tab", "left"):
            await load(pilot, SLOW)
            cockpit.script.load_events[0] = [loaded(Role.TARGET)]
            await press_keys(pilot, key, "enter")
            await ready(cockpit, pilot)
            names = [name for name in cockpit.script.names() if name.startswith("load")]
            assert names == ["load", "load from disk", "load_draft"]
            await press_keys(pilot, "f7")
        # A load can be cancelled.
        cockpit.script.load_events[0] = []
        cockpit.app.screen.dismiss(None)
        cockpit.app.session.loader.load(pair)
        await reach(cockpit, pilot, Activity.LOADING)
        assert cockpit.app.live.loading_bars.has_class("-busy")
        await press_keys(pilot, "escape")
        await picker_opens(cockpit, pilot)


async def test_the_demo_models_are_built_before_they_are_loaded() -> None:
    cockpit = Cockpit(launch(pair=None, demo=DemoModel.DENSE))
    built = cockpit.threads.built
    async with cockpit.shown() as pilot:
        for n, key in enumerate(("escape", "ctrl+c"), start=1):
            await reach(cockpit, pilot, Activity.LOADING)
            assert built == [DemoModel.DENSE] * n
            await press_keys(pilot, key)
            await picker_opens(cockpit, pilot)
            assert cockpit.threads.n_stopped_builds == n
            assert cockpit.notices == ["The build of the demo models was cancelled."] * n
            # What the build has told meanwhile starts nothing any more.
            cockpit.threads.post(DemoBuilt(paths=DEMO))
            await settled(pilot)
            assert "load" not in cockpit.script.names()
            cockpit.app.picker.choose(DemoModel.DENSE)
        await reach(cockpit, pilot, Activity.LOADING)
        cockpit.threads.post(DemoBuilt(paths=DEMO))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == DEMO[DemoModel.DENSE]
        # Another pair ends a build.
        await press_keys(pilot, "f7")
        cockpit.app.picker.choose(DemoModel.DENSE)
        await settled(pilot, lambda: len(built) == 4)
        before = cockpit.threads.n_stopped_builds
        cockpit.app.session.loader.load(Pair(target=TARGET, draft=DRAFT))
        assert cockpit.threads.n_stopped_builds > before
        cockpit.threads.post(DemoBuilt(paths=DEMO))
        await ready(cockpit, pilot)
        assert setup_of(cockpit).target.path == TARGET


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


async def test_without_an_engine_the_reason_is_shown() -> None:
    cockpit = Cockpit()
    cockpit.threads.starts = False
    async with cockpit.shown() as pilot:
        # There is nothing to set yet; keys go on over a screen that is left at once.
        burst(cockpit, "f3", "a", "f1", "escape", "b", "f8", "escape", "c")
        box = cockpit.app.live.query_one(PromptBox)
        await settled(pilot, lambda: box.text == "abc")
        cockpit.threads.post(MonitorFailed(reason="/proc is not there"))
        cockpit.threads.post(StartFailed(reason="llama-cpp-python cannot be loaded (x)"))
        await picker_opens(cockpit, pilot)
        for reason in ("/proc is not there", "llama-cpp-python cannot be loaded (x)"):
            assert reason in cockpit.notices


async def test_the_draft_is_switched_off_and_on_with_its_settings() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        before = setup_of(cockpit).speculation
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation is None
        assert "draft off" in str(cockpit.app.live.query_one(StatusBar).left)
        await press_keys(pilot, "f4")
        assert setup_of(cockpit).speculation == before
        assert cockpit.notices == []
        # During an answer it is told to be the next one's.
        await press_keys(pilot, "h", "enter")
        await reach(cockpit, pilot, Activity.ANSWERING)
        await press_keys(pilot, "f4", "f4")
        assert cockpit.notices == [
            f"The draft is {word} from the next answer on; this one goes on as it is."
            for word in ("off", "on")
        ]
        await press_keys(pilot, "escape", "f3")
        # From the first field up to the choice.
        await press_keys(pilot, "shift+tab", "right", "ctrl+s")
        assert setup_of(cockpit).speculation is None


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


async def test_settings_are_applied_from_the_next_answer_on() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        before = setup_of(cockpit)
        await press_keys(pilot, "f3")
        screen = cockpit.app.screen
        for field, value, reason in WRONG:
            box = screen.query_one(f"#{field}", Input)
            right, box.value = box.value, value
            await press_keys(pilot, "enter")
            assert cockpit.app.screen is screen, field
            assert reason in str(screen.query_one("#error").render())
            box.value = right
        await press_keys(pilot, "escape")
        assert setup_of(cockpit) == before
        # Drafts may be as long as the pair was loaded for.
        cockpit.script.max_draft = 40
        await press_keys(pilot, "f3")
        values = {"draft_max": "40", "draft_p_min": "0.25", "temp": "0.7", "system": "Be brief."}
        for field, value in values.items():
            cockpit.app.screen.query_one(f"#{field}", Input).value = value
        await press_keys(pilot, "enter")
        changed = setup_of(cockpit)
        assert changed.speculation == Speculation(DraftSimple(draft_max=40, draft_p_min=0.25))
        assert changed.sampling.temp == 0.7
        await ask(cockpit, pilot)
        (sent,) = [value for name, value in cockpit.script.asked if name == "send"]
        assert isinstance(sent, tuple)
        assert sent[1] == (("system", "Be brief."), ("user", "hello"))


def burst(cockpit: Cockpit, *keys: str) -> None:
    """Press keys faster than any of them can be handled."""
    for key in keys:
        character = key if len(key) == 1 else None
        cockpit.app.post_message(Key("full_stop" if key == "." else key, character))


async def test_keys_that_come_in_a_burst_go_where_the_focus_is_by_then() -> None:
    cockpit = Cockpit()

    def typed() -> list[str]:
        fields = cockpit.app.screen.query("#draft_max, #draft_min, #draft_p_min")
        return [field.value for field in fields.results(Input)]

    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        box = cockpit.app.live.query_one(PromptBox)
        await press_keys(pilot, "f3")
        burst(cockpit, "8", "tab", "2", "tab", "0", ".", "5", "shift+tab", "home", "delete", "1")
        cockpit.app.post_message(Paste("3"))
        await settled(pilot, lambda: typed() == ["8", "13", "0.5"])
        # The widget that had the last one is gone.
        burst(cockpit, "5")
        cockpit.app.pop_screen()
        await settled(pilot, lambda: cockpit.app.screen is cockpit.app.live)
        await press_keys(pilot, "x")
        assert box.text.endswith("x")
        box.text = ""
        # Those that follow the one that opens a screen are that screen's.
        burst(cockpit, "f3", "1", "2", "tab", "2")
        await settled(pilot, lambda: typed()[:2] == ["12", "2"])
        assert box.text == ""
        await press_keys(pilot, "escape")
        burst(cockpit, "f8")
        # Of a key whose widget was given up, since it went with its screen.
        cockpit.app.post_message(KeyHandled())
        burst(cockpit, "escape", "c")
        await settled(pilot, lambda: box.text == "c")
        # Ctrl+C empties the prompt before it quits.
        await press_keys(pilot, "ctrl+c")
        assert cockpit.app.is_running
        assert box.text == ""
        await press_keys(pilot, "up")
        assert box.text == "c"
        await press_keys(pilot, "ctrl+c")
        assert cockpit.app.is_running
        await pilot.press("ctrl+c")
        assert not cockpit.app.is_running


async def test_a_model_without_a_template_continues_the_text() -> None:
    cockpit = Cockpit(launch(from_disk=True))
    cockpit.script.load_events[0] = [loaded(Role.TARGET, has_chat_template=False)]
    reason = "token 9 differs; choose a draft of the same model family"
    cockpit.script.load_events[1] = [EngineFailed(error=BadInputError(reason), trace=None)]
    cockpit.script.answers.append(answer_events(WORDS))
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        # With --yes nothing is asked, and a draft that fails leaves the target.
        assert cockpit.script.names()[0] == "load from disk"
        assert setup_of(cockpit).draft is None
        assert reason in said(cockpit)
        await ask(cockpit, pilot, "Once upon a time")
        await ready(cockpit, pilot)
        await ask(cockpit, pilot, " Then")
        sent = [value for name, value in cockpit.script.asked if name == "send"]
        texts = [value[2] for value in sent if isinstance(value, tuple)]
        assert texts == ["Once upon a time", "Once upon a time" + "".join(WORDS) + " Then"]


async def test_help_and_log_say_what_keys_do_and_what_was_logged() -> None:
    cockpit = Cockpit()
    async with cockpit.shown(size=(60, 15)) as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f1")
        # The present screen's own keys come first, and ids give way to explanations.
        assert "Live screen" in cockpit.lines()[2]
        assert "Stop the answer or the load" in "\n".join(cockpit.lines())
        for width, has_ids in ((60, False), (100, True)):
            await resize(pilot, width, 24)
            assert ("live.stop" in "\n".join(cockpit.lines())) is has_ids
        await press_keys(pilot, "escape")
        cockpit.threads.log.add("llama_model_loader: loaded [meta] data")
        cockpit.threads.log.add("llama_decode: failed to decode, ret = 2")
        await press_keys(pilot, "f8")
        assert "llama_model_loader: loaded [meta] data" in cockpit.app.screen.query_one(Log).lines
        # What a stop logs is told to be no error.
        assert "ended on purpose" in "\n".join(cockpit.lines())
        await press_keys(pilot, "escape")
        assert len(cockpit.app.screen_stack) == 2


async def test_at_every_size_what_matters_is_in_view() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    def is_in_view(widget: Widget) -> bool:
        return bool(widget.region) and cockpit.app.live.region.contains_region(widget.region)

    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await ask(cockpit, pilot)
        await ready(cockpit, pilot)
        one = cockpit.app.live.query_one
        for width, height in ((63, 24), (64, 24), (40, 12), (25, 24), (120, 40), (30, 10)):
            await resize(pilot, width, height)
            for kind in (StatusBar, Transcript, PromptBox, KeyBar):
                assert is_in_view(one(kind))
            assert is_in_view(one(Panels)) == (width >= 64)
            text = "".join(cockpit.lines())
            if height > 12:
                assert ("Panels: widen the terminal to 64" in text) == (40 < width < 64)
            assert width < 120 or all(map(is_in_view, cockpit.app.live.query(Panel)))
            assert "The sea is" in text
            # The footer has whole keys only.
            keys = [key for key in cockpit.app.screen.query(FooterKey) if key.region]
            assert keys
            assert all(key.region.right <= width for key in keys)
            assert all(key.size.width == len(str(key.render())) for key in keys)


LOAD = LoadOptions(
    target=ModelOptions(
        path=TARGET, override_tensor=(TensorOverride(pattern="exps", buffer="CPU"),)
    ),
    draft=ModelOptions(path=DRAFT, cache_type_k="q8_0"),
    context=ContextOptions(ctx_size=1024, threads=1),
    extra=("--jinja",),
)


@asynccontextmanager
async def resumed(
    pair: Pair, *entries: Entry, load: LoadOptions = LOAD
) -> AsyncIterator[tuple[Cockpit, Pilot[None]]]:
    """A stored session, which is taken up with a pair."""
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    draft = None if load.draft is None else str(DRAFT)
    header = Header(started=now(), target=str(TARGET), draft=draft, load=load)
    async with cockpit.shown() as pilot:
        await picker_opens(cockpit, pilot)
        cockpit.app.pop_screen()
        stored = StoredSession(path=Path("session.jsonl"), header=header, entries=entries)
        cockpit.app.session.loader.resume(stored, pair)
        await ready(cockpit, pilot)
        yield cockpit, pilot


async def test_a_stored_session_is_taken_up() -> None:
    # Another pair is not loaded as the stored one.
    async with resumed(Pair(target=Path("/other.gguf"), draft=DRAFT)) as (cockpit, _):
        assert setup_of(cockpit).target.path == Path("/other.gguf")
    # A target that drafted for itself is loaded to do so again.
    own = Speculation(DraftMtp(draft_max=2))
    pair, load = Pair(target=TARGET, draft=None), structs.replace(LOAD, draft=None)
    async with resumed(pair, SettingsChange(speculation=own), load=load) as (cockpit, _):
        assert loaded_as(cockpit).speculation == own
    wanted = Speculation(DraftSimple(draft_max=7, draft_p_min=0.5))
    entries = (
        UserTurn(text="2+2?"),
        AnswerPart(text="It is 4.", drafted=((2, 5),)),
        AnswerEnd(note="4 tokens"),
        SettingsChange(speculation=wanted),
    )
    async with resumed(Pair(target=TARGET, draft=DRAFT), *entries) as (cockpit, pilot):
        assert cockpit.app.live.transcript.conversation.last_answer == "It is 4."
        found = setup_of(cockpit)
        assert found.speculation == loaded_as(cockpit).speculation == wanted
        assert (found.target, found.draft) == (LOAD.target, LOAD.draft)
        assert (found.context, found.extra) == (LOAD.context, ("--jinja",))
        assert recent_sessions(1) == ()
        cockpit.script.answers.append(answer_events(WORDS))
        await ask(cockpit, pilot, "And 3+3?")
        await ready(cockpit, pilot)
        # With what follows, the past is stored again: the next start offers all of it.
        (kept,) = recent_sessions(1)
        n_past = len(entries)
        assert kept.entries[:n_past] == entries
        parts = [entry for entry in kept.entries[n_past:] if isinstance(entry, AnswerPart)]
        assert "".join(part.text for part in parts) == "".join(WORDS)
        assert kept.header.load == structs.replace(LOAD, sampling=found.sampling)
        assert cockpit.app.session.conversation.chat.messages()[:3] == (
            ("user", "2+2?"),
            ("assistant", "It is 4."),
            ("user", "And 3+3?"),
        )
