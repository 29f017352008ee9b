"""An answer on its way from the engine to the transcript."""

from spectui.engine.events import GenerationResult, PromptEvaluated, RoundFinished, TokenEmitted
from spectui.live.chat import Chat
from spectui.models.sizes import counted
from spectui.speculative.decoder import Stop
from spectui.tui.widgets.transcript import Transcript, TranscriptToken

_STOPS = {
    Stop.END_OF_GENERATION: "",
    Stop.LENGTH: "reached the length asked for",
    Stop.CONTEXT: "the context is full: begin a new chat, or start with a larger -c",
    Stop.CANCELLED: "stopped",
}


class Answer:
    """Shows the tokens of one answer in order, rejected drafts where they were rejected."""

    def __init__(self, transcript: Transcript, chat: Chat) -> None:
        """Begin an empty one."""
        self._transcript = transcript
        self._chat = chat
        self._waiting: list[TokenEmitted] = []
        """Tokens whose round has not been told yet."""
        self._prompt: PromptEvaluated | None = None
        transcript.start_turn("assistant")

    def prompt_evaluated(self, event: PromptEvaluated) -> None:
        """Remember what the prompt cost."""
        self._prompt = event

    def token_emitted(self, event: TokenEmitted) -> None:
        """Keep it until its round is told."""
        self._waiting.append(event)

    def round_finished(self, event: RoundFinished) -> None:
        """Show the accepted tokens, then what was rejected, then the bonus token."""
        n_after = len(event.round.tokens) - event.round.n_accepted
        split = len(self._waiting) - n_after
        self._show(self._waiting[:split])
        if event.rejected:
            self._transcript.append_rejected(event.rejected)
        self._show(self._waiting[split:])
        self._waiting.clear()

    def flush(self) -> None:
        """Show the first token, which belongs to no round, as soon as it is there."""
        self._show(self._waiting)
        self._waiting.clear()
        self._chat.flush()

    def finish(self, result: GenerationResult) -> None:
        """End with one line of numbers."""
        self.flush()
        note = self._note(result)
        self._transcript.end_turn(note)
        self._chat.finish(note, n_decoded=result.n_decoded, decode_s=result.decode_s)

    def fail(self, reason: str) -> None:
        """End with what went wrong."""
        self.flush()
        self._transcript.end_turn("")
        self._transcript.start_turn("notice")
        self._transcript.append_text(reason)
        self._transcript.end_turn("")
        self._chat.finish(reason)

    def _show(self, events: list[TokenEmitted]) -> None:
        tokens = [TranscriptToken(piece=e.piece, from_draft=e.from_draft) for e in events]
        if tokens:
            self._transcript.append_tokens(tokens)
        for event in events:
            self._chat.add(event.piece, from_draft=event.from_draft)

    def _note(self, result: GenerationResult) -> str:
        parts = [counted(len(result.tokens), "token")]
        if result.tokens_per_s is not None:
            parts.append(f"{result.tokens_per_s:.1f} tokens/s")
        counters = result.counters
        if counters.n_drafted:
            parts.append(f"{counters.n_accepted} of {counters.n_drafted} drafted accepted")
        if self._prompt is not None:
            new = self._prompt.n_tokens - self._prompt.n_reused
            parts.append(f"{counted(new, 'prompt token')} in {self._prompt.seconds:.1f} s")
        if _STOPS[result.stop]:
            parts.append(_STOPS[result.stop])
        return ", ".join(parts)
