"""A stored conversation back on the screen."""

from collections.abc import Iterator

from spectui.sessions import AnswerEnd, AnswerPart, Entry, SettingsChange, UserTurn
from spectui.tui.widgets.transcript import Transcript, TranscriptToken


def replay(entries: tuple[Entry, ...], transcript: Transcript) -> None:
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
