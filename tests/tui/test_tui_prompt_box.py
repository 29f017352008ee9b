"""The prompt box: what sends, what starts a line, what is recalled, and how large texts behave."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual.app import ComposeResult
from textual.pilot import Pilot

from spectui.tui.chat.prompt_box import MAX_EDITED_CHARS, PromptBox
from spectui.tui.look import ColouredApp
from tests.support.cockpit import handled, press_keys


class BoxApp(ColouredApp[None]):
    """Nothing but a box, and what it has sent."""

    def __init__(self, history: Sequence[str]) -> None:
        super().__init__()
        self.box = PromptBox(placeholder="Type [here]")
        self.box.remember(history)
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.box

    def on_prompt_box_submitted(self, event: PromptBox.Submitted) -> None:
        self.sent.append(event.text)


@asynccontextmanager
async def boxed(
    history: Sequence[str] = (),
) -> AsyncIterator[tuple[BoxApp, Pilot[None]]]:
    """The box, which has the keys."""
    app = BoxApp(history)
    async with app.run_test(size=(40, 20)) as pilot:
        app.box.focus()
        await handled(pilot)
        yield app, pilot


async def paste(app: BoxApp, pilot: Pilot[None], text: str) -> None:
    app.post_message(events.Paste(text))
    await handled(pilot)


SENT = [
    (("h", "i", "enter"), "hi"),
    # Blank text is not sent.
    *((keys, None) for keys in (("enter",), ("space", "enter"), ("ctrl+j", "space", "enter"))),
    *((("a", key, "b", "enter"), "a\nb") for key in ("ctrl+j", "shift+enter", "alt+enter")),
    # A new line takes the place of what is selected.
    (("a", "b", "c", "shift+left", "ctrl+j", "d", "enter"), "ab\nd"),
]


async def test_enter_sends_and_empties_the_box_and_other_keys_start_a_line() -> None:
    async with boxed() as (app, pilot):
        assert app.box.render_line(0).text.rstrip() == "Type [here]"
        for keys, sent in SENT:
            app.sent.clear()
            await press_keys(pilot, *keys)
            assert app.sent == ([] if sent is None else [sent]), keys
            assert sent is None or app.box.text == ""
            app.box.text = ""
        # The same prompt sent twice is remembered once.
        assert app.box.prompts == ["hi", "a\nb", "ab\nd"]
        app.set_keymap({"prompt.submit": "ctrl+s", "prompt.newline": "enter"})
        await press_keys(pilot, "a", "enter", "b", "ctrl+s")
        assert app.sent[-1] == "a\nb"


async def test_fast_keys_act_in_the_order_they_were_pressed() -> None:
    async with boxed() as (app, pilot):
        keys = ("x", "ctrl+j", "y", "z", "backspace", "left", "1", "enter", "up", "!", "enter")
        for key in keys:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await handled(pilot)
        assert app.sent == ["x\n1y", "x\n1y!"]
        # The box grows to six lines, and then scrolls.
        heights = [app.box.size.height]
        for _ in range(8):
            await press_keys(pilot, "x", "ctrl+j")
            heights.append(app.box.size.height)
        assert heights == [1, 2, 3, 4, 5, 6, 6, 6, 6]


async def test_up_and_down_walk_through_earlier_prompts_and_back_to_the_current_one() -> None:
    async def walk(*keys: str) -> list[tuple[str, int]]:
        seen = []
        for key in keys:
            await press_keys(pilot, key)
            seen.append((app.box.text, app.box.cursor_location[0]))
        return seen

    async with boxed(["old", "a\nb"]) as (app, pilot):
        await press_keys(pilot, "n", "e", "w")
        # Inside a prompt of several lines they move first; at the ends they stay.
        up = [("a\nb", 1), ("a\nb", 0), ("old", 0), ("old", 0)]
        assert await walk("up", "up", "up", "up") == up
        assert await walk("down", "down", "down") == [("a\nb", 1), ("new", 0), ("new", 0)]
        # Shift selects instead.
        assert await walk("shift+up") == [("new", 0)]
        assert app.box.selected_text == "new"
        # Changes to a recalled prompt last while walking, but not in the history.
        await press_keys(pilot, "up", "!", "up", "up", "down")
        assert app.box.text == "a\nb!"
        await press_keys(pilot, "enter", "up", "up", "up")
        assert app.sent == ["a\nb!"]
        assert app.box.text == "a\nb"
        assert app.box.prompts == ["old", "a\nb", "a\nb!"]


@pytest.mark.parametrize("long", ["x" * 200_000, "some words\n" * 20_000])
async def test_a_paste_is_not_sent_and_a_long_one_stands_as_a_label(long: str) -> None:
    async with boxed(["old"]) as (app, pilot):
        # A wrapped line counts as several.
        await paste(app, pilot, "word " * 12)
        for shown in ("word " * 12, "old"):
            await press_keys(pilot, "up")
            assert app.box.text == shown
        app.box.text = ""
        await paste(app, pilot, "one\ntwo\r\nthree\n")
        assert app.sent == []
        assert app.box.text.splitlines() == ["one", "two", "three"]
        app.box.text = ""
        await press_keys(pilot, "a", "space")
        await paste(app, pilot, long)
        assert app.box.text == f"a [long text 1: {len(long):,} characters]"
        await paste(app, pilot, "y" * (MAX_EDITED_CHARS + 1))
        await press_keys(pilot, "enter", "up")
        assert app.sent == ["a " + long + "y" * (MAX_EDITED_CHARS + 1)]
        assert app.box.text.startswith("[long text 1: ")
        await press_keys(pilot, "enter")
        assert app.sent[0] == app.sent[1]
        # A prompt that is put back does not overwrite a new one.
        app.box.put_back("declined")
        await press_keys(pilot, "!")
        app.box.put_back("declined again")
        assert app.box.text == "declined!"


async def test_the_border_says_whether_an_answer_is_written() -> None:
    borders = []
    async with boxed() as (app, pilot):
        for app.box.busy in (True, False):
            await handled(pilot)
            borders.append(app.box.styles.border_top[0])
    assert borders == ["dashed", "round"]
