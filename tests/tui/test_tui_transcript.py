"""The transcript on screen: who said what, where the view is, and what a resize may cost."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

from rich.style import Style
from textual.pilot import Pilot

from spectui.tui.chat.transcript import Transcript
from spectui.tui.text.conversation import Token
from tests.support.cockpit import alone, handled, press_keys, resize

NUMBERED = "\n".join(f"line {i} with several words in it, so that it wraps" for i in range(400))


async def renewed(transcript: Transcript, pilot: Pilot[None]) -> None:
    await handled(pilot)
    while transcript.renewing:
        await handled(pilot)


@asynccontextmanager
async def shown(
    transcript: Transcript | None = None, said: str = ""
) -> AsyncIterator[tuple[Transcript, Pilot[None]]]:
    """A transcript on the screen, with an answer."""
    found = transcript or Transcript()
    async with alone(found, (60, 12)) as pilot:
        if said:
            found.conversation.append_tokens(tokens(said))
            await handled(pilot)
        yield found, pilot


def rows(transcript: Transcript) -> list[str]:
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def tokens(*texts: str, from_draft: bool = False) -> list[Token]:
    return [(text.encode(), from_draft) for text in texts]


def say(transcript: Transcript, text: str) -> None:
    transcript.conversation.start_turn("user")
    transcript.conversation.append_text(text)
    transcript.conversation.end_turn("")


async def test_turns_are_marked_and_notes_stand_below_them() -> None:
    filled = Transcript(placeholder="Ask [something].")
    say(filled, "early")
    async with shown(filled) as (transcript, _pilot):
        # What was said before the screen was there is kept; an empty one has its placeholder.
        assert rows(transcript)[0] == "> early"
        transcript.clear()
        assert rows(transcript)[:3] == ["", "  Ask [something].", ""]
        assert transcript.conversation.plain_text == ""
        say(transcript, "What is\nthis?")
        transcript.conversation.append_tokens(tokens("An", " answer"))
        transcript.conversation.end_turn("2 tokens, 24.1 tokens/s, stopped")
        transcript.conversation.start_turn("notice")
        transcript.conversation.append_text("The draft is gone.")
        assert rows(transcript)[:8] == [
            *("> What is", "  this?", ""),
            *("• An answer", "  2 tokens, 24.1 tokens/s, stopped", ""),
            *("▲ The draft is gone.", ""),
        ]
        assert transcript.conversation.last_answer == "An answer"


async def test_tokens_of_the_draft_and_rejected_ones_look_different() -> None:
    async with shown() as (transcript, pilot):

        def style(text: str) -> Style:
            (found,) = (part.style for part in transcript.render_line(0) if part.text == text)
            assert found is not None
            return found

        transcript.conversation.append_tokens(tokens("one"))
        transcript.conversation.append_rejected([b" three", b" four"])
        transcript.conversation.append_tokens(tokens(" two", from_draft=True))
        for theme in ("textual-dark", "textual-light", "ansi-dark", "ansi-light"):
            pilot.app.theme = theme
            await handled(pilot)
            target, draft = style("one"), style("two")
            assert (bool(target.underline), bool(draft.underline)) == (False, True)
            assert target.color != draft.color
        # Rejected drafts appear on demand.
        for shows, row in ((False, "• one two"), (True, "• one⟨ three four⟩ two")) * 2:
            transcript.show_rejected = shows
            await renewed(transcript, pilot)
            assert rows(transcript)[0] == row
        assert style("⟨ three four⟩").strike
        assert transcript.conversation.last_answer == "one two"


async def test_what_a_model_says_is_shown_and_never_obeyed() -> None:
    async with shown() as (transcript, _pilot):
        said = "[/INST] [red]x[/] \x1b[2J 推測 \u202egnp"
        for at, byte in enumerate(said.encode()):
            transcript.conversation.append_tokens([(bytes([byte]), at % 2 == 0)])
        assert rows(transcript)[0] == "• [/INST] [red]x[/] ␛[2J 推測 <U+202E>gnp"
        assert transcript.conversation.last_answer == said
        # Characters that are split between tokens are painted whole.
        transcript.clear()
        for part, from_draft in (("ae", False), ("\u0301b👩", True), ("\u200d🔬", False)):
            transcript.conversation.append_tokens(tokens(part, from_draft=from_draft))
        texts = [part.text for part in transcript.render_line(0)]
        assert texts[1:4] == ["a", "e\u0301b", "👩\u200d🔬"]


async def test_the_view_follows_the_end_until_the_user_scrolls_up_and_again_at_the_end() -> None:
    async with shown(said=NUMBERED) as (transcript, pilot):
        for size in ((30, 12), (97, 30), (97, 5), (60, 12)):
            await resize(pilot, *size)
            await renewed(transcript, pilot)
            assert "399" in "".join(rows(transcript)[-2:])
            assert transcript.scroll_offset.y == transcript.max_scroll_y
        # What is looked at stays in view through changes of size.
        transcript.scroll_to(y=200, animate=False)
        for width in (30, 97, 20, 60):
            await resize(pilot, width, 12)
            await renewed(transcript, pilot)
            assert "line 200" in rows(transcript)[0]
        assert not transcript.following
        transcript.focus()
        await press_keys(pilot, "end")
        assert rows(transcript)[-1].startswith("  line 399")
        await press_keys(pilot, "pageup")
        assert not transcript.following
        before = rows(transcript)
        transcript.conversation.append_tokens(tokens("\nmore"))
        await handled(pilot)
        assert rows(transcript) == before
        await press_keys(pilot, "end")
        transcript.conversation.append_tokens(tokens("\nand more"))
        await handled(pilot)
        assert rows(transcript)[-2:] == ["  more", "  and more"]
        steps = []
        for key in ("up", "up", "down", "down"):
            await press_keys(pilot, key)
            steps.append(transcript.following)
        assert steps == [False, False, False, True]
        await press_keys(pilot, "home")
        assert rows(transcript)[0] == "• line 0 with several words in it, so that it wraps"
        # Text that arrives does not hold up a user who scrolls.
        await press_keys(pilot, "end")
        pilot.app.animation_level = "full"
        transcript.scroll_page_up()
        transcript.conversation.append_tokens(tokens("\nmore"))
        assert not transcript.following
        assert pilot.app.animator.is_being_animated(transcript, "scroll_y")


async def test_a_long_transcript_is_laid_out_in_slices_what_is_visible_first() -> None:
    ticks: Iterator[int] = count()
    # Time is up at every look at this clock.
    slow = Transcript(clock=lambda: float(next(ticks)))
    async with shown(slow, NUMBERED) as (transcript, pilot):
        transcript.scroll_to(y=200, animate=False)
        transcript.renew(width=26, with_rejected=False)
        assert transcript.renewing
        seen = rows(transcript)
        assert seen[:3] == ["  line 200 with several", "  words in it, so that it", "  wraps"]
        transcript.scroll_to(y=300, animate=False)
        assert rows(transcript)[0] == "  line 300 with several"
        transcript.conversation.append_tokens(tokens("\nmore"))
        transcript.action_scroll_end()
        assert rows(transcript)[-2:] == ["  wraps", "  more"]
        await renewed(transcript, pilot)
        assert rows(transcript)[-2:] == ["  wraps", "  more"]
        # A change of width during another wins.
        for width in (40, 58):
            transcript.renew(width=width, with_rejected=False)
        await renewed(transcript, pilot)
        last = "  line 399 with several words in it, so that it wraps"
        assert rows(transcript)[-2:] == [last, "  more"]
        assert transcript.virtual_size.height == 401
