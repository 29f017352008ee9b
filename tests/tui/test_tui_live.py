"""The live screen over a scripted engine: every action, every state, what is said and when."""

import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from msgspec import structs
from textual.events import Key, Paste
from textual.widget import Widget
from textual.widgets import Input, Log, Static
from textual.widgets._footer import FooterKey

from spectui.demo import DemoModel, DemoProgress
from spectui.engine.events import (
    EngineFailed,
    GenerationResult,
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
from spectui.live.sessions import (
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
from spectui.live.sessions import Session as StoredSession
from spectui.live.setup import Activity, LiveSetup, ModelsLost
from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
from spectui.paths import cache_dir
from spectui.settings import Settings
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.transcript import Transcript
from spectui.tui.chat.view import Panels
from spectui.tui.dialogs import HelpScreen, QuestionScreen
from spectui.tui.launch import Pair
from spectui.tui.mailbox import Mailbox
from spectui.tui.ordered import KeyHandled
from spectui.tui.panel import Panel
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.threads import Threads
from spectui.tui.widgets import KeyBar, StatusBar
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    answer_events,
    launch,
    loaded,
    notices,
)

WORDS = ("The", " sea", " is", " [bold]", "wide", "\x1b[31m", " and", " deep", ".")
DEMO = {DemoModel.DENSE: Path("/demo/dense.gguf"), DemoModel.DRAFT: Path("/demo/d.gguf")}


def questions(cockpit: Cockpit) -> list[str]:
    """What the conversation has of the user, oldest first."""
    chat = cockpit.app.session.chat
    return [content for role, content in chat.messages() if role == "user"]


async def picker_opens(cockpit: Cockpit) -> None:
    await cockpit.settled(lambda: isinstance(cockpit.app.screen, PickerScreen))
    assert not cockpit.app.live.loading_bars.has_class("-busy")


def loaded_as(cockpit: Cockpit) -> LiveSetup:
    """What the engine was asked to load."""
    (wanted,) = [value for name, value in cockpit.script.asked if name == "load"]
    assert isinstance(wanted, LiveSetup)
    return wanted


async def test_questions_are_answered_copied_and_forgotten() -> None:
    cockpit = Cockpit()
    (*_, finished) = answer_events(("one",))
    assert isinstance(finished, GenerationResult)
    empty = replace(finished, tokens=(), text="")
    evaluated = PromptEvaluated(n_tokens=3, seconds=0.1, n_reused=0)
    first = [evaluated, TokenEmitted(token=1, piece=b"Soon", from_draft=False)]
    cockpit.script.answers += [answer_events(WORDS), [evaluated, empty], first]
    async with cockpit.loaded():
        transcript = cockpit.app.live.transcript
        chat = cockpit.app.session.chat
        assert cockpit.script.names() == ["load", "load_draft", "measure_baseline"]
        await cockpit.press("f9")
        assert cockpit.app.clipboard == ""
        await cockpit.ask()
        await cockpit.is_ready()
        assert "hello" in cockpit.said
        # As it came: neither markup nor escapes are interpreted.
        assert transcript.last_answer.startswith("The sea is [bold]wide")
        assert chat.messages()[-1] == ("assistant", "".join(WORDS))
        await cockpit.press("f9")
        assert cockpit.app.clipboard == "".join(WORDS)
        for shows in (True, False):
            await cockpit.press("f2")
            assert transcript.show_rejected is shows
        await cockpit.press("ctrl+n")
        assert cockpit.app.session.chat.messages() == ()
        assert "hello" not in cockpit.said
        # An answer without tokens ends as well.
        await cockpit.ask()
        await cockpit.is_ready()
        assert cockpit.app.session.chat.messages() == ()
        # The first token is shown before its round ends; a new chat waits for the answer's end.
        await cockpit.ask("again")
        await cockpit.settled(lambda: "Soon" in cockpit.said)
        await cockpit.press("ctrl+n")
        assert questions(cockpit) == ["again"]


async def test_questions_wait_for_the_pair_and_for_each_other_and_answers_are_stopped() -> None:
    cockpit = Cockpit()
    target_loaded = cockpit.script.load_events[0]
    cockpit.script.load_events[0] = []
    answer = answer_events(WORDS)
    cockpit.script.answers += [answer, answer[:5], answer, answer[:4], answer[:4]]
    async with cockpit.shown():
        await cockpit.reach(Activity.LOADING)
        await cockpit.ask("early")
        assert "Will be sent: early" in "\n".join(cockpit.lines())
        await cockpit.ask("too many")
        assert cockpit.app.live.query_one(PromptBox).text == "too many"
        assert "send" not in cockpit.script.names()
        for event in target_loaded:
            cockpit.threads.post(event)
        await cockpit.settled(lambda: "send" in cockpit.script.names())
        await cockpit.is_ready()
        await cockpit.ask("one")
        await cockpit.ask("two")
        assert cockpit.script.names().count("send") == 2
        for event in answer[5:]:
            cockpit.threads.post(event)
        await cockpit.settled(lambda: cockpit.script.names().count("send") == 3)
        await cockpit.is_ready()
        assert questions(cockpit) == ["early", "one", "two"]
        assert "Will be sent" not in "\n".join(cockpit.lines())
        for n, key in enumerate(("escape", "ctrl+c"), start=1):
            await cockpit.ask()
            await cockpit.reach(Activity.ANSWERING)
            await cockpit.press(key)
            await cockpit.is_ready()
            assert cockpit.script.names().count("stop") == n
            assert not cockpit.app.session.chat.is_answering


async def test_an_engine_error_is_a_notice_in_the_transcript_and_the_chat_goes_on() -> None:
    cockpit = Cockpit()
    reason = "the prompt has 9000 tokens; raise -c or shorten the prompt"
    failure = EngineFailed(error=BadInputError(reason), trace=None)
    defect = EngineFailed(error=SpectuiError("KeyError: 3"), trace="Traceback ...")
    cockpit.script.answers += [[failure], answer_events(WORDS), [defect]]
    async with cockpit.loaded():
        await cockpit.ask("far too long")
        await cockpit.settled(lambda: reason in cockpit.said)
        await cockpit.is_ready()
        await cockpit.ask("short")
        await cockpit.is_ready()
        # The question that got no answer is not part of the conversation.
        assert questions(cockpit) == ["short"]
        assert "the log" not in cockpit.said
        await cockpit.ask()
        await cockpit.settled(lambda: "defect" in cockpit.said)
        assert "the log" in cockpit.said


DIED = EngineDiedError("llama.cpp ended its process with SIGABRT while generating")


async def test_the_next_prompt_loads_models_that_are_lost_and_the_text_stays() -> None:
    cockpit = Cockpit()
    died = EngineFailed(error=DIED, trace=None)
    answer = answer_events(WORDS)
    cockpit.script.answers += [[*answer[:4], died], answer]
    async with cockpit.loaded():
        await cockpit.ask("first")
        await cockpit.settled(lambda: "Your next prompt loads the models again" in cockpit.said)
        await cockpit.is_ready()
        assert str(DIED) in cockpit.said
        assert WORDS[0] in cockpit.said
        # While nobody waits.
        cockpit.threads.post(ModelsLost(error=DIED))
        await cockpit.settled(lambda: any(str(DIED) in one for one in notices(cockpit.app)))
        await cockpit.ask("second")
        await cockpit.is_ready()
        assert cockpit.script.names()[-1] == "send"
        assert "first" in cockpit.said


async def test_keys_work_and_help_and_log_say_what_they_do_and_what_was_logged() -> None:
    keys = {"app.log": "alt+v", "live.rejected": "ctrl+r"}
    cockpit = Cockpit(launch(settings=Settings(keys=keys, keep_sessions=False)))
    cockpit.script.answers.append([EngineFailed(error=DIED, trace=None)])
    async with cockpit.loaded(size=(60, 15)):
        await cockpit.press("ctrl+r")
        assert cockpit.app.live.transcript.show_rejected
        # Help lists every action with its id and key.
        await cockpit.press("f1")
        assert isinstance(cockpit.app.screen, HelpScreen)
        actions = {action.id: action for action in cockpit.app.screen._actions}
        for name in ("app.quit", "live.stop", "prompt.submit"):
            assert name in actions
        assert "tune.start" not in actions
        assert actions["live.rejected"].key_display == "Ctrl+R"
        await cockpit.resize(100, 40)
        shown = "\n".join(cockpit.lines())
        assert re.search(r"Stop the answer or the load +live\.stop", shown)
        await cockpit.press("end")
        assert "write its id under [keys] in" in " ".join(" ".join(cockpit.lines()).split())
        await cockpit.press("escape")
        await cockpit.ask()
        await cockpit.settled(lambda: "the log (Alt+V) has" in cockpit.said)
        # What nothing else takes goes into the prompt.
        await cockpit.press("tab", "h", "i")
        assert cockpit.app.live.prompt.text == "hi"
        await cockpit.press("!")
        assert cockpit.app.live.prompt.text == "hi!"
        cockpit.threads.log.write_text("llama_model_loader: loaded [meta] data\n")
        await cockpit.press("alt+v")
        assert "llama_model_loader: loaded [meta] data" in cockpit.app.screen.query_one(Log).lines


SLOW = ReadsFromDiskError("RAM has room for half of the weights")


async def test_a_target_that_is_not_loaded_opens_the_picker() -> None:
    cockpit = Cockpit()
    reason = "notes.gguf is not a GGUF file; give the path of a GGUF model"
    pair = Pair(target=TARGET, draft=DRAFT)
    cockpit.script.load_events[0] = [EngineFailed(error=BadInputError(reason), trace=None)]

    async def load(error: DoesNotFitError) -> None:
        cockpit.script.asked.clear()
        cockpit.script.load_events[0] = [EngineFailed(error=error, trace=None)]
        cockpit.choose(pair)
        await cockpit.settled(lambda: isinstance(cockpit.app.screen, QuestionScreen))
        question = str(cockpit.app.screen.query(Static).first().content)
        assert question == str(error).partition("; --yes")[0] + "."

    async with cockpit.shown():
        await picker_opens(cockpit)
        assert cockpit.problem == reason
        # Without room it says so.
        cockpit.script.load_events[0] = [
            EngineFailed(error=DoesNotFitError("CUDA0 has no room; use -c 4096"), trace=None)
        ]
        cockpit.choose(pair)
        await cockpit.settled(lambda: cockpit.problem == "CUDA0 has no room; use -c 4096")
        await picker_opens(cockpit)
        assert cockpit.app.live.activity is Activity.NO_MODEL
        # What would be slow is loaded only if the user says so.
        for key in ("enter", "escape"):
            await load(SLOW)
            await cockpit.press(key)
            await picker_opens(cockpit)
            assert "load from disk" not in cockpit.script.names()
        for key in ("tab", "left"):
            await load(SLOW)
            cockpit.script.load_events[0] = [loaded(Role.TARGET)]
            await cockpit.press(key, "enter")
            await cockpit.is_ready()
            names = [name for name in cockpit.script.names() if name.startswith("load")]
            assert names == ["load", "load from disk", "load_draft"]
            await cockpit.press("f7")
        # A load can be cancelled.
        cockpit.script.load_events[0] = []
        cockpit.choose(pair)
        await cockpit.reach(Activity.LOADING)
        assert cockpit.app.live.loading_bars.has_class("-busy")
        await cockpit.press("escape")
        await picker_opens(cockpit)


async def test_the_demo_models_are_built_before_they_are_loaded() -> None:
    cockpit = Cockpit(launch(pair=None, demo=DemoModel.DENSE))
    built = cockpit.threads.built
    async with cockpit.shown():
        for n, key in enumerate(("escape", "ctrl+c"), start=1):
            await cockpit.reach(Activity.LOADING)
            assert built == [DemoModel.DENSE] * n
            await cockpit.press(key)
            await picker_opens(cockpit)
            assert cockpit.threads.n_stopped_builds == n
            assert cockpit.problem == "The build of the demo models was cancelled."
            # What the build has told meanwhile starts nothing any more.
            cockpit.threads.tell_built(DEMO)
            await cockpit.settled()
            assert "load" not in cockpit.script.names()
            cockpit.choose(DemoModel.DENSE)
        await cockpit.reach(Activity.LOADING)
        cockpit.threads.tell_built(DEMO)
        await cockpit.is_ready()
        assert cockpit.setup.target.path == DEMO[DemoModel.DENSE]
        # Another pair ends a build.
        await cockpit.press("f7")
        cockpit.choose(DemoModel.DENSE)
        await cockpit.settled(lambda: len(built) == 4)
        before = cockpit.threads.n_stopped_builds
        cockpit.app.live.loader.load(Pair(target=TARGET, draft=DRAFT))
        assert cockpit.threads.n_stopped_builds > before
        cockpit.threads.tell_built(DEMO)
        await cockpit.is_ready()
        assert cockpit.setup.target.path == TARGET


class AtOnce(Mailbox[object]):
    """Calls what was posted."""

    def put(self, item: object) -> None:
        assert callable(item)
        item()


@pytest.mark.ci
def test_a_build_that_is_stopped_leaves_no_model_and_tells_nothing_more() -> None:
    told: SimpleQueue[object] = SimpleQueue()
    threads = Threads(AtOnce(lambda: None))
    threads.build_demo(DemoModel.DENSE, told.put, told.put, told.put)
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
    async with cockpit.shown():
        # There is nothing to set yet; keys go on over a screen that is left at once.
        burst(cockpit, "f3", "a", "f1", "escape", "b", "f8", "escape", "c")
        box = cockpit.app.live.query_one(PromptBox)
        await cockpit.settled(lambda: box.text == "abc")
        # What a search needs is still being imported.
        assert not cockpit.app.check_action("tune", ())
        cockpit.threads.tell_unread("/proc is not there")
        cockpit.threads.tell_failure("llama-cpp-python cannot be loaded (x)")
        await picker_opens(cockpit)
        assert cockpit.app.check_action("tune", ())
        assert "/proc is not there" in cockpit.notices
        assert cockpit.problem == "llama-cpp-python cannot be loaded (x)"


async def test_settings_are_applied_from_the_next_answer_on() -> None:
    cockpit = Cockpit()
    # Drafts may be as long as the pair was loaded for.
    cockpit.script.max_draft = 40
    values = {"draft_max": "40", "draft_p_min": "0.25", "temp": "0.7", "system": "Be brief."}
    async with cockpit.loaded():
        await cockpit.press("f3")
        for field, value in values.items():
            cockpit.app.screen.query_one(f"#{field}", Input).value = value
        await cockpit.press("enter")
        changed = cockpit.setup
        assert changed.speculation == Speculation(DraftSimple(draft_max=40, draft_p_min=0.25))
        assert changed.sampling.temp == 0.7
        await cockpit.ask()
        (sent,) = [value for name, value in cockpit.script.asked if name == "send"]
        assert isinstance(sent, tuple)
        assert sent[1] == (("system", "Be brief."), ("user", "hello"))
        # During an answer the draft's key is told to be the next one's.
        await cockpit.reach(Activity.ANSWERING)
        await cockpit.press("f4", "f4")
        assert cockpit.notices == [
            f"The draft is {word} from the next answer on; this one goes on as it is."
            for word in ("off", "on")
        ]
        assert cockpit.setup.speculation == changed.speculation


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

    async with cockpit.loaded():
        box = cockpit.app.live.query_one(PromptBox)
        await cockpit.press("f3")
        burst(cockpit, "8", "tab", "2", "tab", "0", ".", "5", "shift+tab", "home", "delete", "1")
        cockpit.app.post_message(Paste("3"))
        await cockpit.settled(lambda: typed() == ["8", "13", "0.5"])
        # The widget that had the last one is gone.
        burst(cockpit, "5")
        cockpit.app.pop_screen()
        await cockpit.settled(lambda: cockpit.app.screen is cockpit.app.live)
        await cockpit.press("x")
        assert box.text.endswith("x")
        box.text = ""
        # Those that follow the one that opens a screen are that screen's.
        burst(cockpit, "f3", "1", "2", "tab", "2")
        await cockpit.settled(lambda: typed()[:2] == ["12", "2"])
        assert box.text == ""
        await cockpit.press("escape")
        burst(cockpit, "f8")
        # Of a key whose widget was given up, since it went with its screen.
        cockpit.app.post_message(KeyHandled())
        burst(cockpit, "escape", "c")
        await cockpit.settled(lambda: box.text == "c")
        # Ctrl+C empties the prompt before it quits.
        await cockpit.press("ctrl+c")
        assert cockpit.app.is_running
        assert box.text == ""
        await cockpit.press("up")
        assert box.text == "c"
        await cockpit.press("ctrl+c")
        assert cockpit.app.is_running
        await cockpit.pilot.press("ctrl+c")
        assert not cockpit.app.is_running


async def test_a_model_without_a_template_continues_the_text() -> None:
    cockpit = Cockpit(launch(from_disk=True))
    cockpit.script.load_events[0] = [loaded(Role.TARGET, has_chat_template=False)]
    reason = "token 9 differs; choose a draft of the same model family"
    cockpit.script.load_events[1] = [EngineFailed(error=BadInputError(reason), trace=None)]
    cockpit.script.answers.append(answer_events(WORDS))
    async with cockpit.loaded():
        # With --yes nothing is asked, and a draft that fails leaves the target.
        assert cockpit.script.names()[0] == "load from disk"
        assert cockpit.setup.draft is None
        assert reason in cockpit.said
        await cockpit.ask("Once upon a time")
        await cockpit.is_ready()
        await cockpit.ask(" Then")
        sent = [value for name, value in cockpit.script.asked if name == "send"]
        texts = [value[2] for value in sent if isinstance(value, tuple)]
        assert texts == ["Once upon a time", "Once upon a time" + "".join(WORDS) + " Then"]


async def test_at_every_size_what_matters_is_in_view() -> None:
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS))

    def is_in_view(widget: Widget) -> bool:
        return bool(widget.region) and cockpit.app.live.region.contains_region(widget.region)

    async with cockpit.loaded():
        await cockpit.ask()
        await cockpit.is_ready()
        one = cockpit.app.live.query_one
        for width, height in ((63, 24), (64, 24), (40, 12), (25, 24), (120, 40), (30, 10)):
            await cockpit.resize(width, height)
            for kind in (StatusBar, Transcript, PromptBox, KeyBar):
                assert is_in_view(one(kind))
            assert is_in_view(one(Panels)) == (width >= 64)
            assert width < 120 or all(map(is_in_view, cockpit.app.live.query(Panel)))
            assert "The sea is" in "".join(cockpit.lines())
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
async def resumed(*entries: Entry, load: LoadOptions = LOAD) -> AsyncIterator[Cockpit]:
    """A stored session, which is taken up."""
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    draft = None if load.draft is None else str(DRAFT)
    header = Header(started=now(), target=str(TARGET), draft=draft, load=load)
    async with cockpit.shown():
        await picker_opens(cockpit)
        cockpit.choose(StoredSession(path=Path("session.jsonl"), header=header, entries=entries))
        await cockpit.is_ready()
        yield cockpit


