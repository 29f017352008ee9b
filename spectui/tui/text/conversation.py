"""The turns of a conversation, with the text to show and the text to copy."""

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.text.display import Display, shown
from spectui.tui.text.layout import Kind, Tape, TextStore

Role = Literal["user", "assistant", "notice"]
"""The speaker; a notice is a message of spectui itself."""

_KINDS: dict[Role, Kind] = {"user": Kind.USER, "assistant": Kind.TARGET, "notice": Kind.NOTICE}
_utf8_decoder = codecs.getincrementaldecoder("utf-8")


Token = tuple[bytes, bool]
"""Bytes of an answer's token, not always whole characters, and whether the draft proposed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Start of a turn."""

    role: Role
    start: int
    """Offset in what is shown."""
    text_start: int
    """Offset in what was said."""


class Conversation:
    """Turns, one after the other, the last one open until it is ended.

    ``tape`` is what is shown, ending in a newline after every turn. What was said is kept beside
    it, because there is no way back: what is shown has controls made visible and tabs as spaces.
    """

    def __init__(
        self, glyphs: Glyphs = UNICODE, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Start empty; ``changed`` is told after every change."""
        self.tape = Tape()
        self.turns: list[Turn] = []
        self._glyphs = glyphs
        self._changed = changed
        self._ascii_only = glyphs is ASCII
        self._newline = shown("\n", ascii_only=self._ascii_only)
        self._said = TextStore()
        self._open = False
        self._renew_stream()

    def _renew_stream(self) -> None:
        self._decoder = _utf8_decoder("replace")
        self._display = Display(ascii_only=self._ascii_only)
        self._kind = Kind.NOTICE

    def start_turn(self, role: Role) -> None:
        """End the open turn, if any, and start the next one."""
        self.end_turn("")
        if self.turns:
            self.tape.append("\n", Kind.NOTE)
        self.turns.append(Turn(role=role, start=len(self.tape), text_start=len(self._said)))
        self._renew_stream()
        self._kind = _KINDS[role]
        self._open = True
        self._changed()

    def append_text(self, text: str) -> None:
        """Add whole text to the open turn; with none open, to a new notice."""
        if not self._open:
            self.start_turn("notice")
        self._add(text, self._kind)
        self._changed()

    def append_tokens(self, tokens: Iterable[Token]) -> None:
        """Add tokens to the open turn; with none open, to a new answer."""
        if not self._open:
            self.start_turn("assistant")
        for piece, from_draft in tokens:
            self._add(self._decoder.decode(piece), Kind.DRAFT if from_draft else Kind.TARGET)
        self._changed()

    def append_rejected(self, pieces: Sequence[bytes]) -> None:
        """Add the draft tokens that the target refused at this point of the answer."""
        if not self._open:
            self.start_turn("assistant")
        # They continue the text, so also a character that the last token left unfinished.
        unfinished, _ = self._decoder.getstate()
        text = (unfinished + b"".join(pieces)).decode("utf-8", "replace")
        aside = Display(ascii_only=self._ascii_only)
        # They stay in the line, whatever they hold.
        refused = (aside.feed(text) + aside.flush()).replace("\n", self._newline)
        self.tape.append(
            self._glyphs.reject_open + refused + self._glyphs.reject_close, Kind.REJECTED
        )
        self._changed()

    def end_turn(self, note: str) -> None:
        """End the open turn, with a note below it unless that is empty; else do nothing."""
        if not self._open:
            return
        self._add(self._decoder.decode(b"", final=True), self._kind)
        self.tape.append(self._display.flush(), self._kind)
        self._open = False
        self._end_line()
        if note:
            self._renew_stream()
            self.tape.append(self._display.feed(note), Kind.NOTE)
            self._end_line()
        self._changed()

    def _end_line(self) -> None:
        if not self.tape.ends_with("\n"):
            self.tape.append("\n", Kind.NOTE)

    def _add(self, text: str, kind: Kind) -> None:
        self._kind = kind
        self._said.append(text)
        self.tape.append(self._display.feed(text), kind)

    @property
    def last_answer(self) -> str:
        """The assistant's last turn; empty if it has had none."""
        answers = (i for i, turn in enumerate(self.turns) if turn.role == "assistant")
        last = max(answers, default=None)
        return "" if last is None else self._text_of(last)

    @property
    def plain_text(self) -> str:
        """All turns, each below the name of its speaker."""
        turns = enumerate(self.turns)
        return "\n\n".join(f"{turn.role}:\n{self._text_of(i)}" for i, turn in turns)

    def _text_of(self, turn: int) -> str:
        start, *following = (turn.text_start for turn in self.turns[turn : turn + 2])
        return self._said.slice(start, following[0] if following else len(self._said))
