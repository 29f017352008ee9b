"""Text for the screen: bytes cut anywhere give the same whole lines, and nothing is obeyed."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.color import Color
from textual.widgets import Log, Static

from spectui.settings import Settings
from spectui.tui.base_app import BaseApp
from spectui.tui.glyphs import ASCII, UNICODE, SanitisingFilter
from spectui.tui.text.conversation import Conversation
from spectui.tui.text.display import MAX_MARKS, Display
from spectui.tui.text.layout import CHUNK_CHARS, Kind, Layout, Tape, TextStore, continues
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


def answer(pieces: list[bytes], rejected: tuple[bytes, ...] = ()) -> Conversation:
    conversation = Conversation()
    conversation.start_turn("assistant")
    for piece in pieces:
        conversation.append_tokens([(piece, False)])
        if rejected:
            conversation.append_rejected(rejected)
    conversation.end_turn("")
    return conversation


def shown(tape: Tape, *, with_rejected: bool = False) -> str:
    return "".join(text for _, text in tape.visible(0, len(tape), with_rejected=with_rejected))


def lines(layout: Layout) -> Iterator[str]:
    for index in range(layout.line_count):
        start, stop = layout.line(index)
        parts = layout.tape.visible(start, stop, with_rejected=layout.with_rejected)
        yield "".join(text for _, text in parts)


def laid_out(tape: Tape, width: int, *, with_rejected: bool = False) -> list[str]:
    return list(lines(Layout(tape, width=width, with_rejected=with_rejected)))


@given(cut_data())
def test_bytes_cut_anywhere_are_shown_as_if_they_came_at_once(pieces: list[bytes]) -> None:
    said = answer(pieces)
    assert shown(said.tape) == shown(answer([b"".join(pieces)]).tape)
    assert said.last_answer == b"".join(pieces).decode("utf-8", "replace")


@given(data, widths)
def test_no_line_is_too_wide_or_lost_or_starts_inside_a_character(said: bytes, width: int) -> None:
    tape = answer([said]).tape
    found = laid_out(tape, width)
    assert "".join(found) == shown(tape)
    assert all(cell_len(line.rstrip(" \n")) <= width for line in found)
    assert not any(
        continues(before[-1], line[0])
        for before, line in pairwise(found)
        if not before.endswith("\n")
    )


@pytest.mark.parametrize("with_rejected", [False, True])
@given(pieces=cut_data(), width=widths)
def test_lines_of_growing_text_are_those_of_the_whole(
    *, pieces: list[bytes], width: int, with_rejected: bool
) -> None:
    conversation = Conversation()
    layout = Layout(conversation.tape, width=width, with_rejected=with_rejected)
    conversation.start_turn("assistant")
    for piece in pieces:
        conversation.append_tokens([(piece, True)])
        conversation.append_rejected([b" no", piece])
        layout.extend()
    whole = laid_out(conversation.tape, width, with_rejected=with_rejected)
    assert [line for line in lines(layout) if line] == [line for line in whole if line]


@given(cut_data(), widths)
def test_hidden_rejected_drafts_change_no_line(pieces: list[bytes], width: int) -> None:
    with_rejected = answer(pieces, rejected=(b" wrong\n", b"\xf0\x9f"))
    assert "".join(laid_out(with_rejected.tape, width)).rstrip("\n") == shown(
        answer(pieces).tape
    ).rstrip("\n")


@given(data, widths, widths)
def test_lines_renewed_in_slices_are_those_found_at_once(
    said: bytes, before: int, after: int
) -> None:
    tape = answer([said * 20]).tape
    layout = Layout(tape, width=before, with_rejected=False)
    layout.renew(width=after, with_rejected=False)
    while not layout.step(lambda: True):
        tape.append("more ", Kind.TARGET)
        layout.extend()
    assert list(lines(layout)) == laid_out(tape, after)


@pytest.mark.parametrize(
    ("said", "width", "expected"),
    [
        ("the quick brown fox", 10, ["the quick ", "brown fox"]),
        ("    indented word", 12, ["    indented ", "word"]),
        ("    " + "x" * 12, 8, ["    xxxx", "xxxxxxxx"]),
        ("a" * 10 + "  \nb", 10, ["a" * 10 + "  \n", "b"]),
        ("ab推測する", 5, ["ab推", "測す", "る"]),
        ("推測。する", 5, ["推", "測。", "する"]),
        ("word 👩\u200d🔬👩\u200d🔬", 7, ["word 👩\u200d🔬", "👩\u200d🔬"]),
        ("xxx🇩🇪", 4, ["xxx", "🇩🇪"]),
        ("xxxe\u0301", 4, ["xxxe\u0301"]),
    ],
)
def test_lines_break_where_a_reader_expects_it(said: str, width: int, expected: list[str]) -> None:
    tape = Tape()
    tape.append(said, Kind.USER)
    assert laid_out(tape, width) == expected


@pytest.mark.parametrize(
    ("said", "unicode", "ascii_only"),
    [
        ("\x1b[31m", "␛[31m", "^[[31m"),
        ("\x00\x07\x7f", "␀␇␡", "^@^G^?"),
        ("a\r\nb\rc", "a\nb␍c", "a\nb^Mc"),
        ("\x9b", "<U+009B>", "<U+009B>"),
        ("\u202eevil\u2069", "<U+202E>evil<U+2069>", "<U+202E>evil<U+2069>"),
        ("\u200b\ufeff\u00ad\u2028", "<U+200B><U+FEFF><U+00AD><U+2028>", None),
        ("\udc80", "<U+DC80>", "<U+DC80>"),
        ("\ufffd", "\ufffd", "?"),
        ("\ta\tbcd\te", "    a   bcd e", "    a   bcd e"),
        ("推\t|", "推  |", "推  |"),
        ("[/INST] [red]x[/]", "[/INST] [red]x[/]", "[/INST] [red]x[/]"),
        ("👩\u200d🔬", "👩\u200d🔬", "👩\u200d🔬"),
        ("a\u200db", "ab", "ab"),
        ("\u0301a \u0301\n\ufe0f", "<U+0301>a <U+0301>\n<U+FE0F>", None),
        ("\u06cc\u200c\u062e", "\u06cc\u200c\u062e", None),
        # Marks without end become visible instead of one endless character.
        (
            "e" + "\u0301" * (MAX_MARKS + 2),
            "e" + "\u0301" * MAX_MARKS + "<U+0301>" + "\u0301",
            None,
        ),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(
    said: str, unicode: str, ascii_only: str | None
) -> None:
    for only, expected in ((False, unicode), (True, ascii_only or unicode)):
        display = Display(ascii_only=only)
        assert display.feed(said) + display.flush() == expected


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    conversation = Conversation()
    halves = "é".encode()
    conversation.append_tokens([(b"a" + halves[:1], False), (halves[1:], True)])
    spans = conversation.tape.spans(0, len(conversation.tape), with_rejected=False)
    assert [(span.text, span.kind) for span in spans] == [("a", Kind.TARGET), ("é", Kind.DRAFT)]
    # One left unfinished ends with its turn.
    conversation = Conversation()
    for said in (halves[:1], halves[1:] + b"b"):
        conversation.start_turn("assistant")
        conversation.append_tokens([(said, True)])
    assert shown(conversation.tape) == "\ufffd\n\n\ufffdb"
    assert conversation.plain_text == "assistant:\n\ufffd\n\nassistant:\n\ufffdb"


def test_rejected_drafts_continue_the_text_in_its_line() -> None:
    halves = "é".encode()
    for glyphs, expected in ((UNICODE, "a⟨é␊⟩"), (ASCII, "a[-é^J-]")):
        conversation = Conversation(glyphs)
        conversation.append_tokens([(b"a" + halves[:1], False)])
        conversation.append_rejected([halves[1:], b"\n"])
        assert shown(conversation.tape, with_rejected=True) == expected
        assert shown(conversation.tape) == "a"


def test_tokens_and_rejections_without_a_turn_begin_an_answer() -> None:
    first, second, third = (Conversation() for _ in range(3))
    for conversation in (first, second):
        conversation.end_turn("ignored")
    first.append_tokens([(b"a", True)])
    second.append_rejected([b"a"])
    assert [turn.role for turn in first.turns + second.turns] == ["assistant", "assistant"]
    third.append_text("only a notice")
    assert third.last_answer == ""
    assert third.plain_text == "notice:\nonly a notice"


@given(st.lists(st.text(max_size=3 * CHUNK_CHARS), max_size=4), st.data())
def test_a_store_gives_back_any_slice_of_what_it_got(parts: list[str], data: st.DataObject) -> None:
    store = TextStore()
    for part in parts:
        store.append(part)
    whole = "".join(parts)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole) + CHUNK_CHARS))
    assert (len(store), store.slice(start, stop)) == (len(whole), whole[start:stop])


class CountingTape(Tape):
    """Counts the characters that are read."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def visible(self, start: int, stop: int, *, with_rejected: bool) -> Iterator[tuple[int, str]]:
        for offset, text in super().visible(start, stop, with_rejected=with_rejected):
            self.read += len(text)
            yield offset, text


@pytest.mark.parametrize("token", ["word ", "推測", " ", "x", "e\u0301", "\u0301", "👩\u200d"])
def test_appending_to_an_endless_paragraph_reads_only_its_last_line(token: str) -> None:
    tape = CountingTape()
    display = Display(ascii_only=False)
    layout = Layout(tape, width=40, with_rejected=False)
    n_tokens = 2_000
    for _ in range(n_tokens):
        tape.append(display.feed(token), Kind.DRAFT)
        layout.extend()
    longest_line = 40 * (MAX_MARKS + 2)
    assert len(tape) > n_tokens / 2
    assert tape.read <= n_tokens * (longest_line + len(token))


# Nothing of others reaches the terminal as a command, whatever widget shows it

HOSTILE = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\u202e"


class Shown(BaseApp):
    """Shows hostile text in two widgets that know nothing of it."""

    def compose(self) -> ComposeResult:
        yield Static(HOSTILE, markup=False)
        yield Log()

    def _show_events(self, events: Sequence[object]) -> None: ...


async def test_no_widget_draws_what_a_terminal_obeys() -> None:
    app = Shown(Settings(), theme=None, ascii=False)
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
