"""The chat between the user and the loaded pair: on the screen, in the model's context, on disk."""

from collections.abc import Iterator, Sequence

from spectui.engine.events import (
    EngineFailed,
    GenerationFinished,
    GenerationResult,
    PromptEvaluated,
    RoundFinished,
    TokenEmitted,
)
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.live.chat import Chat, SessionStore
from spectui.live.setup import LiveSetup
from spectui.live.tally import LiveTally
from spectui.sessions import (
    AnswerEnd,
    AnswerPart,
    Entry,
    Session,
    SettingsChange,
    UserTurn,
)
from spectui.speculative.decoder import Stop
from spectui.tui.chat.transcript import Transcript
from spectui.tui.text.conversation import Role, TranscriptToken

AnswerEvent = PromptEvaluated | TokenEmitted | RoundFinished | GenerationFinished

_STOPS = {
    Stop.END_OF_GENERATION: "",
    Stop.LENGTH: "reached the length asked for",
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
        self._waiting: list[TokenEmitted] = []
        """Tokens whose round has not been told yet."""
        self._prompt: PromptEvaluated | None = None
        self._settings: SettingsChange | None = None
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
        self._tally.generation_started(setup.drafting)

    def say(self, role: Role, text: str) -> None:
        """Show a turn that is complete."""
        self._transcript.start_turn(role)
        self._transcript.append_text(text)
        self._transcript.end_turn("")

    def resume(self, session: Session) -> None:
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
            case TokenEmitted():
                # Shown when its round is told.
                self._waiting.append(event)
            case RoundFinished():
                self._round_finished(event)
                self._tally.round_finished(event.round)
            case PromptEvaluated():
                self._prompt = event
                self._tally.prompt_evaluated(event)
            case GenerationFinished(result=result):
                self.flush()
                note = describe_answer(result, self._prompt)
                self._transcript.end_turn(note)
                self.chat.finish(note, n_decoded=result.n_decoded, decode_s=result.decode_s)
                self._end()

    def _round_finished(self, event: RoundFinished) -> None:
        """Show the accepted tokens, then what was rejected, then the bonus token."""
        n_after = len(event.round.tokens) - event.round.n_accepted
        split = len(self._waiting) - n_after
        self._show(self._waiting[:split])
        if event.rejected:
            self._transcript.append_rejected(event.rejected)
        self._show(self._waiting[split:])
        self._waiting.clear()

    def _show(self, events: Sequence[TokenEmitted]) -> None:
        if events:
            self._transcript.append_tokens(
                [TranscriptToken(piece=e.piece, from_draft=e.from_draft) for e in events]
            )
        for event in events:
            self.chat.add(event.piece, from_draft=event.from_draft)

    def fail(self, event: EngineFailed) -> None:
        """End the answer with what went wrong."""
        if not self.is_answering:
            return
        stopped = isinstance(event.error, CancelledError)
        reason = "stopped before the first token" if stopped else explain_failure(event)
        self.flush()
        self._transcript.end_turn("")
        self.say("notice", reason)
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
            self._show(self._waiting)
            self._waiting.clear()
            self.chat.flush()

    def close(self) -> None:
        """Store what came of an answer that nobody waits for any more."""
        self.flush()
        self._store.close()

    def _keep_settings(self, setup: LiveSetup) -> None:
        """Store how the next answer is drafted, where it differs from the last one."""
        settings = SettingsChange(speculation=setup.speculation)
        if settings != self._settings:
            self._settings = settings
            self._keep(settings)

    def _keep(self, entry: Entry) -> None:
        self._store.append(self._setup, entry)


def show_stored(entries: Sequence[Entry], transcript: Transcript) -> None:
    """Show ``entries`` as they were, with the marks of who wrote what."""
    answering = False
    for entry in entries:
        match entry:
            case UserTurn():
                if answering:
                    # Killed in the middle of an answer.
                    transcript.end_turn("cut off")
                transcript.start_turn("user")
                transcript.append_text(entry.text)
                transcript.end_turn("")
                transcript.start_turn("assistant")
                answering = True
            case AnswerPart():
                transcript.append_tokens(tuple(_tokens(entry)))
            case AnswerEnd():
                transcript.end_turn(entry.note)
                answering = False
            case SettingsChange():
                pass
    if answering:
        transcript.end_turn("cut off")


def _tokens(part: AnswerPart) -> Iterator[TranscriptToken]:
    at = 0
    for start, end in (*part.drafted, (len(part.text), len(part.text))):
        for piece, from_draft in ((part.text[at:start], False), (part.text[start:end], True)):
            if piece:
                yield TranscriptToken(piece=piece.encode(), from_draft=from_draft)
        at = end


def describe_answer(result: GenerationResult, prompt: PromptEvaluated | None) -> str:
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


def explain_failure(event: EngineFailed) -> str:
    """Return the failure as a sentence."""
    if event.trace is None:
        return str(event.error)
    return f"{event.error}; this is a defect of spectui's, and the log (F8) has more"
