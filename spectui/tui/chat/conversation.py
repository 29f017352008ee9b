"""The chat between the user and the loaded pair: on the screen, in the model's context, on disk."""

from collections.abc import Iterator, Sequence

from textual.dom import DOMNode

from spectui.engine import events
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.live import sessions
from spectui.live.chat import Chat, SessionStore
from spectui.live.setup import LiveSetup
from spectui.live.tally import LiveTally
from spectui.speculative.decoder import Stop
from spectui.tui.chat.transcript import Role, Token, Transcript
from spectui.tui.widgets import key_of

AnswerEvent = (
    events.PromptEvaluated | events.TokenEmitted | events.RoundFinished | events.GenerationResult
)

_STOPS = {
    Stop.END_OF_GENERATION: "",
    Stop.LENGTH: "reached the limit of tokens (Settings)",
    Stop.CONTEXT: "the context is full: begin a new chat, or start with a larger -c",
    Stop.CANCELLED: "stopped",
}


class ConversationController:
    """One conversation after the other, each with at most one answer under way."""

    def __init__(self, transcript: Transcript, store: SessionStore, tally: LiveTally) -> None:
        """Begin an empty one.

        Args:
            transcript: shows it.
            store: keeps it on disk.
            tally: counts the rounds of its answers.
        """
        self._transcript = transcript
        self._store = store
        self._tally = tally
        self._setup: LiveSetup | None = None
        self.chat = Chat(self._keep)
        self.is_answering = False
        """Whether an answer is under way."""
        self._waiting: list[Token] = []
        """Tokens whose round has not been told yet."""
        self._prompt: events.PromptEvaluated | None = None
        self._settings: sessions.SettingsChange | None = None
        """Settings that were stored last."""

    def begin(self) -> None:
        """Begin another conversation; the old one stays stored."""
        if self.is_answering:
            # Its pair is going, and nothing more will come.
            self.chat.finish("cut off")
            self._end()
        self._transcript.clear()
        self._settings = None
        self._store.close()
        self.chat = Chat(self._keep)

    def ask(self, text: str, setup: LiveSetup) -> None:
        """Show a question, which is about to be sent, and begin its answer."""
        self._setup = setup
        self._keep_settings(setup)
        self.say("user", text)
        self.chat.system = setup.system
        self.chat.ask(text)
        self.is_answering, self._prompt = True, None
        self._transcript.start_turn("assistant")
        self._tally.generation_started(setup.drafting, setup.context.ctx_size)

    def say(self, role: Role, text: str) -> None:
        """Show a turn that is complete."""
        self._transcript.start_turn(role)
        self._transcript.append_text(text)
        self._transcript.end_turn("")

    def resume(self, session: sessions.Session) -> None:
        """Take up a stored conversation."""
        self.begin()
        self._store.take_up(session.entries)
        show_stored(session.entries, self._transcript)
        self.chat.restore(session.entries)

    def take(self, event: AnswerEvent) -> None:
        """Process the engine's events of the answer."""
        if not self.is_answering:
            return
        match event:
            case events.TokenEmitted():
                # Shown when its round is told.
                self._waiting.append((event.piece, event.from_draft))
            case events.RoundFinished():
                # The accepted tokens, then what was rejected, then the bonus token.
                self._show(len(self._waiting) - len(event.round.tokens) + event.round.n_accepted)
                if event.rejected:
                    self._transcript.append_rejected(event.rejected)
                self._show()
                self._tally.round_finished(event.round)
            case events.PromptEvaluated():
                self._prompt = event
                self._tally.prompt_evaluated(event)
            case events.GenerationResult() as result:
                self.flush()
                note = describe_answer(result, self._prompt)
                self._transcript.end_turn(note)
                self.chat.finish(note, n_decoded=result.n_decoded, decode_s=result.decode_s)
                self._end()

    def _show(self, n_tokens: int | None = None) -> None:
        """Show the first of the waiting tokens, by default all."""
        shown = self._waiting[:n_tokens]
        del self._waiting[:n_tokens]
        if shown:
            self._transcript.append_tokens(shown)
        for piece, from_draft in shown:
            self.chat.add(piece, from_draft=from_draft)

    def fail(self, event: events.EngineFailed, advice: str = "") -> None:
        """End the answer with what went wrong, and with what may be done then."""
        if not self.is_answering:
            return
        stopped = isinstance(event.error, CancelledError)
        reason = (
            "stopped before the first token"
            if stopped
            else explain_failure(event, self._transcript.app)
        )
        self.flush()
        self._transcript.end_turn("")
        self.say("notice", f"{reason}. {advice}" if advice else reason)
        self.chat.finish(reason)
        self._end()

    def _end(self) -> None:
        self.is_answering = False
        self._waiting.clear()
        self._tally.generation_finished()

    def flush(self) -> None:
        """Bring everything that has come so far to screen and disk.

        The first token belongs to no round, and is shown as soon as it is there.
        """
        if self.is_answering:
            self._show()
            self.chat.flush()

    def close(self) -> None:
        """Store what came of an answer that nobody waits for any more."""
        self.flush()
        self._store.close()

    def _keep_settings(self, setup: LiveSetup) -> None:
        """Store how the next answer is drafted, where it differs from the last one."""
        settings = sessions.SettingsChange(speculation=setup.speculation)
        if settings != self._settings:
            self._settings = settings
            self._keep(settings)

    def _keep(self, entry: sessions.Entry) -> None:
        self._store.append(self._setup, entry)


def show_stored(entries: Sequence[sessions.Entry], transcript: Transcript) -> None:
    """Show ``entries`` as they were, with the marks of who wrote what."""
    answering = False
    for entry in entries:
        match entry:
            case sessions.UserTurn():
                if answering:
                    # Killed in the middle of an answer.
                    transcript.end_turn("cut off")
                transcript.start_turn("user")
                transcript.append_text(entry.text)
                transcript.end_turn("")
                transcript.start_turn("assistant")
                answering = True
            case sessions.AnswerPart():
                transcript.append_tokens(_tokens(entry))
            case sessions.AnswerEnd():
                transcript.end_turn(entry.note)
                answering = False
            case sessions.SettingsChange():
                pass
    if answering:
        transcript.end_turn("cut off")


def _tokens(part: sessions.AnswerPart) -> Iterator[Token]:
    at = 0
    for start, end in (*part.drafted, (len(part.text), len(part.text))):
        for piece, from_draft in ((part.text[at:start], False), (part.text[start:end], True)):
            if piece:
                yield piece.encode(), from_draft
        at = end


def describe_answer(result: events.GenerationResult, prompt: events.PromptEvaluated | None) -> str:
    """Return the line of numbers below an answer."""
    parts = [counted(len(result.tokens), "token")]
    if result.tokens_per_s is not None:
        parts.append(f"{result.tokens_per_s:.1f} tokens/s")
    counters = result.counters
    if counters.n_drafted:
        parts.append(f"{counters.n_accepted} of {counters.n_drafted} drafted accepted")
    if prompt is not None:
        new = prompt.n_tokens - prompt.n_reused
        parts.append(f"{counted(new, 'prompt token')} in {prompt.seconds:.1f} s")
    if _STOPS[result.stop]:
        parts.append(_STOPS[result.stop])
    return ", ".join(parts)


def explain_failure(event: events.EngineFailed, app: DOMNode) -> str:
    """Return the failure as a sentence."""
    if event.trace is None:
        return str(event.error)
    log = key_of(app, "app.log")
    return f"{event.error}; this is a defect of spectui's, and the log ({log}) has more"
