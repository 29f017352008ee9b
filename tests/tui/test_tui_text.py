"""Text for the screen: bytes cut anywhere give the same whole lines, and nothing is obeyed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.app import ComposeResult
from textual.color import Color
from textual.widgets import Log, Static

from spectui.display import displayed, visible
from spectui.settings import Settings
from spectui.tui.base_app import BaseApp
from spectui.tui.chat.transcript import Transcript
from spectui.tui.look import SanitisingFilter
from tests.support.cockpit import handled, screen_lines

FRAGMENTS = (
    *("a", "word ", "    ", "\n", "\r", "\t", "x" * 30, "[/INST]", "1"),
    *("e\u0301", "\u0301", "\u00e9", "推測", "。", "\u3000", "👩\u200d🔬", "\u200d", "❤\ufe0f"),
    *("🇩🇪", "👍🏽", "\u202e", "\x1b[31m", "\x9b"),
)
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
data = st.one_of(texts.map(str.encode), st.binary(max_size=60))
widths = st.integers(2, 40)


@st.composite
def cut_data(draw: st.DrawFn) -> list[bytes]:
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[i:j] for i, j in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(cut_data())
def test_bytes_cut_anywhere_are_shown_as_if_they_came_at_once(pieces: list[bytes]) -> None:
    said, at_once = Transcript(), Transcript()
    said.append_tokens((piece, False) for piece in pieces)
    at_once.append_tokens([(b"".join(pieces), False)])
    for transcript in (said, at_once):
        transcript.end_turn("")
    assert shown(said) == shown(at_once)
    assert said.last_answer == b"".join(pieces).decode("utf-8", "replace")


def shown(transcript: Transcript) -> str:
    return "\n".join(paragraph.text.plain for paragraph in transcript.paragraphs)


@pytest.mark.parametrize(
    ("said", "expected", "on_one_line"),
    [
        ("\x1b[31m", "␛[31m", "^[[31m"),
        ("\x00\x07\x7f", "␀␇␡", "^@^G^?"),
        ("a\r\nb", "a\nb", "a^M^Jb"),
        ("\x9b", "<U+009B>", "<U+009B>"),
        ("\u202eevil\u2069", "<U+202E>evil<U+2069>", "<U+202E>evil<U+2069>"),
        ("\udc80", "<U+DC80>", "\\x80"),
        ("\ufffd", "\ufffd", "?"),
        ("\ta", "    a", "    a"),
        ("[/INST] [red]x[/]", "[/INST] [red]x[/]", "[/INST] [red]x[/]"),
        ("👩\u200d🔬", "👩🔬", "👩<U+200D>🔬"),
        ("\u06cc\u200c\u062e", "\u06cc\u200c\u062e", "\u06cc\u200c\u062e"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(
    said: str, expected: str, on_one_line: str
) -> None:
    assert displayed(said) == expected
    assert visible(said, ascii_only=True) == on_one_line


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    transcript = Transcript()
    halves = "é".encode()
    transcript.append_tokens([(b"a" + halves[:1], False), (halves[1:], True)])
    (paragraph,) = transcript.paragraphs
    text = paragraph.text
    assert (text.plain, [(span.start, span.end) for span in text.spans]) == ("aé", [(1, 2)])
    # One left unfinished ends with its turn.
    transcript = Transcript()
    for said in (halves[:1], halves[1:] + b"b"):
        transcript.start_turn("assistant")
        transcript.append_tokens([(said, True)])
    assert shown(transcript) == "\ufffd\n\ufffdb"
    assert transcript.plain_text == "assistant:\n\ufffd\n\nassistant:\n\ufffdb"


def test_rejected_drafts_continue_the_text_in_its_line() -> None:
    halves = "é".encode()
    transcript = Transcript()
    transcript.append_tokens([(b"a" + halves[:1], False)])
    transcript.append_rejected([halves[1:], b"\n"])
    assert shown(transcript) == "a"
    transcript.show_rejected = True
    transcript.watch_show_rejected()
    assert shown(transcript) == "a⟨é␊⟩"


def test_tokens_and_rejections_without_a_turn_begin_an_answer() -> None:
    first, second, third = (Transcript() for _ in range(3))
    for transcript in (first, second):
        transcript.end_turn("ignored")
    first.append_tokens([(b"a", True)])
    second.append_rejected([b"a"])
    assert (first.plain_text, second.plain_text) == ("assistant:\na", "assistant:\n")
    third.append_text("only a notice")
    assert third.last_answer == ""
    assert third.plain_text == "notice:\nonly a notice"


def test_long_texts_are_cut_into_paragraphs_that_together_say_the_same() -> None:
    transcript = Transcript()
    lines = "".join(f"line {n} of many\n" for n in range(1_000))
    transcript.append_text(lines)
    assert shown(transcript) == lines.removesuffix("\n")
    longest = max(len(paragraph.text.plain) for paragraph in transcript.paragraphs)
    assert longest < 2_000
    # A text without line ends is cut as well: only its end is wrapped anew.
    transcript.start_turn("assistant")
    for _ in range(4_000):
        transcript.append_tokens([(b"endless ", True)])
    assert max(len(one.text.plain) for one in transcript.paragraphs) < 10_000


# Nothing of others reaches the terminal as a command, whatever widget shows it

HOSTILE = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\u202e"


class Shown(BaseApp):
    """Shows hostile text in two widgets that know nothing of it."""

    def compose(self) -> ComposeResult:
        yield Static(HOSTILE, markup=False)
        yield Log()

    def _show_events(self, events: Sequence[object]) -> None: ...


async def test_no_widget_draws_what_a_terminal_obeys() -> None:
    app = Shown(Settings())
    async with app.run_test() as pilot:
        app.query_one(Log).write_line(HOSTILE)
        await handled(pilot)
        drawn = "".join(screen_lines(app))
    assert "]0;title" in drawn
    assert not any(one in drawn for one in "\x1b\x07\x9b\u202e")


def test_a_line_stays_as_wide_as_it_was() -> None:
    kept = [Segment("plain"), Segment("é\u0301 👩\u200d💻\u00a0x")]
    found = SanitisingFilter().apply([*kept, Segment(HOSTILE)], Color.parse("black"))
    assert found[:2] == kept
    assert sum(one.cell_length for one in found) == sum(
        one.cell_length for one in [*kept, Segment(HOSTILE)]
    )
