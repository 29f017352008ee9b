"""The export screen, driven by keys and seen as text."""

import base64
import dataclasses
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input, TextArea

from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.tui.colours import THEMES, ColouredApp
from spectui.tui.export import ExportChoice, ExportScreen, SaveBar
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.widgets import ChoiceRow
from tests.support.cockpit import handled, press_keys, resize

SIZES = [(40, 20), (80, 24), (120, 40), (200, 60)]
ON = ExportSetup(
    target=ModelOptions(path=Path("/models/big [one].gguf")),
    draft=ModelOptions(path=Path("/models/small.gguf")),
    context=ContextOptions(),
    speculation=Speculation(DraftSimple(draft_max=8, draft_p_min=0.5)),
    name="big [one]",
)
OFF = dataclasses.replace(ON, speculation=None)
MOE_DRAFT = ModelOptions(path=Path("/models/small.gguf"), cpu_moe=True)
CHOICES = (
    ExportChoice(label="found by tuning", setup=ON, note="1.42× ± 0.1, [b]sure[/b]"),
    ExportChoice(label="live settings", setup=dataclasses.replace(ON, draft=MOE_DRAFT), note=None),
    ExportChoice(label="draft off", setup=OFF, note="The target alone."),
)


class Host(ColouredApp[None]):
    # Scroll bars are the app's, which draws them without its own characters in ASCII.
    CSS = "* { scrollbar-size: 0 0; }"

    def __init__(self, choices: tuple[ExportChoice, ...], glyphs: Glyphs) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.theme = THEMES[0].name
        self.choices = choices
        self.written: list[str] = []

    def on_mount(self) -> None:
        self.push_screen(ExportScreen(self.choices))

    @property
    def export(self) -> ExportScreen:
        return cast("ExportScreen", self.screen)

    @property
    def bar(self) -> SaveBar:
        return self.export.query_one(SaveBar)

    @property
    def field(self) -> Input:
        return self.bar.query_one(Input)

    @property
    def focused_id(self) -> str | None:
        return None if self.focused is None else self.focused.id

    @property
    def toasts(self) -> list[str]:
        return [note.message for note in self._notifications]


