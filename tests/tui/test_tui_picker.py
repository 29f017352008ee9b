"""The picker: what can be chosen, how, and why not; every action by keyboard and by mouse."""

import asyncio
import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Input, Static

from spectui.demo import DemoModel
from spectui.live.setup import Pair
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel, Scan
from spectui.models.ranking import ModelInspected
from spectui.presets import Preset
from spectui.sessions import Header, Session, UserTurn
from spectui.tui.colours import ColouredApp
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.picker.controller import Choice, PickerController
from spectui.tui.picker.drafts import DraftList
from spectui.tui.picker.folder import FolderScreen
from spectui.tui.picker.list import Cell, PickerList, Row, short_folder, visible
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.picker.targets import OPEN_FOLDER, PASTE, TargetList
from spectui.tui.text.display import clip, fit
from tests.support.cockpit import Recorder, handled, press_keys, resize
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, write_tiny

GB = 10**9
SIZES = ((80, 24), (120, 40), (200, 60))
LONG_REASON = (
    "the vocabularies differ in size: 151936 (target), 49152 (draft), at most 128 apart is allowed"
)


def found(name: str, size_bytes: int, missing: tuple[str, ...] = ()) -> FoundModel:
    return FoundModel(
        path=Path(f"/models/{name}.gguf"),
        name=name,
        size_bytes=size_bytes,
        n_shards=1 + len(missing),
        missing=missing,
    )


BIG = found("Big-30B-Q4_K_M", 18 * GB)
GOOD = found("Good-1B-Q8_0", GB)
LARGER_DRAFT = found("Other-3B-Q8_0", 3 * GB)
BROKEN = found("Broken-70B-Q2_K", 40 * GB, missing=("Broken-70B-Q2_K-00002-of-00002.gguf",))
MODELS = (BIG, GOOD, LARGER_DRAFT, BROKEN)

RECENT = Session(
    path=Path("recent.jsonl"),
    header=Header(
        started=datetime(2026, 5, 3, 14, 2, tzinfo=UTC), target=str(BIG.path), draft=str(GOOD.path)
    ),
    entries=(
        UserTurn(text="What does the keeper of the lighthouse see at night?"),
        *(UserTurn(text="And then?") for _ in range(11)),
    ),
)
PRESET = Preset(name="mine", path=Path("mine.toml"), description="Two of mine.", options={})


def facts(model: FoundModel) -> ModelFacts:
    return ModelFacts(
        path=model.path,
        arch="llama",
        name=model.name,
        n_params=1_000_000_000,
        size_bytes=model.size_bytes,
        file_bytes=model.size_bytes,
        n_layers=16,
        n_ctx_train=8192,
        n_vocab=32_000,
        kv_bytes_per_token=1000,
        n_experts=0,
        read_bytes_per_token=model.size_bytes,
    )


def inspected(
    draft: FoundModel, reason: str | None = None, target: FoundModel = BIG
) -> ModelInspected:
    return ModelInspected(target=target.path, path=draft.path, facts=facts(draft), reason=reason)


class PickerApp(ColouredApp[None]):
    """A picker over a controller that only hears."""

    def __init__(self, picker: PickerScreen, controller: Recorder, glyphs: Glyphs) -> None:
        super().__init__()
        self.animation_level = "none"
        self.glyphs = glyphs
        self.picker = picker
        self.told = controller.heard
        self.n_bells = 0

    def on_mount(self) -> None:
        self.push_screen(self.picker)

    def bell(self) -> None:
        self.n_bells += 1


