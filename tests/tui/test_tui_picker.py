"""The picker: what can be chosen, how, and why not; every action by keyboard and by mouse."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.cells import cell_len
from textual.containers import Vertical
from textual.widgets import Input, Static

from spectui.demo import DemoModel
from spectui.display import aligned, clip, fit
from spectui.errors import BadInputError
from spectui.live.sessions import Header, UserTurn
from spectui.live.sessions import Session as StoredSession
from spectui.models.files import FoundModel, Scan
from spectui.models.ranking import ModelInspected
from spectui.presets import Preset
from spectui.tui.chat.screen import LiveScreen
from spectui.tui.launch import Pair
from spectui.tui.picker.lists import PASTE, DraftList, TargetList
from spectui.tui.picker.rows import columns, short_folder
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.threads import Threads
from tests.support import cockpit
from tests.support.cockpit import Stage, facts, found, screen_lines, staged
from tests.support.models import TARGET, write_tiny

SIZES = ((80, 24), (120, 40), (200, 60))
LONG_REASON = (
    "the vocabularies differ in size: 151936 (target), 49152 (draft), at most 128 apart is allowed"
)


GB = 10**9


BIG = found("Big-30B-Q4_K_M", 18 * GB)
GOOD = found("Good-1B-Q8_0", GB)
LARGER_DRAFT = found("Other-3B-Q8_0", 3 * GB)
BROKEN = found("Broken-70B-Q2_K", 40 * GB, missing=("Broken-70B-Q2_K-00002-of-00002.gguf",))
MODELS = (BIG, GOOD, LARGER_DRAFT, BROKEN)
PAIR = Pair(target=BIG.path, draft=GOOD.path)

RECENT = StoredSession(
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


def inspected(draft: FoundModel, reason: str | None = None, **changes: Any) -> ModelInspected:  # noqa: ANN401 - any field
    """What became known of a model beside the large one."""
    known = facts(draft.path, draft.size_bytes)
    made = ModelInspected(target=BIG.path, path=draft.path, facts=known, reason=reason)
    return replace(made, **changes)


class Session(cockpit.Recorder):
    """In place of a session and its screen: notes what is compared and chosen, loads none of it."""

    def __init__(self, n_ctx: int, *, is_loaded: bool) -> None:
        super().__init__()
        self.launch = SimpleNamespace(n_ctx=n_ctx, make_setup=lambda pair: pair)
        self.setup = "a pair" if is_loaded else None
        self.engine = self.inspector = self.loader = self.session = self

    def prepared(self, choice: object) -> NoReturn:
        self.heard.append(("choose", choice))
        # The picker stays.
        raise BadInputError("it is only noted")


class Host(cockpit.Host):
    """A picker, and what is known of models."""

    def __init__(
        self,
        *,
        folders: Sequence[Path] = (Path("/models"),),
        presets: Sequence[Preset] = (),
        n_ctx: int = 4096,
        is_loaded: bool = False,
    ) -> None:
        super().__init__()
        self.controller = session = Session(n_ctx, is_loaded=is_loaded)
        self.picker = self.opened = PickerScreen(
            cast("LiveScreen", session),
            cast("Threads", session),
            folders=folders,
            presets=presets,
        )
        self.n_bells = 0

    def take(self) -> list[tuple[object, ...]]:
        """What the picker has asked for since the last look, but for the searches of its start."""
        quiet = {"warn", "read_sessions", "look_for_servers"}
        return [wish for wish in super().take() if wish[0] not in quiet]

    def bell(self) -> None:
        self.n_bells += 1

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

    def chosen(self) -> list[object]:
        """What was chosen since the last look."""
        return [wish[1] for wish in self.take() if wish[0] == "choose"]

    def row(self, start: str) -> str:
        """The one row that shows this."""
        (row,) = (line for line in screen_lines(self) if start in line)
        return row


async def show(stage: Stage[Host], *models: FoundModel) -> str:
    for model in models:
        stage.app.picker.add_model(model)
    stage.app.picker.scan_finished(())
    return await stage.idle()


async def inspect(stage: Stage[Host], *results: ModelInspected) -> str:
    for result in results:
        stage.app.picker.show_inspection(result)
    return await stage.idle()


async def look_at(stage: Stage[Host], model: FoundModel) -> str:
    targets = stage.app.targets
    targets.highlighted = targets.get_option_index(str(model.path))
    return await stage.idle()


async def until(stage: Stage[Host], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await stage.idle()


@asynccontextmanager
async def picking(
    *models: FoundModel, size: tuple[int, int] = (120, 40), app: Host | None = None
) -> AsyncIterator[tuple[Host, Stage[Host]]]:
    """A picker over what a scan has found; the large model is looked at, if it is there."""
    async with staged(app or Host(), size) as (host, stage):
        if models:
            await show(stage, *models)
            await look_at(stage, BIG)
        yield host, stage


async def test_what_can_be_chosen_and_why_not() -> None:
    why = "CUDA0 has no room: 3 GB are needed, 2 GB are free"
    slowness = "1 GB of the weights have no room in RAM: they are read from disk again and again"
    async with picking(*MODELS, app=Host(n_ctx=100_000)) as (app, stage):
        # Enter alone leads from the first look to the choice; one may still be being checked.
        shown = await stage.press("enter", "down")
        assert app.drafts.has_focus
        assert "checking" in shown
        assert app.detail.startswith("Is being checked.")
        await stage.press("enter")
        assert app.take()[1:] == [
            ("forget",),
            *(("compare", Pair(target=BIG.path, draft=one.path)) for one in (GOOD, LARGER_DRAFT)),
            ("choose", PAIR),
        ]
        await stage.press("home", "enter")
        assert app.chosen() == [replace(PAIR, draft=None)]
        # An unfit one cannot be chosen, and its reason is read in full.
        await inspect(stage, inspected(GOOD, LONG_REASON), inspected(LARGER_DRAFT))
        app.drafts.highlighted = app.drafts.get_option_index(str(GOOD.path))
        for size in SIZES:
            assert "unfit" in await stage.at(size)
            assert f"Cannot be the draft: {LONG_REASON}." in app.words()
        await stage.press("enter")
        assert app.chosen() == []
        assert app.n_bells == 1
        await inspect(stage, inspected(GOOD, why))
        assert app.detail == f"Cannot be the draft: {why}."
        await inspect(stage, inspected(GOOD, slowness=slowness))
        app.drafts.highlighted = app.drafts.get_option_index(str(GOOD.path))
        await stage.press("enter")
        assert app.chosen() == [PAIR]
        assert "Good-1B" in app.row(" slow ")
        assert app.detail.startswith("Slow: ")
        assert app.detail.endswith(f"{slowness}.")
        await inspect(stage, inspected(GOOD))
        assert app.detail == (
            "Fits: 3.9 GB of memory with its cache, qwen3, 1B parameters, 28 layers, "
            "trained for 40,960 tokens"
        )


async def test_targets_that_are_incomplete_or_no_language_model_cannot_be_chosen() -> None:
    async with picking(BIG, BROKEN) as (app, stage):
        rows = [line for line in screen_lines(app) if "Broken-70B" in line]
        assert any("incomplete" in row for row in rows)
        # Nobody asks about it.
        assert "compare" not in [wish[0] for wish in app.take()]
        gone = "of its 2 files 1 cannot be found"
        for model, known, problem in (
            (BROKEN, [], f"is incomplete: {gone}"),
            (BIG, [inspected(BIG, "it is no language model")], "it is no language model"),
        ):
            await look_at(stage, model)
            await inspect(stage, *known)
            n_bells = app.n_bells
            await stage.press("enter")
            assert app.targets.has_focus
            assert app.detail == f"Cannot be the target: {problem}."
            assert app.n_bells == n_bells + 1
            await stage.press("right", "home", "enter", "left")
            assert app.chosen() == []


async def test_the_best_draft_is_highlighted_as_results_arrive_until_the_user_goes_there() -> None:
    thin = found("Thin-0.1B-Q8_0", GB // 10)
    async with picking(*MODELS, thin) as (app, stage):
        # Results for another target change nothing here, and one that would be slow is none.
        other = replace(inspected(GOOD), target=LARGER_DRAFT.path)
        for known, key in (
            (other, "alone"),
            (inspected(LARGER_DRAFT, slowness="it is read from disk"), "alone"),
            (inspected(LARGER_DRAFT), str(LARGER_DRAFT.path)),
            (inspected(GOOD), str(GOOD.path)),
            (inspected(thin), str(GOOD.path)),
            # A target of experts wants a draft as small as what its tokens read.
            (
                inspected(BIG, facts=facts(BIG.path, BIG.size_bytes, read_bytes_per_token=2 * GB)),
                str(thin.path),
            ),
        ):
            await inspect(stage, known)
            assert app.drafts.key == key
        await stage.press("enter", "down")
        held = app.drafts.key
        assert held != str(thin.path)
        await inspect(stage, inspected(BROKEN))
        await show(stage, found("Smaller-1B-Q4_0", GB // 2))
        assert app.drafts.key == held


async def test_models_that_arrive_move_nothing_and_are_one_row_each() -> None:
    app = Host(folders=())
    reason = "/secret cannot be read (Permission denied)"
    # Before the first paint.
    for _ in range(2):
        app.picker.add_model(BIG)
    app.picker.scan_finished((reason,))
    assert cockpit.Host.take(app) == [("warn", f"{reason}.")]
    async with staged(app, (80, 24)) as (_, stage):
        assert app.targets.models == (BIG,)
        await look_at(stage, BIG)
        shown = await show(stage, *(found(f"m{index}", GB) for index in range(100)))
        assert app.targets.key == str(BIG.path)
        assert BIG.name in shown
        for width, height in ((80, 24), (200, 60), (60, 20), (120, 40)):
            await stage.at((width, height))
            panes = ("#target-pane", "#draft-pane")
            target, draft = (app.picker.query_one(name, Vertical).region for name in panes)
            assert (target.y == draft.y) == (width >= 150)


async def test_earlier_pairs_presets_and_the_demo_are_one_key_away() -> None:
    async with picking(app=Host(presets=[PRESET])) as (app, stage):
        app.targets.show_recent([RECENT])
        when = RECENT.header.started.astimezone()
        for size in SIZES:
            await stage.at(size)
            row = app.row("Big-30B-Q4_K_M  ")
            for expected in ("with Good-1B-Q8_0", "What d", f"{when:%m-%d %H:%M}"):
                assert expected in row
            assert app.detail.startswith(f"{when:%Y-%m-%d %H:%M}, 12 turns.")
        for n_down, choice in ((0, RECENT), (2, PRESET), (3, DemoModel.DENSE)):
            await stage.press("home", *["down"] * n_down, "enter")
            assert app.chosen() == [choice]
    async with picking(app=Host(presets=[PRESET]), size=(80, 24)) as (app, stage):
        seen = [app.targets.value]
        # Earlier pairs that come late take the first row; not where someone has gone elsewhere.
        again = structs.replace(RECENT, entries=RECENT.entries[:1])
        for recent in ([RECENT], [RECENT, again]):
            app.targets.show_recent(recent)
            await stage.idle()
            seen.append(app.targets.value)
            await stage.press("down")
        assert seen == [PASTE, RECENT, PASTE]
    # Own models stand before all else that was not used yet.
    async with picking(*MODELS, app=Host(presets=[PRESET]), size=(80, 24)) as (app, stage):
        values = [entry.value for entry in app.targets.entries]
        assert values == [*MODELS, PASTE, PRESET, DemoModel.DENSE]
        assert app.targets.value == BIG


async def test_a_click_chooses() -> None:
    async with picking(*MODELS) as (app, stage):
        # A heading is nothing to look at.
        await stage.click(app.targets, 2)
        assert app.targets.key == str(BIG.path)
        await inspect(stage, inspected(GOOD))
        for list_, model, chosen in (
            (app.drafts, LARGER_DRAFT, [replace(PAIR, draft=LARGER_DRAFT.path)]),
            (app.targets, GOOD, []),
        ):
            key = str(model.path)
            await stage.click(list_, 4, list_._index_to_line[list_.get_option_index(key)])
            assert (list_.key, app.chosen()) == (key, chosen)


async def test_the_filter_leaves_what_contains_every_word_and_how_the_picker_is_left() -> None:
    def marked() -> list[str]:
        titles = app.picker.query(".title").results(Static)
        return [str(title.content) for title in titles if title.rich_style.reverse]

    async with picking() as (app, stage):
        # A model that arrives obeys it.
        await stage.press("slash", *"good")
        await show(stage, *MODELS)
        for again in ((), ("escape", "slash", *"q8", "space", *"goo")):
            await stage.press(*again)
            assert [entry.value for entry in app.targets.entries] == [GOOD]
        await stage.press("escape")
        assert app.targets.has_focus
        assert len(app.targets.entries) == 2 + len(MODELS)
        for key in ("enter", "down"):
            await stage.press("slash", *"broken", key)
            assert app.targets.has_focus
            assert app.targets.key == str(BROKEN.path)
            await stage.press("slash", "escape")
        await stage.press("slash", *"zzz")
        assert "Escape empties the filter." in app.words()
        await stage.press("escape")
        # Escape leads from the drafts to the targets; the list that has the keys is marked.
        for key in ("escape", "left"):
            assert marked() == ["Target"]
            await stage.press("right")
            assert marked() == ["Draft"]
            await stage.press(key)
        await stage.press("escape", "slash", "q")
        assert app.screen is app.picker
        assert app.picker.query_one("#filter", Input).value == "q"
    async with picking(app=Host(is_loaded=True)) as (app, stage):
        await stage.press("escape")
        assert app.screen is not app.picker


# Opening a folder


async def test_a_folder_whose_path_is_typed_is_searched_and_its_models_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "alpha"
    folder.mkdir()
    write_tiny(TARGET, folder / "tiny.gguf")
    async with picking(*MODELS) as (app, stage):
        app.take()
        await stage.press("slash", *"~/alpha", "enter")
        ((what, folders, *_),) = app.take()
        assert (what, folders) == ("scan", (folder,))
        assert app.targets.has_focus
        assert app.status.startswith("looking…")
        await show(stage, *Scan((folder,)))
        values = [entry.value for entry in app.targets.entries]
        assert [one.name for one in values if isinstance(one, FoundModel)] == ["tiny"]
        assert app.status == f"{1 + len(MODELS)} models"
        await stage.press("slash", "escape")
        assert len(app.targets.entries) > len(MODELS)


# States


async def test_without_models_it_says_what_to_do() -> None:
    async with picking(size=(80, 24)) as (app, stage):
        assert app.status == "looking… 0 models"
        await show(stage)
        for words in ("No GGUF file was found", "take the demo pair"):
            assert words in app.words()


# Text


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3), st.integers(1, 30))
def test_a_row_is_one_printable_line_of_columns(texts: list[str], width: int) -> None:
    line = columns(*((text, width) for text in texts))
    assert not {"\n", "\x1b"} & set(line)
    line.encode()
    assert cell_len(line) == len(texts) * width + 2 * (len(texts) - 1)


def test_names_and_folders_are_called_as_people_call_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both ends of a name stay.
    assert fit("Qwen3-30B-A3B-Instruct-Q4_K_M", 15, "…") == "Qwen3-3…-Q4_K_M"
    assert clip("a sentence that goes on", 11) == "a sentence…"
    assert aligned("漢字漢字", 4, right=True) == " 漢…"
    assert aligned("ab", 4, right=True) == "  ab"
    monkeypatch.setenv("HOME", "/home/me")
    snapshot = f"/x/hub/models--unsloth--Qwen3-GGUF/snapshots/{'a' * 40}"
    for folder, name in (
        ("/home/me/models", "~/models"),
        ("/home/me", "~"),
        ("/home/meyer", "/home/meyer"),
        (snapshot, "hub: unsloth/Qwen3-GGUF"),
        (f"{snapshot}/Q4", "hub: unsloth/Qwen3-GGUF/Q4"),
    ):
        assert short_folder(Path(folder)) == name