@asynccontextmanager
async def exporting(
    *,
    choices: tuple[ExportChoice, ...] = CHOICES,
    size: tuple[int, int] = (80, 24),
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    """The screen with what can be exported."""
    app = Host(choices, glyphs)
    async with app.run_test(size=size) as pilot:
        await handled(pilot)
        yield app, pilot


def lines(app: App[None]) -> list[str]:
    strips: list[Strip] = app.screen._compositor.render_strips(app.screen.size)
    return [strip.text for strip in strips]


def on_screen(app: App[None]) -> str:
    return "\n".join(line.rstrip() for line in lines(app))


def rendered(choice: int, dialect: Dialect, format_: Format) -> str:
    return render(CHOICES[choice].setup.launch(dialect), format_)


async def test_every_format_of_every_choice_is_reached_with_the_arrows() -> None:
    async with exporting() as (app, pilot):
        await press_keys(pilot, "down", "down")
        for format_ in Format:
            assert app.export.text == rendered(0, Dialect.LLAMA_CPP, format_)
            assert f"[{format_}]" in on_screen(app)
            await press_keys(pilot, "right")
        assert app.export.text == rendered(0, Dialect.LLAMA_CPP, Format.LLAMA_SERVER)
        await press_keys(pilot, "left")
        assert app.export.text == rendered(0, Dialect.LLAMA_CPP, Format.JSON)
        await press_keys(pilot, "up", "up", "left")
        assert app.export.text == rendered(2, Dialect.LLAMA_CPP, Format.JSON)


async def test_every_dialect_is_reached_with_the_arrows() -> None:
    async with exporting() as (app, pilot):
        await press_keys(pilot, "down")
        for dialect in Dialect:
            assert app.export.text == rendered(0, dialect, Format.LLAMA_SERVER)
            assert f"[{dialect}]" in on_screen(app)
            await press_keys(pilot, "l")


async def test_an_option_is_chosen_by_a_click() -> None:
    async with exporting() as (app, pilot):
        column = lines(app)[2].index(" compose ")
        await pilot.click("#format", offset=(column + 2, 0))
        await handled(pilot)
        assert app.export.text == rendered(0, Dialect.LLAMA_CPP, Format.COMPOSE)
        await pilot.click("#format", offset=(1, 0))
        await handled(pilot)
        assert app.export.text == rendered(0, Dialect.LLAMA_CPP, Format.COMPOSE)


async def test_the_note_belongs_to_the_choice_and_is_no_markup() -> None:
    async with exporting() as (app, pilot):
        assert "1.42× ± 0.1, [b]sure[/b]" in on_screen(app)
        await press_keys(pilot, "right")
        assert "sure" not in on_screen(app)
        assert not app.export.query_one("#note").display
        await press_keys(pilot, "right")
        assert "The target alone." in on_screen(app)
        assert "# speculation off" in on_screen(app)


async def test_what_a_dialect_cannot_say_stands_in_place_of_the_text() -> None:
    async with exporting() as (app, pilot):
        await press_keys(pilot, "right", "down", "left")
        assert app.export.text is None
        screen = " ".join(on_screen(app).split())
        assert f"{UNICODE.warning} ik cannot place parts of a draft (--cpu-moe-draft of" in screen
        assert not app.export.query_one(TextArea).display
        await press_keys(pilot, "c", "s")
        assert app.clipboard == ""
        assert not app.bar.display
        reasons = [toast.message for toast in app._notifications]
        for what, reason in zip(("copy", "save"), reasons, strict=True):
            assert reason.startswith(f"There is nothing to {what}: ik cannot place parts of a")
        await press_keys(pilot, "left")
        assert app.export.query_one(TextArea).display
        assert "cannot place" not in on_screen(app)


async def test_copying_writes_osc_52_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    async with exporting() as (app, pilot):
        driver = app._driver
        assert driver is not None
        monkeypatch.setattr(driver, "write", app.written.append)
        await press_keys(pilot, "c")
        text = rendered(0, Dialect.LLAMA_CPP, Format.LLAMA_SERVER).removesuffix("\n")
        code = base64.b64encode(text.encode()).decode()
        assert f"\x1b]52;c;{code}\a" in "".join(app.written)
        assert app.clipboard == text
        assert any("OSC 52" in toast for toast in app.toasts)


async def test_saving_asks_for_a_path_and_writes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with exporting() as (app, pilot):
        await press_keys(pilot, "s")
        assert Path(app.field.value) == tmp_path / "big-one.sh"
        assert app.focused is app.field
        await press_keys(pilot, "enter")
        written = (tmp_path / "big-one.sh").read_text("utf-8")
        assert written == rendered(0, Dialect.LLAMA_CPP, Format.LLAMA_SERVER)
        assert not app.bar.display
        assert any("big-one.sh" in toast for toast in app.toasts)
        assert app.focused_id == "choice"


async def test_a_file_is_overwritten_only_after_a_second_enter(tmp_path: Path) -> None:
    path, other = tmp_path / "flags", tmp_path / "other"
    for file in (path, other):
        file.write_text("mine")
    async with exporting(size=(120, 40)) as (app, pilot):
        await press_keys(pilot, "s")
        app.field.value = str(path)
        await press_keys(pilot, "enter")
        assert path.read_text() == "mine"
        assert "press Enter again" in " ".join(on_screen(app).split())
        app.field.value = str(other)
        await press_keys(pilot, "enter")
        assert (path.read_text(), other.read_text()) == ("mine", "mine")
        await press_keys(pilot, "enter")
        assert path.read_text() == "mine"
        assert other.read_text("utf-8") == app.export.text


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("", "Type the path"),
        ("{}/no/such/folder/x", "No such file or directory"),
        ("{}", "is no ordinary file"),
        (os.devnull, "is no ordinary file"),
        ("~nobody-of-that-name/x", "is no path"),
    ],
)
async def test_a_path_that_cannot_be_written_is_explained(
    tmp_path: Path, typed: str, problem: str
) -> None:
    async with exporting(size=(200, 60)) as (app, pilot):
        await press_keys(pilot, "s")
        app.field.value = typed.format(tmp_path)
        await press_keys(pilot, "enter")
        assert problem in " ".join(on_screen(app).split())
        assert app.bar.display
        await press_keys(pilot, "x")
        assert problem not in " ".join(on_screen(app).split())
    assert list(tmp_path.iterdir()) == []


