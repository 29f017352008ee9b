"""Events of a live session besides the engine's own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # They load numpy; a screen that only waits for the events need not.
    from spectui.live.recording import ChatRecording
    from spectui.tune.progress import TuningState


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMeasured:
    """The target was measured alone."""

    tokens_per_s: float
    step_s: float
    """Seconds of one decode of one token: V(1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningChanged:
    """The search beside the chat has moved on."""

    state: "TuningState"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecorded:
    """Recording has begun, more is known of the answers, or another pair is being loaded."""

    recording: "ChatRecording | None"