class Stage:
    """The picker as a user and its owner see it."""

    def __init__(self, app: PickerApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.picker = app.picker

    @property
    def targets(self) -> TargetList:
        return self.picker.query_one(TargetList)

    @property
    def drafts(self) -> DraftList:
        return self.picker.query_one(DraftList)

    @property
    def detail(self) -> str:
        return str(self.picker.query_one("#detail", Static).content)

    @property
    def status(self) -> str:
        return str(self.picker.query_one("#status", Static).content)

    @property
    def choices(self) -> list[Choice]:
        return [cast("Choice", wish[1]) for wish in self.app.told if wish[0] == "choose"]

    def take(self) -> list[Choice]:
        """What was chosen since the last look."""
        chosen = self.choices
        self.app.told.clear()
        return chosen

    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines())

    async def press(self, *keys: str) -> None:
        await press_keys(self.pilot, *keys)

    async def show(self, *models: FoundModel) -> None:
        for model in models:
            self.picker.add_model(model)
        self.picker.scan_finished(())
        await handled(self.pilot)

    async def inspect(self, *results: ModelInspected) -> None:
        for result in results:
            self.picker.show_inspection(result)
        await handled(self.pilot)

    async def look_at(self, model: FoundModel) -> None:
        self.targets.highlight_model(model.path)
        await handled(self.pilot)

    async def go_to(self, draft: FoundModel) -> None:
        self.drafts.highlighted = self.drafts.get_option_index(str(draft.path))
        await handled(self.pilot)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await handled(self.pilot)

    async def open_folder_dialog(self) -> FolderScreen:
        await self.press("o")
        await self.until(lambda: isinstance(self.app.screen, FolderScreen))
        await handled(self.pilot)
        assert isinstance(self.app.screen, FolderScreen)
        return self.app.screen