async def test_a_stored_session_is_taken_up() -> None:
    # A target that drafted for itself is loaded to do so again.
    own = Speculation(DraftMtp(draft_max=2))
    load = structs.replace(LOAD, draft=None)
    async with resumed(SettingsChange(speculation=own), load=load) as cockpit:
        assert loaded_as(cockpit).speculation == own
    wanted = Speculation(DraftSimple(draft_max=7, draft_p_min=0.5))
    entries = (
        UserTurn(text="2+2?"),
        AnswerPart(text="It is 4.", drafted=((2, 5),)),
        AnswerEnd(note="4 tokens"),
        SettingsChange(speculation=wanted),
    )
    async with resumed(*entries) as cockpit:
        assert cockpit.app.live.transcript.last_answer == "It is 4."
        found = cockpit.setup
        assert found.speculation == loaded_as(cockpit).speculation == wanted
        assert (found.target, found.draft) == (LOAD.target, LOAD.draft)
        assert (found.context, found.extra) == (LOAD.context, ("--jinja",))
        assert recent_sessions(1) == ()
        cockpit.script.answers.append(answer_events(WORDS))
        await cockpit.ask("And 3+3?")
        await cockpit.is_ready()
        # With what follows, the past is stored again: the next start offers all of it.
        (kept,) = recent_sessions(1)
        n_past = len(entries)
        assert kept.entries[:n_past] == entries
        parts = [entry for entry in kept.entries[n_past:] if isinstance(entry, AnswerPart)]
        assert "".join(part.text for part in parts) == "".join(WORDS)
        assert kept.header.load == structs.replace(LOAD, sampling=found.sampling)
        assert cockpit.app.session.chat.messages()[:3] == (
            ("user", "2+2?"),
            ("assistant", "It is 4."),
            ("user", "And 3+3?"),
        )
