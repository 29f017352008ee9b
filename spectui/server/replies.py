"""What llama-server answers, as far as spectui reads it; what it cannot have counted is refused."""

from typing import Annotated

import msgspec
from msgspec import Meta

_MOST_MS = 7 * 24 * 3600 * 1000
"""No answer takes a week: such a number is no time."""
_Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
_Milliseconds = Annotated[float, Meta(ge=0, le=_MOST_MS)]


class _Timings(msgspec.Struct):
    predicted_n: _Count
    predicted_ms: _Milliseconds
    prompt_ms: _Milliseconds
    # Both are absent when nothing was drafted.
    draft_n: _Count | None = None
    draft_n_accepted: _Count | None = None

    def __post_init__(self) -> None:
        # The first token comes with the prompt, and takes no time of its own.
        if self.predicted_n > 1 and not self.predicted_ms:
            raise ValueError(f"predicted_n {self.predicted_n} in predicted_ms 0")
        if (self.draft_n is None) != (self.draft_n_accepted is None):
            raise ValueError("one of draft_n and draft_n_accepted, without the other")
        if self.n_accepted > self.n_drafted:
            raise ValueError(f"draft_n_accepted {self.n_accepted} of draft_n {self.n_drafted}")

    @property
    def n_drafted(self) -> int:
        """Tokens proposed."""
        return self.draft_n or 0

    @property
    def n_accepted(self) -> int:
        """Of them, those that the target confirmed."""
        return self.draft_n_accepted or 0


class CompletionReply(msgspec.Struct):
    """``POST /completion``."""

    content: str
    tokens: tuple[int, ...]
    stop_type: str
    timings: _Timings

    def __post_init__(self) -> None:
        # It may be more: what an answer ends within was decoded all the same.
        n_predicted, n_accepted = self.timings.predicted_n, self.timings.n_accepted
        if n_predicted < len(self.tokens):
            raise ValueError(f"predicted_n {n_predicted}, tokens {len(self.tokens)}")
        # The first token is the target's own. A text that ends of itself may end within a draft, of
        # which more was accepted.
        if self.stop_type == "limit" and n_accepted and n_accepted >= n_predicted:
            raise ValueError(f"draft_n_accepted {n_accepted} of predicted_n {n_predicted}")


class TokenizeReply(msgspec.Struct):
    """``POST /tokenize``."""

    tokens: tuple[int, ...]


class TemplateReply(msgspec.Struct):
    """``POST /apply-template``."""

    prompt: str


class HealthReply(msgspec.Struct):
    """``GET /health``."""

    status: str


class SlotReply(msgspec.Struct):
    """One of ``GET /slots``."""

    speculative: bool | None = None


class _Fault(msgspec.Struct):
    message: str


class ErrorReply(msgspec.Struct):
    """What comes with a status that is none of success."""

    error: _Fault