async def test_escape_leaves_the_question_then_the_screen() -> None:
    async with exporting() as (app, pilot):
        await press_keys(pilot, "s", "escape")
        assert isinstance(app.screen, ExportScreen)
        assert not app.bar.display
        await press_keys(pilot, "escape")
        assert not isinstance(app.screen, ExportScreen)


async def test_another_choice_closes_the_question() -> None:
    async with exporting() as (app, pilot):
        await press_keys(pilot, "s")
        await pilot.click("#format", offset=(28, 0))
        await handled(pilot)
        assert app.export.query_one("#format", ChoiceRow).index != 0
        assert not app.bar.display


async def test_everything_is_in_sight_at_every_size() -> None:
    options = (*(c.label for c in CHOICES), *Dialect, *Format)
    async with exporting() as (app, pilot):
        for size in SIZES:
            await resize(pilot, *size)
            screen = on_screen(app)
            assert [option for option in options if option not in screen] == []
            assert "llama-server -m" in screen


async def test_long_lines_wrap_and_stay_readable_to_their_end() -> None:
    path = Path("/models") / ("x" * 200) / "end of the path.gguf"
    setup = dataclasses.replace(OFF, target=ModelOptions(path=path))
    async with exporting(choices=(ExportChoice(label="x", setup=setup, note=None),)) as (
        app,
        pilot,
    ):
        await handled(pilot)
        inner = [line.strip("│ ") for line in lines(app) if line.startswith("│")]
        assert "end of the path.gguf' -ngl all" in " ".join(" ".join(inner).split())
        assert app.export.query_one(TextArea).max_scroll_x == 0


async def test_a_live_resize_keeps_the_choice() -> None:
    async with exporting(size=(120, 40)) as (app, pilot):
        await press_keys(pilot, "down", "down", "right")
        await resize(pilot, 40, 20)
        assert "[args]" in on_screen(app)
        assert app.export.text == rendered(0, Dialect.LLAMA_CPP, Format.ARGS)


async def test_control_characters_of_a_path_are_shown_and_copied_as_they_are() -> None:
    path = Path("/m/\x1b[31mred\u202egnp.gguf")
    setup = dataclasses.replace(OFF, target=ModelOptions(path=path))
    async with exporting(choices=(ExportChoice(label="x", setup=setup, note=None),)) as (
        app,
        pilot,
    ):
        screen = on_screen(app)
        assert "\x1b" not in screen
        assert "␛[31mred<U+202E>gnp.gguf" in screen
        await press_keys(pilot, "c")
        assert str(path) in app.clipboard


async def test_ascii_mode_has_no_other_character_of_ours(tmp_path: Path) -> None:
    async with exporting(glyphs=ASCII) as (app, pilot):
        for keys in ((), ("s",), ("enter",), ("enter",), ("escape",), ("down", "left", "down")):
            await press_keys(pilot, *keys)
            if keys == ("s",):
                app.field.value = str(tmp_path)
            # The footer is Textual's.
            assert [line for line in lines(app)[:-1] if not line.isascii()] == []


async def test_the_text_cannot_be_edited() -> None:
    async with exporting() as (app, pilot):
        before = app.export.query_one(TextArea).text
        app.export.query_one(TextArea).focus()
        await press_keys(pilot, "x", "enter", "backspace", "delete")
        assert app.export.query_one(TextArea).text == before


def test_the_actions_keep_their_ids() -> None:
    ids = {binding.id for binding in ExportScreen.BINDINGS if not isinstance(binding, tuple)}
    assert ids == {"export.copy", "export.save", "export.back"}


async def test_every_option_stands_on_a_line_of_its_own_with_its_meaning() -> None:
    shown: list[str] = []
    async with exporting(size=(120, 50)) as (app, pilot):
        await handled(pilot)
        shown.extend(line.strip() for line in lines(app))
    (longest,) = [line for line in shown if line.startswith("--spec-draft-n-max")]
    assert longest.endswith("Most tokens per draft")
