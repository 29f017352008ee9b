"""The conversation: its turns, the messages that the model reads, its file on disk."""

import codecs
from collections.abc import Callable

from spectui.errors import SpectuiError
from spectui.live import sessions
from spectui.live.setup import LiveSetup
from spectui.prompts import ChatMessage, Prompt

_USER, _ASSISTANT, _SYSTEM = "user", "assistant", "system"

Messages = tuple[tuple[str, str], ...]
"""(role, content) pairs."""


class Chat:
    """One conversation. ``store`` is told every entry as it happens."""

    def __init__(self, store: Callable[[sessions.Entry], None]) -> None:
        """Start empty."""
        self._store = store
        self._turns: list[tuple[str, str]] = []
        self._answer: AnswerText | None = None
        self.system = ""
        """System message, empty for none."""

    @property
    def awaits_first_word(self) -> bool:
        """Whether nothing of the answer under way has come yet."""
        return self._answer is not None and not self._answer.text

    def messages(self, n_turns: int | None = None) -> Messages:
        """All that the model reads next, or did when there were fewer turns."""
        head = ((_SYSTEM, self.system),) if self.system else ()
        return (*head, *self._turns[:n_turns])

    def text(self) -> str:
        """Text of all turns, one after the other, for a model without a chat template."""
        return "".join(content for _role, content in self.messages())

    def ask(self, text: str) -> None:
        """Add a question."""
        self._turns.append((_USER, text))
        self._answer = AnswerText()
        self._store(sessions.UserTurn(text=text))

    def add(self, piece: bytes, *, from_draft: bool) -> None:
        """Add a token of the answer."""
        if self._answer is not None:
            self._answer.add(piece, from_draft=from_draft)

    def flush(self) -> None:
        """Store the part of the answer that is new since the last time."""
        if self._answer is not None and (part := self._answer.take_part()) is not None:
            self._store(part)

    def finish(
        self, note: str, *, n_decoded: int | None = None, decode_s: float | None = None
    ) -> None:
        """End the answer. An empty one is taken back together with its question."""
        if self._answer is None:
            return
        self._answer.end()
        self.flush()
        if self._answer.text:
            self._turns.append((_ASSISTANT, self._answer.text))
        else:
            self._turns.pop()
        self._answer = None
        self._store(sessions.AnswerEnd(note=note, n_decoded=n_decoded, decode_s=decode_s))

    def restore(self, entries: tuple[sessions.Entry, ...]) -> None:
        """Take up a stored conversation, which is not stored again."""
        answer = ""
        for entry in entries:
            match entry:
                case sessions.UserTurn():
                    self._restore_answer(answer)
                    answer = ""
                    self._turns.append((_USER, entry.text))
                case sessions.AnswerPart():
                    answer += entry.text
                case sessions.AnswerEnd() | sessions.SettingsChange():
                    pass
        self._restore_answer(answer)

    def _restore_answer(self, answer: str) -> None:
        if answer:
            self._turns.append((_ASSISTANT, answer))
        elif self._turns and self._turns[-1][0] == _USER:
            # Asked, but never answered: the next question would follow it without an answer.
            self._turns.pop()

    def prompts(self) -> tuple[Prompt, ...]:
        """Every question with all that was said before it, to measure on."""
        found: list[Prompt] = []
        for index, (role, _content) in enumerate(self._turns):
            if role == _USER:
                said = self.messages(index + 1)
                messages = tuple(ChatMessage(role=r, content=c) for r, c in said)
                name = f"turn-{len(found) + 1}"
                found.append(Prompt(id=name, category="chat", messages=messages))
        return tuple(found)


class AnswerText:
    """Decodes an answer token by token; a character belongs to the token that completes it."""

    def __init__(self) -> None:
        """Start empty."""
        self.text = ""
        """All of it so far."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._n_taken = 0
        """Characters of the parts that were taken."""
        self._drafted: list[tuple[int, int]] = []

    def add(self, piece: bytes, *, from_draft: bool) -> None:
        """Add a token's bytes."""
        text = self._decoder.decode(piece)
        start = len(self.text) - self._n_taken
        self.text += text
        if text and from_draft:
            end = start + len(text)
            if self._drafted and self._drafted[-1][1] == start:
                start = self._drafted.pop()[0]
            self._drafted.append((start, end))

    def end(self) -> None:
        """End the text: the bytes of an incomplete character become U+FFFD."""
        self.text += self._decoder.decode(b"", final=True)

    def take_part(self) -> sessions.AnswerPart | None:
        """Return the text added since the last time, None if there is none."""
        text, drafted = self.text[self._n_taken :], tuple(self._drafted)
        if not text:
            return None
        self._n_taken, self._drafted = len(self.text), []
        return sessions.AnswerPart(text=text, drafted=drafted)


class SessionStore:
    """Opens a session's file with its first entry. Gives up, once and aloud, if it cannot."""

    def __init__(self, warn: Callable[[str], None], *, enabled: bool) -> None:
        """Create the store; ``warn`` gets a sentence if storing fails."""
        self._warn = warn
        self._enabled = enabled
        self._log: sessions.SessionLog | None = None
        self._past: tuple[sessions.Entry, ...] = ()
        """Entries of a resumed conversation: stored again with the next ones, and not before."""

    def take_up(self, past: tuple[sessions.Entry, ...]) -> None:
        """Begin a session with what was said in an earlier one."""
        self.close()
        self._past = past

    def append(self, setup: LiveSetup | None, entry: sessions.Entry) -> None:
        """Store ``entry`` of a conversation with ``setup``."""
        if not self._enabled or setup is None:
            return
        try:
            if self._log is None:
                self._log = sessions.SessionLog(_header(setup))
            for each in (*self._past, entry):
                self._log.append(each)
            self._past = ()
        except SpectuiError as error:
            self._enabled = False
            self._warn(f"{error}. This session is not stored any further.")

    def close(self) -> None:
        """End the session; the next entry begins another."""
        self._past = ()
        if self._log is not None:
            self._log.close()
            self._log = None


def _header(setup: LiveSetup) -> sessions.Header:
    names = sessions.LoadOptions.__struct_fields__
    return sessions.Header(
        started=sessions.now(),
        target=str(setup.target.path),
        draft=None if setup.draft is None else str(setup.draft.path),
        load=sessions.LoadOptions(**{name: getattr(setup, name) for name in names}),
    )
