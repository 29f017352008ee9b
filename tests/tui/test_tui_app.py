"""How the app connects its screens: tuning, export and picking over a scripted engine."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from textual import events
from textual.command import CommandList
from textual.widgets import Input, Static, TextArea
from textual.widgets._footer import FooterKey

from spectui.commands.sources.processes import RunningServer
from spectui.commands.sources.reading import read_command
from spectui.engine.events import TokenEmitted
from spectui.live.sessions import AnswerPart, Entry, Header, SessionLog, UserTurn, now
from spectui.live.setup import Activity
from spectui.models.ranking import ModelInspected
from spectui.presets import Preset
from spectui.prompts import Prompt, builtin_suite
from spectui.settings import Settings
from spectui.tui import app as app_module
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.export import ExportScreen, export_choices
from spectui.tui.launch import Launch, Pair
from spectui.tui.look import plain
from spectui.tui.picker.lists import TargetList
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.tune.form import PromptSource, TuneSetup, Wanted
from spectui.tui.widgets import StatusBar
from spectui.tune.progress import Phase, TuningState
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    answer_events,
    facts,
    found,
    handled,
    has_mail,
    launch,
)
from tests.tui.test_tui_tune import (
    FORECASTS,
    PREDICTED,
    RECORDS,
    SEARCHING,
    TURN_OFF,
    USE_IT,
    tuned,
)

WORDS = ("The", " sea", " is", " wide", ".")


# Tuning


def started_with(cockpit: Cockpit) -> tuple[Prompt, ...]:
    """The prompts of the last search."""
    value = [value for name, value in cockpit.script.asked if name == "start_tuning"][-1]
    assert isinstance(value, tuple)
    prompts: tuple[Prompt, ...] = value[1]
    return prompts


async def test_a_search_has_the_prompts_that_were_asked_for(tmp_path: Path) -> None:
    cockpit = Cockpit()
    cockpit.script.answers += [answer_events(WORDS), answer_events(WORDS)]
    path = tmp_path / "mine.jsonl"
    files = Wanted(source=PromptSource.FILES, path=path)
    turns = Wanted(source=PromptSource.CHAT)
    async with cockpit.loaded():
        # A chat needs turns, and files have to be read.
        cockpit.app.tune.start(turns)
        await handled(cockpit.pilot)
        assert len(cockpit.notices) == 1
        await cockpit.press("f5", "right")
        for content in (None, "not json\n"):
            if content is not None:
                path.write_text(content)
            cockpit.app.tune.start(files)
            await handled(cockpit.pilot)
            assert isinstance(cockpit.app.focused, Input)
            assert "mine.jsonl" in form_problem(cockpit)
        assert "start_tuning" not in cockpit.script.names()
        assert len(cockpit.notices) == 1
        path.write_text('{"id": "a", "category": "c", "prompt": "hello", "answer": "x"}\n')
        cockpit.app.tune.start(files)
        await handled(cockpit.pilot)
        assert cockpit.notices[-1] == "1 prompt of mine.jsonl: passed over: answer."
        assert [prompt.text for prompt in started_with(cockpit)] == ["hello"]
        for text in ("one", "two"):
            cockpit.app.session.ask(text)
            await cockpit.is_ready()
        cockpit.app.tune.start(turns)
        prompts = started_with(cockpit)
        assert [prompt.messages[-1].content for prompt in prompts] == ["one", "two"]
        export = tmp_path / "export.json"
        export.write_text(
            '[{"conversations": [{"from": "human", "value": "hi"},'
            ' {"from": "gpt", "value": "ho"}]}]'
        )
        cockpit.app.tune.start(Wanted(source=PromptSource.EXPORT, path=export))
        assert started_with(cockpit) == ()
        assert cockpit.script.chats is not None
        assert [prompt.answer for prompt in cockpit.script.chats.prompts] == ["ho"]


async def test_the_search_names_its_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cockpit = Cockpit()
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text("Say something.")

    def is_named() -> bool:
        return any("p.txt (1 prompt)" in line for line in cockpit.lines())

    async with cockpit.loaded(size=(200, 40)):
        await cockpit.press("f5", "right", "tab", *"p.txt", "tab", "7", "enter")
        assert [prompt.text for prompt in started_with(cockpit)] == ["Say something."]
        assert cockpit.script.time_budget_s == 7 * 60
        await cockpit.tell(SEARCHING)
        assert is_named()
        await cockpit.press("escape", "f5")
        assert is_named()
        await cockpit.tell(USE_IT)
        assert not is_named()


def form_problem(cockpit: Cockpit) -> str:
    form = cockpit.app.screen.query_one(TuneSetup)
    assert form.display
    return str(form.query_one("#problem", Static).render())


async def test_a_failed_search_says_why() -> None:
    cockpit = Cockpit()
    reason = "prompt long-1 has 764 tokens, but the context has 512; raise -c"
    never_began = TuningState(phase=Phase.FAILED, error=reason)
    async with cockpit.loaded():
        await cockpit.tell(USE_IT)
        # In the form, while that is shown.
        await cockpit.press("f5", "s", "s")
        await cockpit.tell(TuningState(phase=Phase.STARTING))
        cockpit.tuning(never_began)
        await cockpit.settled(lambda: not cockpit.app.tune.is_measuring)
        assert reason in form_problem(cockpit)
        failed = TuningState(phase=Phase.FAILED, study="a study", error="the disk is full")
        await cockpit.tell(failed)
        assert any("the disk is full" in line for line in cockpit.lines())
        assert not cockpit.notices
        while not cockpit.is_live:
            await cockpit.press("escape")
        # What the search still tells is nobody's to show: the screen is closed.
        await cockpit.tell(SEARCHING)
        assert cockpit.is_live
        await cockpit.tell(TuningState(phase=Phase.STARTING))
        cockpit.tuning(never_began)
        await cockpit.settled(lambda: cockpit.notices == [f"{reason}."])


async def test_without_a_pair_there_is_nothing_to_tune_and_a_target_alone_is_tuned() -> None:
    cockpit = Cockpit(launch(pair=None))
    async with cockpit.shown():
        await picker(cockpit)
        await cockpit.press("f6")
        assert any("nothing to export" in told for told in cockpit.notices)
        await cockpit.press("f5")
        assert any("nothing to tune" in told for told in cockpit.notices)
        assert isinstance(cockpit.app.screen, PickerScreen)
        cockpit.choose(Pair(target=TARGET, draft=None))
        await cockpit.is_ready()
        cockpit.app.clear_notifications()
        cockpit.app.tune.start(Wanted(source=PromptSource.BUILTIN))
        await handled(cockpit.pilot)
        assert not cockpit.notices
        assert started_with(cockpit) == builtin_suite()


async def test_a_search_step_by_step() -> None:
    cockpit = Cockpit()
    bar = cockpit.app.live.query_one
    async with cockpit.loaded():
        await cockpit.press("f5", "s")
        assert started_with(cockpit) == builtin_suite()
        await cockpit.tell(SEARCHING)
        await cockpit.press("x")
        assert cockpit.script.names()[3:] == ["start_tuning", "end_tuning"]
        await cockpit.tell(USE_IT)
        await cockpit.press("enter")
        assert cockpit.setup.speculation == RECORDS[3].arm.speculation
        await cockpit.press("f6")
        assert isinstance(cockpit.app.screen, ExportScreen)
        await cockpit.press("escape", "escape")
        # Ctrl+C ends each search, and then the app.
        confirming = replace(SEARCHING, phase=Phase.CONFIRMING, n_done=5, n_steps=20)
        for state, said in ((SEARCHING, "tuning •"), (confirming, "tuning 5/20")):
            await cockpit.tell(state)
            assert said in str(bar(StatusBar).right.content)
        await cockpit.press("ctrl+c")
        assert "stopping the search" in str(bar(StatusBar).right.content)
        await cockpit.tell(USE_IT)
        assert "tuning" not in str(bar(StatusBar).right.content)
        await cockpit.tell(SEARCHING)
        await cockpit.press("ctrl+c")
        # The search tells of a prompt that it has measured, before it hears of the end.
        await cockpit.tell(replace(SEARCHING, n_done=3))
        await cockpit.pilot.press("ctrl+c")
        assert not cockpit.app.is_running
    assert cockpit.script.names().count("end_tuning") == 3


async def test_the_screen_is_quiet_while_a_trial_is_measured_and_no_first_word_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Longer than anybody waits here.
    monkeypatch.setattr(app_module, "_QUIET_S", 3600.0)
    cockpit = Cockpit()
    cockpit.script.answers.append(answer_events(WORDS)[:1])
    async with cockpit.loaded():
        pace = cockpit.app._pace
        lively_s = pace.interval_s
        await cockpit.tell(SEARCHING)
        assert pace.interval_s > lively_s
        # Elsewhere tests wait for no repaint; a question ends the wait for this one.
        monkeypatch.setattr(pace, "delay_s", lambda: pace.interval_s)
        cockpit.tuning(SEARCHING)
        await cockpit.pilot.pause()
        assert has_mail(cockpit.app)
        cockpit.app.session.ask("hello")
        await cockpit.settled(lambda: pace.interval_s < lively_s)
        cockpit.app._mailbox.put(TokenEmitted(token=0, piece=b"Light", from_draft=False))
        await cockpit.settled(lambda: pace.interval_s == lively_s)
        assert "Light" in cockpit.said


# Export


async def test_the_live_settings_and_what_tuning_found_are_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cockpit = Cockpit()
    monkeypatch.chdir(tmp_path)

    def text() -> str:
        assert isinstance(cockpit.app.screen, ExportScreen)
        return cockpit.app.screen.query_one(TextArea).text

    async with cockpit.loaded():
        await cockpit.press("f6")
        # One core is left to the screen: what was measured is what will run.
        for words in ("--spec-draft-n-max 4", "--cpu-moe", "-t 7"):
            assert words in text()
        await cockpit.press("c")
        # An option a line is for readers: a clipboard has it on one.
        assert cockpit.app.clipboard == text().replace(" \\\n  ", " ")
        await cockpit.press("s")
        (path,) = tmp_path.glob("Qwen3*")
        assert path.read_text("utf-8")
        await cockpit.press("escape")
        await cockpit.tell(USE_IT)
        await cockpit.press("f6")
        assert "--spec-draft-n-max 6" in text()


# Choosing models


async def picker(cockpit: Cockpit) -> PickerScreen:
    def is_there() -> bool:
        screen = cockpit.app.screen
        return isinstance(screen, PickerScreen) and bool(screen.query("#targets"))

    await cockpit.settled(is_there)
    return cast("PickerScreen", cockpit.app.screen)


async def test_what_may_be_chosen() -> None:
    own = ["~nobody-of-that-name/models", "~/mine"]
    settings = Settings(keep_sessions=False, model_folders=own)
    cockpit = Cockpit(launch(pair=None, settings=settings))
    cockpit.threads.found = (found(TARGET.stem, 20_000), found(DRAFT.stem))
    async with cockpit.shown():
        screen = await picker(cockpit)
        # A user that is unknown does not keep it closed.
        folders = (Path("~nobody-of-that-name/models"), Path.home() / "mine")
        assert tuple(screen._folders)[:2] == folders
        targets = screen.query_one(TargetList)
        targets.highlighted = targets.get_option_index(str(TARGET))
        await handled(cockpit.pilot)
        fits = ModelInspected(target=TARGET, path=DRAFT, facts=facts(DRAFT), reason=None)
        cockpit.threads.post(fits)
        await cockpit.settled()
        await cockpit.press("enter", "enter")
        await cockpit.is_ready()
        steps = [name for name in cockpit.script.names() if name != "forget_comparisons"]
        assert steps == ["compare", "load", "load_draft", "measure_baseline"]
        assert ("compare", (TARGET, DRAFT)) in cockpit.script.asked
        # Over a loaded pair the picker can be left.
        assert cockpit.is_live
        await cockpit.press("f7")
        await picker(cockpit)
        await cockpit.press("escape")
        await cockpit.settled(lambda: cockpit.is_live)
        # What a scan still finds is nobody's business any more.
        cockpit.threads.tell_found(found("late"))
        await cockpit.settled()
        assert cockpit.app.live.activity is Activity.READY
        alone = Pair(target=Path("/alone.gguf"), draft=None)
        for choice in (alone, Preset(name="small", path=Path("small.toml"))):
            cockpit.script.asked.clear()
            await cockpit.press("f7")
            await picker(cockpit)
            cockpit.choose(choice)
            await cockpit.is_ready()
            assert "load_draft" not in cockpit.script.names()
            name = "alone" if choice is alone else "small"
            assert cockpit.setup.target.path == Path(f"/{name}.gguf")


async def test_a_command_that_is_pasted_or_runs_may_be_chosen() -> None:
    words = "llama-server -m /mine.gguf -md /my-draft.gguf --port 8123"
    server, start = RunningServer(pid=77, command=read_command(words)), launch(pair=None)

    def with_command(text: str) -> Launch:
        return start.with_command(words if text == server.text else text)

    cockpit = Cockpit(replace(start, with_command=with_command))

    async def is_loaded() -> None:
        await cockpit.is_ready()
        wanted = cockpit.setup
        assert wanted.target.path == Path("/mine.gguf")
        assert wanted.draft is not None
        assert wanted.draft.path == Path("/my-draft.gguf")

    cockpit.threads.servers = (server,)
    async with cockpit.shown():
        screen = await picker(cockpit)
        await cockpit.settled(lambda: screen.targets.value == server)
        assert "http://127.0.0.1:8123" in str(screen.query_one("#detail", Static).content)
        await cockpit.press("enter")
        await is_loaded()
        cockpit.app.choose_models(None)
        screen = await picker(cockpit)
        screen.post_message(events.Paste("llama-server -c"))
        await cockpit.settled(lambda: "-c lacks its value" in cockpit.problem)
        assert cockpit.app.screen is screen
        cockpit.script.asked.clear()
        screen.post_message(events.Paste(f"  {words}\n"))
        await cockpit.settled(lambda: "load_draft" in cockpit.script.names())
        await is_loaded()


def store(name: str, *entries: Entry) -> None:
    """Keep an earlier session."""
    log = SessionLog(Header(started=now(), target=str(TARGET), draft=None))
    for entry in entries:
        log.append(entry)
    log.close()
    assert log.path is not None
    log.path.rename(log.path.with_stem(name))


async def test_sessions_are_offered_once_each_and_taken_up() -> None:
    four, six = (AnswerPart(text=text, drafted=()) for text in ("4", "6"))
    said = (UserTurn(text="2+2?"), four, UserTurn(text="3+3?"), six)
    for n, entries in enumerate((said[:1], said[:2], (UserTurn(text="other"),), said)):
        store(f"20260101T00000{n}", *entries)
    cockpit = Cockpit(launch(pair=None, settings=Settings()))
    cockpit.script.answers.append(answer_events(WORDS))
    async with cockpit.shown():
        screen = await picker(cockpit)
        await cockpit.settled(lambda: bool(screen.targets._recent))
        last, other = screen.targets._recent
        # A chat that was taken up is one.
        assert (last.prompts, other.prompts) == (("2+2?", "3+3?"), ("other",))
        cockpit.choose(last)
        await cockpit.is_ready()
        assert cockpit.app.live.transcript.last_answer == "6"
        # Prompts of earlier sessions are recalled once, and before those of this one.
        box = cockpit.app.live.query_one(PromptBox)
        await cockpit.press("m", "e", "enter")
        await cockpit.is_ready()
        # The picker looks again at what is stored, which adds nothing.
        await cockpit.press("f7", "escape")
        seen = []
        for _ in range(5):
            await cockpit.press("up")
            seen.append(box.text)
        assert seen == ["me", "3+3?", "2+2?", "other", "other"]


# Every screen

SCREENS: dict[str, tuple[str, ...]] = {
    "live": (),
    "help": ("f1",),
    "settings": ("f3",),
    "tune": ("f5",),
    "replay": ("f10",),
    "export": ("f6",),
    "picker": ("f7",),
    "filter of the picker": ("f7", "slash"),
    "drafts of the picker": ("f7", "right"),
    "log": ("f8",),
    "palette": ("ctrl+p",),
}


async def test_every_screen_is_ascii_if_asked_and_has_its_keys_in_80_columns() -> None:
    assert plain("a…漢─╭e\u0301!") == "a.??-+e!"
    pair = Pair(target=Path(f"/models/{'x' * 200}.gguf"), draft=DRAFT)
    notice = "Something that is worth a toast."
    settings = Settings(keep_sessions=False, ascii=True)
    cockpit = Cockpit(launch(settings=settings, notice=notice, pair=pair))

    def look(screen: str) -> None:
        lines = cockpit.lines()
        assert any(line.strip() for line in lines), screen
        assert [line for line in lines if not line.isascii()] == [], screen
        keys = list(cockpit.app.screen.query(FooterKey))
        assert keys or screen == "palette"
        assert [key for key in keys if key.region.right > 80] == [], screen
        shown = {key.key_display for key in keys if key.display}
        # A dialog goes before anything else can be done.
        assert "^Q" in shown or cockpit.app.screen.is_modal, screen
        if screen == "live":
            assert shown >= {"F1", "F2", "F3", "F4", "F5", "^Q"}
            # What is cut is cut in ASCII.
            assert "xxx." in lines[0]

    async with cockpit.loaded(size=(80, 24)):
        # While an answer is written.
        cockpit.app.session.ask("hello")
        await cockpit.settled()
        for screen, keys in SCREENS.items():
            await cockpit.press(*keys)
            look(screen)
            while not cockpit.is_live:
                await cockpit.press("escape")
        await cockpit.press("f5")
        for state in (SEARCHING, USE_IT):
            await cockpit.tell(state)
            look("tune")


async def test_the_palette_lists_looks_by_name() -> None:
    cockpit = Cockpit()
    async with cockpit.loaded():
        commands = {one.title: one for one in cockpit.app.get_system_commands(cockpit.app.screen)}
        assert commands.keys() == {
            "Picture",
            *(f"Look: {name}" for name in cockpit.app.available_themes),
        }
        commands["Look: spectui-light"].callback()
        assert cockpit.app.theme == "spectui-light"
        await cockpit.press("ctrl+p")
        listed = cockpit.app.screen.query_one(CommandList)
        await cockpit.settled(lambda: listed.option_count == len(commands))


async def test_the_footer_has_what_the_screen_does_first_and_then_function_keys_by_number() -> None:
    cockpit = Cockpit()

    def keys() -> list[FooterKey]:
        return list(cockpit.app.screen.query(FooterKey))

    def names() -> list[str]:
        return [key.key_display for key in keys()]

    async with cockpit.loaded():
        assert names() == [*(f"F{n}" for n in range(1, 11)), "^Q"]
        await cockpit.press("f1")
        assert names() == ["Esc"]
        await cockpit.press("escape")
        await cockpit.tell(USE_IT)
        await cockpit.press("f5", "f5")
        # Tuning needs no key to be opened.
        assert names() == ["Enter", "s", "Esc", "F1", "F6", "F7", "F8", "F10", "^Q"]
        await cockpit.resize(32, 24)
        assert [key.key_display for key in keys() if key.display] == ["Esc", "F1", "^Q"]
        await cockpit.press("escape")
        cockpit.app.session.ask("hello")
        await cockpit.settled(lambda: cockpit.app.live.activity is Activity.ANSWERING)
        assert "Stop" in [key.description for key in keys()]


# What the screens tell


def test_what_was_found_is_exported_as_the_note_beside_it_says() -> None:
    live = launch().make_setup(Pair(target=Path("/t.gguf"), draft=Path("/d.gguf")))
    for state, exports, note in (
        (SEARCHING, True, "not confirmed"),
        (replace(TURN_OFF, result=tuned(interrupted=True)), True, "not confirmed"),
        (PREDICTED, True, "not confirmed"),
        (USE_IT, True, "worth +34 %"),
        (TURN_OFF, False, "Turn it off"),
    ):
        first, second, _off = export_choices(live, state).items()
        # What is not confirmed does not come first.
        label, (setup, told) = first if state.confirmed else second
        assert label == ("found by tuning" if state.confirmed else "best so far")
        best = FORECASTS[0].arm if state is PREDICTED else RECORDS[3].arm
        assert setup.speculation == (best.speculation if exports else None)
        assert note in told
