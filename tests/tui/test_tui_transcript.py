"""The transcript on screen: who said what, where the view is, and what a resize may cost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.style import Style
from textual.pilot import Pilot

from spectui.tui.chat.transcript import Token, Transcript
from tests.support.cockpit import alone, handled, press_keys, resize, screen_lines

NUMBERED = "\n".join(f"line {i} with several words in it, so that it wraps" for i in range(400))


@asynccontextmanager
async def shown(
    transcript: Transcript | None = None, said: str = ""
) -> AsyncIterator[tuple[Transcript, Pilot[None]]]:
    """A transcript on the screen, with an answer."""
    found = transcript or Transcript()
    async with alone(found, (60, 12)) as pilot:
        if said:
            found.append_tokens(tokens(said))
            await handled(pilot)
        yield found, pilot


def rows(pilot: Pilot[None]) -> list[str]:
    return [line.rstrip() for line in screen_lines(pilot.app)]


def tokens(*texts: str, from_draft: bool = False) -> list[Token]:
    return [(text.encode(), from_draft) for text in texts]


def say(transcript: Transcript, text: str) -> None:
    transcript.start_turn("user")
    transcript.append_text(text)
    transcript.end_turn("")


async def test_turns_are_marked_and_notes_stand_below_them() -> None:
    filled = Transcript(placeholder="Ask [something].")
    say(filled, "early")
    async with shown(filled) as (transcript, pilot):
        await handled(pilot)
        # What was said before the screen was there is kept; an empty one has its placeholder.
        assert rows(pilot)[0] == "> early"
        transcript.clear()
        await handled(pilot)
        assert rows(pilot)[:3] == ["", "  Ask [something].", ""]
        assert transcript.last_answer == ""
        say(transcript, "What is\nthis?")
        transcript.append_tokens(tokens("An", " answer"))
        transcript.end_turn("2 tokens, 24.1 tokens/s, stopped")
        transcript.start_turn("notice")
        transcript.append_text("The draft is gone.")
        await handled(pilot)
        assert rows(pilot)[:8] == [
            *("> What is", "  this?", ""),
            *("• An answer", "  2 tokens, 24.1 tokens/s, stopped", ""),
            *("▲ The draft is gone.", ""),
        ]
        assert transcript.last_answer == "An answer"


async def test_tokens_of_the_draft_and_rejected_ones_look_different() -> None:
    async with shown() as (transcript, pilot):

        def style(text: str) -> Style:
            line = transcript.paragraphs[0].render_line(0)
            (found,) = (part.style for part in line if part.text.strip() == text)
            assert found is not None
            return found

        transcript.append_tokens(tokens("one"))
        transcript.append_rejected([b" three", b" four"])
        transcript.append_tokens(tokens(" two", from_draft=True))
        for theme in ("textual-dark", "textual-light", "ansi-dark", "ansi-light"):
            pilot.app.theme = theme
            await handled(pilot)
            target, draft = style("one"), style("two")
            assert (bool(target.underline), bool(draft.underline)) == (False, True)
            assert target.color != draft.color
        # Rejected drafts appear on demand.
        for shows, row in ((False, "• one two"), (True, "• one⟨ three four⟩ two")) * 2:
            transcript.show_rejected = shows
            await handled(pilot)
            assert rows(pilot)[0] == row
        assert style("⟨ three four⟩").strike
        assert transcript.last_answer == "one two"


async def test_what_a_model_says_is_shown_and_never_obeyed() -> None:
    async with shown() as (transcript, pilot):
        said = "[/INST] [red]x[/] \x1b[2J 推測 \u202egnp"
        for at, byte in enumerate(said.encode()):
            transcript.append_tokens([(bytes([byte]), at % 2 == 0)])
        await handled(pilot)
        assert rows(pilot)[0] == "• [/INST] [red]x[/] ␛[2J 推測 <U+202E>gnp"
        assert transcript.last_answer == said


async def test_the_view_follows_the_end_until_the_user_scrolls_up_and_again_at_the_end() -> None:
    async with shown(said=NUMBERED) as (transcript, pilot):
        for size in ((30, 12), (97, 30), (97, 5), (60, 12)):
            await resize(pilot, *size)
            assert "399" in "".join(rows(pilot)[-2:])
            assert transcript.scroll_offset.y == transcript.max_scroll_y
        transcript.focus()
        await press_keys(pilot, "pageup")
        before = rows(pilot)
        transcript.append_tokens(tokens("\nmore"))
        await handled(pilot)
        assert rows(pilot) == before
        await press_keys(pilot, "end")
        transcript.append_tokens(tokens("\nand more"))
        await handled(pilot)
        assert rows(pilot)[-2:] == ["  more", "  and more"]
        await press_keys(pilot, "home")
        assert rows(pilot)[0] == "• line 0 with several words in it, so that it wraps"


async def test_what_is_selected_can_be_copied() -> None:
    async with shown() as (transcript, pilot):
        say(transcript, "What is this?")
        transcript.append_tokens([*tokens("An"), *tokens(" answer", from_draft=True)])
        await handled(pilot)
        pilot.app.screen.text_select_all()
        selected = pilot.app.screen.get_selected_text() or ""
        assert selected.strip().split("\n") == ["What is this?", "An answer"]
