"""The prompt box: what sends, what starts a line, what is recalled, and how large texts behave."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual.app import ComposeResult
from textual.pilot import Pilot

from spectui.tui.chat.prompt_box import MAX_EDITED_CHARS, PromptBox
from spectui.tui.colours import ColouredApp
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from tests.support.cockpit import handled, press_keys


class BoxApp(ColouredApp[None]):
    """Nothing but a box, and what it has sent."""

    def __init__(self, history: Sequence[str], glyphs: Glyphs) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.box = PromptBox(placeholder="Type [here]")
        self.box.remember(history)
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.box

    def on_prompt_box_submitted(self, event: PromptBox.Submitted) -> None:
        self.sent.append(event.text)


@asynccontextmanager
async def boxed(
    history: Sequence[str] = (), glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[BoxApp, Pilot[None]]]:
    """The box, which has the keys."""
    app = BoxApp(history, glyphs)
    async with app.run_test(size=(40, 20)) as pilot:
        app.box.focus()
        await handled(pilot)
        yield app, pilot


async def paste(app: BoxApp, pilot: Pilot[None], text: str) -> None:
    app.post_message(events.Paste(text))
    await handled(pilot)


def rows(box: PromptBox) -> list[str]:
    return [box.render_line(y).text.rstrip() for y in range(box.size.height)]


async def test_enter_sends_and_empties_the_box() -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, "h", "i", "enter")
        assert (app.sent, app.box.text, app.box.prompts) == (["hi"], "", ["hi"])


@pytest.mark.parametrize("keys", [[], ["space", "space"], ["ctrl+j", "space"]])
async def test_blank_text_is_not_sent(keys: list[str]) -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, *keys, "enter")
        assert app.sent == []
        assert app.box.prompts == []


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_a_new_line_is_started_by(key: str) -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, "a", key, "b", "enter")
        assert app.sent == ["a\nb"]


async def test_fast_keys_act_in_the_order_they_were_pressed() -> None:
    async with boxed() as (app, pilot):
        keys = ("x", "ctrl+j", "y", "z", "backspace", "left", "1", "enter", "up", "!", "enter")
        for key in keys:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await handled(pilot)
        assert app.sent == ["x\n1y", "x\n1y!"]


async def test_keys_can_be_bound_anew() -> None:
    async with boxed() as (app, pilot):
        app.set_keymap({"prompt.submit": "ctrl+s", "prompt.newline": "enter"})
        await press_keys(pilot, "a", "enter", "b", "ctrl+s")
        assert app.sent == ["a\nb"]


async def test_a_new_line_takes_the_place_of_what_is_selected() -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, "a", "b", "c", "shift+left", "ctrl+j", "d")
        assert app.box.text == "ab\nd"


async def test_the_box_grows_to_six_lines_and_then_scrolls() -> None:
    async with boxed() as (app, pilot):
        heights = [app.box.size.height]
        for _ in range(8):
            await press_keys(pilot, "x", "ctrl+j")
            heights.append(app.box.size.height)
        assert heights == [1, 2, 3, 4, 5, 6, 6, 6, 6]
        await press_keys(pilot, "enter")
        assert app.box.size.height == 1


async def test_up_and_down_walk_through_earlier_prompts_and_back_to_the_current_one() -> None:
    async with boxed(["first", "second"]) as (app, pilot):
        await press_keys(pilot, "n", "e", "w")
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await press_keys(pilot, key)
            seen.append(app.box.text)
        assert seen == ["second", "first", "first", "second", "new", "new"]


async def test_up_moves_inside_a_prompt_of_several_lines_before_it_recalls() -> None:
    async with boxed(["old", "a\nb"]) as (app, pilot):
        seen = []
        for key in ("up", "up", "up", "down", "down"):
            await press_keys(pilot, key)
            seen.append((app.box.text, app.box.cursor_location[0]))
        assert seen == [("a\nb", 1), ("a\nb", 0), ("old", 0), ("a\nb", 1), ("", 0)]


async def test_a_wrapped_line_counts_as_several() -> None:
    async with boxed(["old"]) as (app, pilot):
        await paste(app, pilot, "word " * 12)
        await press_keys(pilot, "up")
        assert app.box.text == "word " * 12
        await press_keys(pilot, "up")
        assert app.box.text == "old"


async def test_changes_to_a_recalled_prompt_last_while_walking_but_not_in_the_history() -> None:
    async with boxed(["first", "second"]) as (app, pilot):
        await press_keys(pilot, "up", "!", "up", "down")
        assert app.box.text == "second!"
        await press_keys(pilot, "enter", "up", "up")
        assert app.sent == ["second!"]
        assert app.box.text == "second"
        assert app.box.prompts == ["first", "second", "second!"]


async def test_the_same_prompt_sent_twice_is_remembered_once() -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, "a", "enter", "up", "enter")
        assert app.sent == ["a", "a"]
        assert app.box.prompts == ["a"]


async def test_shift_and_up_selects_and_recalls_nothing() -> None:
    async with boxed(["old"]) as (app, pilot):
        await press_keys(pilot, "a", "shift+up")
        assert app.box.text == "a"
        assert app.box.selected_text == "a"


async def test_several_pasted_lines_are_not_sent() -> None:
    async with boxed() as (app, pilot):
        await paste(app, pilot, "one\ntwo\r\nthree\n")
        assert app.sent == []
        assert app.box.text.splitlines() == ["one", "two", "three"]


@pytest.mark.parametrize("long", ["x" * 200_000, "some words\n" * 20_000])
async def test_a_long_paste_stands_as_a_label_and_is_sent_whole(long: str) -> None:
    async with boxed() as (app, pilot):
        await press_keys(pilot, "a", "space")
        await paste(app, pilot, long)
        assert app.box.text == f"a [long text 1: {len(long):,} characters]"
        await paste(app, pilot, "y" * (MAX_EDITED_CHARS + 1))
        await press_keys(pilot, "enter", "up")
        assert app.sent == ["a " + long + "y" * (MAX_EDITED_CHARS + 1)]
        assert app.box.text.startswith("[long text 1: ")
        await press_keys(pilot, "enter")
        assert app.sent[0] == app.sent[1]


async def test_a_prompt_that_is_put_back_does_not_overwrite_a_new_one() -> None:
    async with boxed() as (app, pilot):
        app.box.put_back("declined")
        assert app.box.text == "declined"
        await press_keys(pilot, "!")
        app.box.put_back("declined again")
        assert app.box.text == "declined!"


async def test_one_can_type_and_send_while_an_answer_is_written() -> None:
    async with boxed() as (app, pilot):
        app.box.busy = True
        await press_keys(pilot, "a", "enter")
        assert app.sent == ["a"]
        borders = [app.box.styles.border_top[0]]
        app.box.busy = False
        await handled(pilot)
        borders.append(app.box.styles.border_top[0])
        assert borders == ["dashed", "round"]


async def test_an_empty_box_shows_its_placeholder_as_plain_text() -> None:
    async with boxed() as (app, _pilot):
        assert rows(app.box) == ["Type [here]"]


async def test_ascii_mode_draws_the_border_in_ascii() -> None:
    async with boxed(glyphs=ASCII) as (app, _pilot):
        assert app.box.styles.border_top[0] == "ascii"