@asynccontextmanager
async def picking(
    *,
    folders: Sequence[Path] = (Path("/models"),),
    recent: Sequence[Session] = (),
    presets: Sequence[Preset] = (),
    n_ctx: int = 4096,
    can_close: bool = False,
    glyphs: Glyphs = UNICODE,
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[Stage]:
    """A picker on the screen."""
    controller = Recorder()
    picker = PickerScreen(
        cast("PickerController", controller),
        folders=folders,
        recent=recent,
        presets=presets,
        n_ctx=n_ctx,
        can_close=can_close,
    )
    app = PickerApp(picker, controller, glyphs)
    async with app.run_test(size=size) as pilot:
        await handled(pilot)
        async with asyncio.timeout(60):
            yield Stage(app, pilot)


async def test_from_the_first_look_to_the_choice_with_enter_alone() -> None:
    async with picking() as stage:
        await stage.show(*MODELS)
        await stage.look_at(BIG)
        await stage.inspect(inspected(GOOD), inspected(LARGER_DRAFT))
        await stage.press("enter")
        assert stage.drafts.has_focus
        await stage.press("enter")
        assert stage.app.told == [
            ("forget_comparisons",),
            ("compare", BIG, (GOOD, LARGER_DRAFT)),
            ("choose", Pair(target=BIG.path, draft=GOOD.path)),
        ]


async def test_what_can_be_chosen_and_why_not() -> None:
    why = "CUDA0 has no room: 3 GB are needed, 2 GB are free"
    slowness = "1 GB of the weights have no room in RAM: they are read from disk again and again"
    async with picking(n_ctx=100_000) as stage:
        await stage.show(*MODELS)
        await stage.look_at(BIG)
        # One that is still being checked, and none.
        await stage.press("enter", "down")
        assert "checking" in stage.text()
        assert stage.detail.startswith("Is being checked.")
        await stage.press("enter", "home", "enter")
        assert stage.take() == [
            Pair(target=BIG.path, draft=GOOD.path),
            Pair(target=BIG.path, draft=None),
        ]
        # An unfit one cannot be chosen, and its reason is read in full.
        await stage.inspect(inspected(GOOD, LONG_REASON), inspected(LARGER_DRAFT))
        await stage.go_to(GOOD)
        for width, height in SIZES:
            await resize(stage.pilot, width, height)
            assert "unfit" in stage.text()
            assert f"Cannot be the draft: {LONG_REASON}." in " ".join(stage.text().split())
        await stage.press("enter")
        assert stage.take() == []
        assert stage.app.n_bells == 1
        await stage.inspect(inspected(GOOD, why))
        assert stage.detail == f"Cannot be the draft: {why}."
        await stage.inspect(replace(inspected(GOOD), slowness=slowness))
        await stage.go_to(GOOD)
        (row,) = (line for line in stage.lines() if "> Good-1B" in line)
        assert "slow" in row
        assert stage.detail.startswith("Slow: ")
        assert stage.detail.endswith(f"{slowness}.")
        await stage.press("enter")
        assert stage.take() == [Pair(target=BIG.path, draft=GOOD.path)]
        await stage.inspect(inspected(GOOD))
        assert stage.detail == (
            "Fits: 1.1 GB of memory with its cache, llama, 1B parameters, 16 layers, "
            "trained for 8192 tokens"
        )


async def test_targets_that_are_incomplete_or_no_language_model_cannot_be_chosen() -> None:
    cut = dataclasses.replace(GOOD, cut=("Good-1B-Q8_0.gguf",))
    async with picking() as stage:
        await stage.show(*MODELS)
        await stage.look_at(BROKEN)
        await stage.press("enter")
        assert stage.targets.has_focus
        assert stage.app.n_bells == 1
        assert stage.detail == (
            "Cannot be the target: is incomplete: of its 2 files "
            "Broken-70B-Q2_K-00002-of-00002.gguf cannot be found."
        )
        await stage.press("right", "home", "enter", "left")
        assert stage.take() == []
        await stage.look_at(BIG)
        await stage.inspect(inspected(BIG, "it is no language model"))
        assert stage.detail == "Cannot be the target: it is no language model."
        await stage.press("enter")
        assert stage.targets.has_focus
    async with picking() as stage:
        await stage.show(cut, BIG)
        assert "incomplete" in next(line for line in stage.lines() if "Good-1B" in line)
        await stage.look_at(cut)
        reason = "is cut short: Good-1B-Q8_0.gguf ends before its tensors do; download it again"
        assert stage.detail == f"Cannot be the target: {reason}."
        await stage.press("enter")
        assert stage.app.n_bells == 1
        await stage.look_at(BIG)
        (option,) = stage.drafts.ranked
        assert option.reason == reason
        # Nobody asks about it.
        assert "compare" not in [wish[0] for wish in stage.app.told]


async def test_the_best_draft_is_highlighted_as_results_arrive_until_the_user_goes_there() -> None:
    async with picking() as stage:
        await stage.show(*MODELS)
        # Results for another target change nothing here and are kept.
        await stage.look_at(LARGER_DRAFT)
        await stage.inspect(inspected(BROKEN))
        assert stage.drafts.key == "alone"
        await stage.look_at(BIG)
        assert stage.app.told[-1][:2] == ("compare", BIG)
        # One that would be slow is none.
        await stage.inspect(replace(inspected(LARGER_DRAFT), slowness="it is read from disk"))
        assert stage.drafts.key == "alone"
        await stage.inspect(inspected(LARGER_DRAFT))
        assert stage.drafts.key == str(LARGER_DRAFT.path)
        await stage.inspect(inspected(GOOD))
        assert stage.drafts.key == str(GOOD.path)
        await stage.press("enter", "down")
        held = stage.drafts.key
        assert held != str(GOOD.path)
        await stage.inspect(inspected(BROKEN))
        stage.picker.add_model(found("Smaller-1B-Q4_0", GB // 2))
        await handled(stage.pilot)
        assert stage.drafts.key == held


async def test_a_target_of_experts_wants_a_draft_as_small_as_what_its_tokens_read() -> None:
    async with picking() as stage:
        thin = found("Thin-0.1B-Q8_0", GB // 10)
        await stage.show(BIG, GOOD, thin)
        await stage.look_at(BIG)
        await stage.inspect(inspected(GOOD), inspected(thin))
        assert stage.drafts.key == str(GOOD.path)
        active = dataclasses.replace(facts(BIG), read_bytes_per_token=2 * GB)
        await stage.inspect(dataclasses.replace(inspected(BIG), facts=active))
        assert stage.drafts.key == str(thin.path)


async def test_models_that_arrive_move_nothing_and_are_one_row_each() -> None:
    controller = Recorder()
    picker = PickerScreen(cast("PickerController", controller), folders=())
    # Before the first paint.
    picker.add_model(BIG)
    picker.add_model(BIG)
    for _ in range(2):
        picker.scan_finished(("/secret cannot be read (Permission denied)",))
    app = PickerApp(picker, controller, UNICODE)
    async with app.run_test(size=(80, 24)) as pilot:
        await handled(pilot)
        stage = Stage(app, pilot)
        assert stage.targets.models == (BIG,)
        # What could not be read is said once.
        assert stage.text().count("/secret cannot be read (Permission denied)") == 1
        await stage.look_at(BIG)
        for index in range(100):
            stage.picker.add_model(found(f"m{index}", GB))
        await handled(pilot)
        assert stage.targets.key == str(BIG.path)
        assert f"> {BIG.name}" in stage.text()


async def test_earlier_pairs_presets_and_the_demo_are_one_key_away() -> None:
    async with picking(recent=[RECENT], presets=[PRESET]) as stage:
        for width, height in SIZES:
            await resize(stage.pilot, width, height)
            (row,) = (line for line in stage.lines() if "> Big-30B-Q4_K_M" in line)
            assert "with Good-1B-Q8_0" in row
            assert "What does the" in row
            when = RECENT.header.started.astimezone()
            assert f"{when:%m-%d %H:%M}" in row
            assert stage.detail.startswith(f"{when:%Y-%m-%d %H:%M}, 12 turns.")
            assert f"{BIG.path} + {GOOD.path}" in stage.text()
        for n_down, choice in ((0, RECENT), (3, PRESET), (4, DemoModel.DENSE)):
            does = "takes this chat up again" if choice is RECENT else "starts it with the draft"
            await stage.press("home", *["down"] * n_down, "enter")
            assert stage.take() == [choice]
            assert f"Enter {does}" in stage.text()


async def test_own_models_stand_before_all_else_that_was_not_used_yet() -> None:
    async with picking(presets=[PRESET], size=(80, 24)) as stage:
        seen = [stage.targets.value]
        # Earlier pairs that come late take the first row.
        stage.targets.show_recent([RECENT])
        seen.append(stage.targets.value)
        await stage.press("down")
        # Not where someone has gone elsewhere.
        again = msgspec.structs.replace(RECENT, entries=RECENT.entries[:1])
        stage.targets.show_recent([RECENT, again])
        seen.append(stage.targets.value)
        assert seen == [OPEN_FOLDER, RECENT, OPEN_FOLDER]
        # The row behind the models opens a folder.
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, FolderScreen))
    async with picking(presets=[PRESET], size=(80, 24)) as stage:
        await stage.show(*MODELS)
        values = [entry.value for entry in stage.targets.entries]
        assert values == [*MODELS, OPEN_FOLDER, PASTE, PRESET, DemoModel.DENSE]
        assert stage.targets.value == BIG
        assert all(model.name in stage.text() for model in MODELS)


async def test_a_click_looks_and_a_second_one_chooses() -> None:
    async with picking() as stage:
        before = stage.targets.key
        # A heading.
        await stage.pilot.click(stage.targets, offset=(2, 0))
        await handled(stage.pilot)
        assert stage.targets.key == before
        assert stage.app.told == []
        await stage.show(*MODELS)
        await stage.inspect(inspected(GOOD))

        async def click(list_: PickerList, key: str) -> None:
            index = list_.get_option_index(key)
            await stage.pilot.click(list_, offset=(4, list_._index_to_line[index]))
            await handled(stage.pilot)

        await click(stage.targets, str(BIG.path))
        assert stage.targets.key == str(BIG.path)
        await click(stage.drafts, str(LARGER_DRAFT.path))
        assert stage.drafts.key == str(LARGER_DRAFT.path)
        assert stage.choices == []
        await click(stage.drafts, str(LARGER_DRAFT.path))
        assert stage.choices == [Pair(target=BIG.path, draft=LARGER_DRAFT.path)]


async def test_the_filter_leaves_what_contains_every_word_and_escape_restores_all() -> None:
    async with picking() as stage:
        # A model that arrives obeys it.
        await stage.press("slash", *"good")
        await stage.show(*MODELS)
        assert [entry.value for entry in stage.targets.entries] == [GOOD, OPEN_FOLDER]
        await stage.press("escape", "slash", *"q8", "space", *"goo")
        assert [entry.value for entry in stage.targets.entries] == [GOOD, OPEN_FOLDER]
        await stage.press("escape")
        assert stage.targets.has_focus
        assert len(stage.targets.entries) == 3 + len(MODELS)
        for key in ("enter", "down"):
            await stage.press("slash", *"broken", key)
            assert stage.targets.has_focus
            assert stage.targets.key == str(BROKEN.path)
            await stage.press("slash", "escape")
        await stage.press("slash", *"zzz")
        assert "Escape shows all again." in stage.text()


async def test_how_it_is_left() -> None:
    def marked() -> list[str]:
        titles = stage.picker.query(".title").results(Static)
        return [str(title.content) for title in titles if title.rich_style.reverse]

    async with picking() as stage:
        await stage.show(*MODELS)
        assert "Back" not in stage.lines()[-1]
        # Escape leads from the drafts to the targets; the list that has the keys is marked.
        for key in ("escape", "left"):
            assert marked() == ["Target"]
            await stage.press("right")
            assert marked() == ["Draft"]
            assert "Back" in stage.lines()[-1]
            await stage.press(key)
            assert stage.targets.has_focus
        await stage.press("escape")
        assert stage.app.screen is stage.picker
        await stage.press("slash", "q")
        assert stage.picker.query_one("#filter", Input).value == "q"
        await stage.press("escape", "q")
        assert stage.app._exit
    async with picking(can_close=True) as stage:
        await stage.press("escape")
        assert stage.app.screen is not stage.picker


def _says(label: Static, sentence: str) -> bool:
    return sentence in str(label.content)


def folder_names(dialog: FolderScreen) -> list[str | None]:
    return [entry.id for entry in dialog.query_one(PickerList).entries]


class TestOpeningAFolder:
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("alpha", "beta", ".hidden", "alpha/inner"):
            (tmp_path / name).mkdir()
        (tmp_path / "file.txt").touch()
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)

    async def test_its_models_are_found_and_the_first_is_highlighted(self, tmp_path: Path) -> None:
        write_tiny(TARGET, tmp_path / "alpha" / "tiny.gguf")
        (tmp_path / "beta" / "m.gguf").touch()
        async with picking() as stage:
            await stage.show()
            # It begins in the working folder.
            dialog = await stage.open_folder_dialog()
            assert dialog.query_one(Input).value == f"{tmp_path}/"
            await stage.press(*"alpha", "enter")
            await stage.until(lambda: stage.app.told == [("look_in", tmp_path / "alpha")])
            assert stage.status == "looking… 0 models"
            await stage.show(*Scan((tmp_path / "alpha",)))
            assert stage.targets.key == str(tmp_path / "alpha" / "tiny.gguf")
            assert stage.status == "1 model"
            # The file of a model stands for its folder; one without models is said to be one.
            dialog = await stage.open_folder_dialog()
            dialog.query_one(Input).value = "~/beta/m.gguf"
            await stage.press("enter")
            await stage.until(lambda: stage.app.told[-1] == ("look_in", tmp_path / "beta"))
            await stage.show()
            assert stage.status == "no GGUF file in ~/beta"

    async def test_folders_are_completed_with_tab_and_entered_from_the_list(
        self, tmp_path: Path
    ) -> None:
        async with picking() as stage:
            dialog = await stage.open_folder_dialog()
            await stage.until(lambda: folder_names(dialog) == ["alpha", "beta"])
            await stage.press("a")
            await stage.until(lambda: folder_names(dialog) == ["alpha"])
            await stage.press("tab")
            await stage.until(lambda: folder_names(dialog) == ["inner"])
            assert dialog.query_one(Input).value == f"{tmp_path}/alpha/"
            await stage.press("tab")
            await stage.until(lambda: "No folder below this one." in stage.text())
            # It can be left without a folder.
            await stage.press("escape")
            await stage.until(lambda: stage.app.screen is stage.picker)
            await stage.open_folder_dialog()
            await stage.pilot.click("#folder-cancel")
            await stage.until(lambda: stage.app.screen is stage.picker)
            assert stage.app.told == []
            dialog = await stage.open_folder_dialog()
            await stage.until(lambda: folder_names(dialog) == ["alpha", "beta"])
            await stage.press("down", "down", "enter")
            await stage.until(lambda: dialog.query_one(Input).value == f"{tmp_path}/beta/")
            assert isinstance(dialog.focused, Input)
            await stage.pilot.click("#folder-open")
            await stage.until(lambda: len(stage.app.told) == 1)

    async def test_a_mistake_is_said_in_a_sentence_and_can_be_corrected(self) -> None:
        mistakes = {
            "nowhere": "nowhere cannot be opened (No such file or directory)",
            "file.txt": "file.txt is a file, not a folder",
            "a" * 300: "cannot be opened (File name too long)",
            "../../../../../../../../../proc/self": "/proc/self holds no files; give the folder",
            " ": "Type the folder",
        }
        async with picking() as stage:
            dialog = await stage.open_folder_dialog()
            box, error = dialog.query_one(Input), dialog.query_one("#folder-error", Static)
            before = box.value
            for typed, sentence in mistakes.items():
                box.value = typed if typed == " " else before + typed
                await stage.press("enter")
                await stage.until(partial(_says, error, sentence))
                assert stage.app.screen is dialog
                await stage.press("x")
                await stage.until(lambda: not str(error.content))

    async def test_a_folder_may_be_read_to_its_end_after_the_list_is_gone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As where the dialog is closed meanwhile: its parts go before what waits is cancelled."""
        began, ended = threading.Event(), threading.Event()

        def slow(_typed: str) -> list[tuple[str, str]]:
            began.set()
            ended.wait()
            return [("late", "/late")]

        async with picking() as stage:
            dialog = await stage.open_folder_dialog()
            await stage.until(lambda: folder_names(dialog) == ["alpha", "beta"])
            monkeypatch.setattr("spectui.tui.picker.folder._sub_folders", slow)
            dialog.query_one(Input).value += "a"
            try:
                await asyncio.to_thread(began.wait)
                running = [one for one in dialog.workers if one.is_running]
                (reading,) = [one for one in running if one.name == "_list_folders"]
                removed = dialog.query_one(PickerList).remove()
                await stage.until(lambda: not dialog.query(PickerList))
            finally:
                ended.set()
            await reading.wait()
            await removed
            assert stage.app.screen is dialog


class TestStates:
    async def test_without_models_it_says_where_it_looked_and_what_to_do(self) -> None:
        async with picking(folders=[Path("/models"), Path("/srv/gguf")]) as stage:
            assert stage.status == "looking… 0 models"
            await stage.show()
            for width, height in SIZES:
                await resize(stage.pilot, width, height)
                text = " ".join(stage.text().split())
                assert "No GGUF file was found. Looked in /models, /srv/gguf." in text
                assert "take the demo pair" in text
        async with picking(folders=()) as stage:
            await stage.show()
            assert "none of the folders exists in which models usually lie" in stage.text()

    async def test_names_of_any_kind_are_shown_and_obeyed_by_no_one(self, tmp_path: Path) -> None:
        names = (b"[bold]m[$x] [@a=q]-7B", b"\x1b[31mred\nline", b"caf\xe9\xff", "模型".encode())
        for name in names:
            path = os.fsencode(tmp_path) + b"/" + name + b".gguf"
            write_tiny(Tiny(), Path(os.fsdecode(path)))
        async with picking() as stage:
            await stage.show(*Scan((tmp_path,)))
            await stage.press("end")
            for width, height in SIZES:
                await resize(stage.pilot, width, height)
                text = stage.text()
                for shown in ("[bold]m[$x] [@a=q]-7B", "␛[31mred␊line", "caf\\xe9\\xff", "模型"):
                    assert shown in text
                assert "\x1b" not in text
                text.encode()

    async def test_names_of_any_length_leave_the_columns_where_they_are(self) -> None:
        async with picking() as stage:
            await stage.show(found("short-Q8_0", GB), found("x" * 300 + "-Q4_K_M", GB))
            # Away from a model, so that no draft is listed.
            await stage.press("end")
            for width, height in SIZES:
                await resize(stage.pilot, width, height)
                ends = {line.index("1 GB") for line in stage.lines() if "1 GB" in line}
                rows = [line for line in stage.lines() if "Q4_K_M" in line]
                assert len(ends) == 1
                assert "…" in rows[0]

    async def test_in_ascii_nothing_of_ours_is_anything_else(self) -> None:
        async with picking(glyphs=ASCII, recent=[RECENT], presets=[PRESET]) as stage:
            assert stage.text().isascii()
            await stage.show(*MODELS, found("y" * 300, GB // 3))
            await stage.look_at(BIG)
            await stage.inspect(inspected(GOOD), inspected(LARGER_DRAFT, LONG_REASON))
            assert stage.text().isascii()
            await stage.open_folder_dialog()
            assert stage.text().isascii()

    async def test_a_resize_keeps_the_highlighted_rows_in_view(self) -> None:
        models = [found(f"m{index}-7B", GB * (index + 1)) for index in range(40)]
        async with picking() as stage:
            await stage.show(*models)
            await stage.look_at(models[-1])
            for width, height in ((80, 24), (200, 60), (60, 20), (120, 40)):
                await resize(stage.pilot, width, height)
                assert "> m39-7B" in stage.text()
                panes = [
                    stage.picker.query_one(name, Vertical).region
                    for name in ("#target-pane", "#draft-pane")
                ]
                assert (panes[0].y == panes[1].y) == (width >= 150)

    async def test_real_models_are_offered_as_they_lie_on_disk(self, tmp_path: Path) -> None:
        write_tiny(TARGET, tmp_path / "target.gguf")
        write_tiny(Tiny(n_experts=4), tmp_path / "larger.gguf")
        write_tiny(CLOSE_DRAFT, tmp_path / "same-size.gguf")
        async with picking() as stage:
            models = {model.name: model for model in Scan((tmp_path,))}
            await stage.show(*models.values())
            await stage.look_at(models["larger"])
            await stage.press("enter", "end")
            assert stage.drafts.value is not None
            await stage.look_at(models["target"])
            reasons = {option.model.name: option.reason for option in stage.drafts.ranked}
            assert reasons == {
                "larger": "is larger than the target",
                "same-size": "is as large as the target",
            }


TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40).map(
    lambda text: visible(text, UNICODE)
)


class TestText:
    @given(TEXTS, st.integers(0, 60), st.sampled_from([fit, clip]))
    def test_what_was_cut_is_never_wider_than_its_room(
        self, text: str, width: int, cut: Callable[[str, int, str], str]
    ) -> None:
        assert cell_len(cut(text, width, "…")) <= width

    @given(TEXTS, st.sampled_from([fit, clip]))
    def test_what_fits_is_left_alone(self, text: str, cut: Callable[[str, int, str], str]) -> None:
        assert cut(text, cell_len(text), "…") == text

    def test_both_ends_of_a_name_stay(self) -> None:
        assert fit("Qwen3-30B-A3B-Instruct-Q4_K_M", 15, "…") == "Qwen3-3…-Q4_K_M"
        assert clip("a sentence that goes on", 11, "...") == "a senten..."

    @given(TEXTS, st.lists(TEXTS, max_size=3), st.integers(22, 200))
    def test_a_row_is_as_wide_as_its_room(self, name: str, texts: list[str], width: int) -> None:
        cells = [Cell(text, 8, share=index) for index, text in enumerate(texts)]
        assert cell_len(Row(name, cells, glyphs=UNICODE).text(width)) <= width

    @given(st.text(max_size=40))
    def test_visible_text_is_one_printable_line(self, text: str) -> None:
        shown = visible(text, UNICODE)
        assert "\n" not in shown
        assert "\x1b" not in shown
        shown.encode()

    def test_folders_are_called_as_people_call_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        snapshot = f"/x/hub/models--unsloth--Qwen3-GGUF/snapshots/{'a' * 40}"
        assert short_folder(Path("/home/me/models")) == "~/models"
        assert short_folder(Path("/home/me")) == "~"
        assert short_folder(Path("/home/meyer")) == "/home/meyer"
        assert short_folder(Path(snapshot)) == "hub: unsloth/Qwen3-GGUF"
        assert short_folder(Path(snapshot) / "Q4") == "hub: unsloth/Qwen3-GGUF/Q4"
