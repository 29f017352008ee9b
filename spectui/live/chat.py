"""The conversation: its turns, the messages that the model reads, its file on disk."""

import codecs
from collections.abc import Callable, Sequence

from spectui.engine.events import GenerationResult, PromptEvaluated
from spectui.errors import SpectuiError
from spectui.format import counted, rate_text, time_text
from spectui.live import sessions
from spectui.live.setup import LiveSetup
from spectui.prompts import ChatMessage, Prompt
from spectui.speculative.decoder import Stop

_USER, _ASSISTANT, _SYSTEM = "user", "assistant", "system"

Messages = tuple[tuple[str, str], ...]
"""(role, content) pairs."""

_STOPS = {
    Stop.END_OF_GENERATION: "",
    Stop.LENGTH: "reached the limit of tokens (Settings)",
    Stop.CONTEXT: "the context is full: begin a new chat, or start with a larger -c",
    Stop.CANCELLED: "stopped",
}


class Chat:
    """One conversation, with at most one answer under way."""

    def __init__(
        self, store: Callable[[sessions.Entry], None], entries: Sequence[sessions.Entry] = ()
    ) -> None:
        """Begin one, or take one up.

        Args:
            store: is told every entry as it happens.
            entries: a stored conversation, which is not told again.
        """
        self._store = store
        self._turns: list[tuple[str, str]] = []
        self._answer: AnswerText | None = None
        self.system = ""
        """System message, empty for none."""
        self._restore(entries)

    @property
    def is_answering(self) -> bool:
        """Whether an answer is under way."""
        return self._answer is not None

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

    def finish(self, note: str, result: GenerationResult | None = None) -> None:
        """End the answer, if any. An empty one is taken back together with its question."""
        if self._answer is None:
            return
        self._answer.end()
        self.flush()
        if self._answer.text:
            self._turns.append((_ASSISTANT, self._answer.text))
        else:
            self._turns.pop()
        self._answer = None
        n_decoded, decode_s = (
            (None, None) if result is None else (result.n_decoded, result.decode_s)
        )
        self._store(sessions.AnswerEnd(note=note, n_decoded=n_decoded, decode_s=decode_s))

    def _restore(self, entries: Sequence[sessions.Entry]) -> None:
        """Take up stored turns without the questions that were never answered.

        The next question would follow such a one without an answer between them.
        """
        turns: list[tuple[str, str]] = []
        for entry in entries:
            match entry:
                case sessions.UserTurn():
                    turns.append((entry.text, ""))
                case sessions.AnswerPart() if turns:
                    question, answer = turns.pop()
                    turns.append((question, answer + entry.text))
        for question, answer in turns:
            if answer:
                self._turns += (_USER, question), (_ASSISTANT, answer)

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
        self._setup: LiveSetup | None = None
        self._settings: sessions.SettingsChange | None = None
        """Settings that were stored last."""
        self._past: Sequence[sessions.Entry] = ()
        """Entries of a resumed conversation: stored again with the next ones, and not before."""

    def take_up(self, past: Sequence[sessions.Entry]) -> None:
        """Begin a session with what was said in an earlier one."""
        self.close()
        self._past, self._settings = past, None

    def answer_with(self, setup: LiveSetup) -> None:
        """Store how the next answer is drafted, where it differs from the last one."""
        self._setup = setup
        settings = sessions.SettingsChange(speculation=setup.speculation)
        if settings != self._settings:
            self._settings = settings
            self.append(settings)

    def append(self, entry: sessions.Entry) -> None:
        """Store an entry of the conversation."""
        if not self._enabled or self._setup is None:
            return
        try:
            if self._log is None:
                self._log = sessions.SessionLog(_header(self._setup))
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


def describe_answer(result: GenerationResult, prompt: PromptEvaluated | None) -> str:
    """Return the line of numbers below an answer."""
    parts = [counted(len(result.tokens), "token")]
    if result.tokens_per_s is not None:
        parts.append(f"{rate_text(result.tokens_per_s)} tokens/s")
    counters = result.counters
    if counters.n_drafted:
        parts.append(f"{counters.n_accepted} of {counters.n_drafted} drafted accepted")
    if prompt is not None:
        new = prompt.n_tokens - prompt.n_reused
        parts.append(f"{counted(new, 'prompt token')} in {time_text(prompt.seconds)}")
    if _STOPS[result.stop]:
        parts.append(_STOPS[result.stop])
    return ", ".join(parts)
