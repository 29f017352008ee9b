"""The export screen, driven by keys and seen as text."""

import base64
import dataclasses
from pathlib import Path

import pytest
from textual.widgets import Tab, Tabs, TextArea

from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.tui.export import ExportChoices, ExportScreen
from tests.support import cockpit
from tests.support.cockpit import screen_lines, staged

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]
ON = ExportSetup(
    target=ModelOptions(path=Path("/models/big [one].gguf")),
    draft=ModelOptions(path=Path("/models/small.gguf")),
    context=ContextOptions(),
    speculation=Speculation(DraftSimple(draft_max=8, draft_p_min=0.5)),
    name="big [one]",
)
OFF = dataclasses.replace(ON, speculation=None)
MOE_DRAFT = ModelOptions(path=Path("/models/small.gguf"), cpu_moe=True)
CHOICES: ExportChoices = {
    "found by tuning": (ON, "1.42× ± 0.1, [b]sure[/b]"),
    "live settings": (dataclasses.replace(ON, draft=MOE_DRAFT), "As the chat runs now."),
    "draft off": (OFF, "The target alone."),
}


class Host(cockpit.Host):
    """The screen with what can be exported."""

    def __init__(self, choices: ExportChoices = CHOICES) -> None:
        super().__init__()
        self.export = ExportScreen(choices)
        self.opened = self.export


def rendered(choice: int, dialect: Dialect) -> str:
    setup, _note = list(CHOICES.values())[choice]
    return render(setup.launch(dialect), Format.LLAMA_SERVER)


async def test_every_choice_is_reached_with_the_arrows_and_by_clicks() -> None:
    async with staged(Host(), (80, 24)) as (app, stage):
        # The note belongs to the choice, and is no markup.
        assert "1.42× ± 0.1, [b]sure[/b]" in app.text()
        assert "sure" not in await stage.press("right")
        shown = await stage.press("right")
        assert "The target alone." in shown
        assert "# speculation off" in shown
        await stage.press("right", "tab")
        for dialect in Dialect:
            assert app.export.text == rendered(0, dialect)
            await stage.press("right")
        await stage.press("left", "shift+tab", "left")
        assert app.export.text == rendered(2, Dialect.IK)
        tabs = app.export.query_one("#dialect", Tabs).query(Tab)
        await stage.click(tabs[1])
        assert app.export.text == rendered(2, Dialect.LEGACY)
        await stage.at((40, 20))
        assert app.export.text == rendered(2, Dialect.LEGACY)


async def test_what_a_dialect_cannot_say_stands_in_place_of_the_text() -> None:
    reason = "ik has no --cpu-moe-draft that spectui knows"
    async with staged(Host(), (80, 24)) as (app, stage):
        await stage.press("right", "tab", "left")
        assert app.export.text is None
        assert f"▲ {reason}" in app.words()
        assert not app.export.query_one(TextArea).display
        await stage.press("c", "s")
        assert app.clipboard == ""
        assert len(app.notices) == 2
        assert all(reason in told for told in app.notices)
        assert "has no" not in await stage.press("left")


async def test_the_text_is_copied_and_cannot_be_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    async with staged(Host(), (80, 24)) as (app, stage):
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", written.append)
        await stage.press("c")
        text = rendered(0, Dialect.LLAMA_CPP).removesuffix("\n")
        code = base64.b64encode(text.encode()).decode()
        assert f"\x1b]52;c;{code}\a" in "".join(written)
        assert app.clipboard == text
        assert any("OSC 52" in toast for toast in app.notices)
        area = app.export.query_one(TextArea)
        before = area.text
        area.focus()
        await stage.press("x", "enter", "backspace", "delete")
        assert area.text == before


async def test_saving_writes_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "big-one.sh"
    async with staged(Host(), (200, 60)) as (app, stage):
        await stage.press("s")
        assert path.read_text("utf-8") == app.export.text
        assert app.notices == [f"Saved to {path}"]
        # Nothing is overwritten.
        path.write_text("mine")
        await stage.press("s")
        assert "exists already" in app.notices[-1]
        assert path.read_text() == "mine"
        monkeypatch.setattr("spectui.tui.export.slug", lambda _name: "none/x")
        await stage.press("s")
        assert "cannot be written (No such file or directory)" in app.notices[-1]
        await stage.press("escape")
        assert app.screen is not app.export


async def test_everything_is_in_sight_at_every_size() -> None:
    options = (*CHOICES, *Dialect)
    async with staged(Host()) as (app, stage):
        for size in SIZES:
            shown = await stage.at(size)
            assert [option for option in options if option not in shown] == []
            assert "llama-server -m" in shown
    # A long path is shown to its end, a hostile one is copied as it is.
    path = Path("/m") / ("x" * 200) / "\x1b[31mred\u202egnp.gguf"
    setup = dataclasses.replace(OFF, target=ModelOptions(path=path))
    async with staged(Host({"x": (setup, "")}), (80, 24)) as (
        app,
        stage,
    ):
        inner = [line.strip("│ ") for line in screen_lines(app) if line.startswith("│")]
        assert "␛[31mred<U+202E>gnp.gguf'\\-nglall" in "".join(" ".join(inner).split())
        assert app.export.query_one(TextArea).max_scroll_x == 0
        assert "\x1b" not in await stage.press("c")
        assert str(path) in app.clipboard
