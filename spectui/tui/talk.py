"""The chat between the user and the loaded pair, on the event loop."""

from collections.abc import Callable

from spectui.engine.events import (
    EngineFailed,
    GenerationFinished,
    PromptEvaluated,
    RoundFinished,
    TokenEmitted,
)
from spectui.errors import CancelledError
from spectui.live.chat import Chat
from spectui.live.setup import LiveSetup
from spectui.live.store import SessionStore
from spectui.live.tally import LiveTally
from spectui.sessions import Entry, Session, SettingsChange
from spectui.tui.answer import Answer
from spectui.tui.restore import replay
from spectui.tui.text.conversation import Role
from spectui.tui.widgets.transcript import Transcript

Send = Callable[[LiveSetup, Chat], None]
"""Hands the conversation so far to the engine."""

AnswerEvent = PromptEvaluated | TokenEmitted | RoundFinished | GenerationFinished


class Talk:
    """One conversation after the other, each with at most one answer under way."""

    def __init__(self, transcript: Transcript, store: SessionStore) -> None:
        """Show in ``transcript``, keep in ``store``."""
        self._transcript = transcript
        self._kept = store
        self._setup: LiveSetup | None = None
        self.tally = LiveTally()
        self.chat = Chat(self._store)
        self._answer: Answer | None = None
        self._settings: SettingsChange | None = None
        """What was stored last."""

    @property
    def is_answering(self) -> bool:
        """Whether an answer is under way."""
        return self._answer is not None

    def begin(self) -> None:
        """Begin another conversation; the old one stays stored."""
        if self._answer is not None:
            # Its pair is going, and nothing more will come.
            self.chat.finish("cut off")
            self._end()
        self._transcript.clear()
        self._settings = None
        self._kept.close()
        self.chat = Chat(self._store)

    def ask(self, text: str, setup: LiveSetup, send: Send) -> None:
        """Show a question and send it."""
        self._setup = setup
        self._store_settings(setup)
        self.say("user", text)
        self.chat.system = setup.system
        self.chat.ask(text)
        self._answer = Answer(self._transcript, self.chat)
        self.tally.generation_started(setup.drafting)
        send(setup, self.chat)

    def say(self, role: Role, text: str) -> None:
        """Show a turn that is complete."""
        self._transcript.start_turn(role)
        self._transcript.append_text(text)
        self._transcript.end_turn("")

    def resume(self, session: Session) -> None:
        """Take up a stored conversation."""
        self.begin()
        self._kept.take_up(session.entries)
        replay(session.entries, self._transcript)
        self.chat.restore(session.entries)

    def handle(self, event: AnswerEvent) -> None:
        """Take what the engine tells of the answer."""
        answer = self._answer
        if answer is None:
            return
        match event:
            case PromptEvaluated():
                answer.prompt_evaluated(event)
                self.tally.prompt_evaluated(event)
            case TokenEmitted():
                answer.token_emitted(event)
            case RoundFinished():
                answer.round_finished(event)
                self.tally.round_finished(event.round)
            case GenerationFinished():
                answer.finish(event.result)
                self._end()

    def fail(self, event: EngineFailed) -> None:
        """End the answer with what went wrong."""
        if self._answer is not None:
            stopped = isinstance(event.error, CancelledError)
            self._answer.fail("stopped before the first token" if stopped else explain(event))
            self._end()

    def _end(self) -> None:
        self._answer = None
        self.tally.generation_finished()

    def flush(self) -> None:
        """Bring everything that has come so far to screen and disk."""
        if self._answer is not None:
            self._answer.flush()

    def close(self) -> None:
        """Store what came of an answer that nobody waits for any more."""
        self.flush()
        self._kept.close()

    def _store_settings(self, setup: LiveSetup) -> None:
        """Store how the next answer is drafted, where it differs from the last one."""
        settings = SettingsChange(speculation=setup.speculation)
        if settings != self._settings:
            self._settings = settings
            self._store(settings)

    def _store(self, entry: Entry) -> None:
        self._kept.append(self._setup, entry)


def explain(event: EngineFailed) -> str:
    """Return the failure as a sentence."""
    if event.trace is None:
        return str(event.error)
    return f"{event.error}; this is a defect of spectui's, and the log (F8) has more"
