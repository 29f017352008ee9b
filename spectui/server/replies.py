"""Typed replies of llama-server's endpoints.

They are checked when they are decoded: impossible counts are refused. Text is as the server sent
it; ``one_line`` makes it safe to show.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from spectui.format import printable

_LONGEST = 300
_MOST_MS = 7 * 24 * 3600 * 1000
"""No answer takes a week: such a number is no time."""
_MOST_SLOTS = 1024
"""Four times as many as llama.cpp can have."""

_Number = Annotated[int, Meta(ge=-(1 << 62), lt=1 << 62)]
"""Bounded, since Python's integers of any length may not fit into a float."""
_Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
_Milliseconds = Annotated[float, Meta(ge=0, le=_MOST_MS)]


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Return ``text`` without line breaks and without what a terminal would obey."""
    # A server may send megabytes.
    words = " ".join(text[: 4 * longest].split())
    plain = printable(words, mark="\N{REPLACEMENT CHARACTER}")
    is_whole = len(plain) <= longest and len(text) <= 4 * longest
    return plain if is_whole else f"{plain[: longest - 3]}..."


class _Fault(msgspec.Struct):
    message: str = ""


class ErrorReply(msgspec.Struct):
    """The body of a reply with an error status."""

    error: _Fault | str = ""

    @property
    def message(self) -> str:
        """The server's own words."""
        return self.error if isinstance(self.error, str) else self.error.message


class HealthReply(msgspec.Struct):
    """``GET /health``."""

    status: str


class TokenizeReply(msgspec.Struct):
    """``POST /tokenize``."""

    tokens: tuple[_Count, ...]


class TemplateReply(msgspec.Struct):
    """``POST /apply-template``."""

    prompt: str


class Timings(msgspec.Struct):
    """``timings`` of a completion, and of each token of a streamed one."""

    predicted_n: _Count
    predicted_ms: _Milliseconds
    prompt_ms: _Milliseconds
    prompt_n: _Count | None = None
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
        """Proposed tokens that the target confirmed."""
        return self.draft_n_accepted or 0


STREAMED = {"stream": True, "timings_per_token": True}
"""Fields of a request whose answer tells its rounds."""
_DATA = b"data:"


class Round(NamedTuple):
    """One round of a streamed answer; without a draft, one token."""

    n_drafted: int
    n_accepted: int
    n_emitted: int
    """Tokens accepted and one more, unless the text ends within them."""
    seconds: float


class _Chunk(msgspec.Struct):
    timings: Timings


def read_rounds(content: bytes) -> tuple[Round, ...]:
    """Read the rounds of an answer that was asked for with ``STREAMED``.

    Raises:
        msgspec.MsgspecError: it tells no times, or is no such answer.
    """
    lines = content.splitlines()
    chunks = [line.removeprefix(_DATA) for line in lines if line.startswith(_DATA)]
    if not chunks:
        raise msgspec.ValidationError("it is no stream")
    return tuple(_rounds([msgspec.json.decode(chunk, type=_Chunk).timings for chunk in chunks]))


def _rounds(timings: Sequence[Timings]) -> Iterator[Round]:
    # The first token comes with the prompt.
    before, n_before = Timings(predicted_n=1, predicted_ms=0.0, prompt_ms=0.0), 1
    # All tokens of a round come at one time.
    for after in {one.predicted_ms: one for one in timings if one.predicted_n > 1}.values():
        n_accepted = after.n_accepted - before.n_accepted
        n_drafted = after.n_drafted - before.n_drafted
        # Tokens that end within a character are withheld: those at the end of a round are counted
        # with the next round's, and a round that has no others is not reported.
        n_rounds = max(1, after.predicted_n - n_before - n_accepted)
        seconds = (after.predicted_ms - before.predicted_ms) / 1000 / n_rounds
        for n in range(n_rounds):
            accepted = n_accepted if n == n_rounds - 1 else 0
            yield Round(
                n_drafted=(n_drafted + n) // n_rounds,
                n_accepted=accepted,
                n_emitted=min(accepted + 1, timings[-1].predicted_n - n_before),
                seconds=seconds,
            )
            n_before += accepted + 1
        before = after


class Completion(msgspec.Struct, rename={"text": "content", "stop": "stop_type"}):
    """``POST /completion``: the server's output for one prompt, and its cost."""

    text: str
    tokens: tuple[_Count, ...]
    stop: str
    """Why it ended: ``eos``, ``word``, ``limit`` or ``none``."""
    timings: Timings

    def __post_init__(self) -> None:
        # It may be more: tokens of a draft behind the answer's end were decoded as well.
        if self.n_predicted < len(self.tokens):
            raise ValueError(f"predicted_n {self.n_predicted}, tokens {len(self.tokens)}")
        # The first token is the target's own. A text that ends of itself may end within a draft, of
        # which more was accepted.
        if self.stop == "limit" and self.n_accepted >= max(self.n_predicted, 1):
            raise ValueError(
                f"draft_n_accepted {self.n_accepted} of predicted_n {self.n_predicted}"
            )

    @property
    def n_predicted(self) -> int:
        """Tokens that were decoded."""
        return self.timings.predicted_n

    @property
    def predicted_s(self) -> float:
        """Decode time: that of ``n_predicted - 1`` tokens, as the first needs the prompt alone."""
        return self.timings.predicted_ms / 1000

    @property
    def n_drafted(self) -> int:
        """Tokens proposed."""
        return self.timings.n_drafted

    @property
    def n_accepted(self) -> int:
        """Proposed tokens that the target confirmed."""
        return self.timings.n_accepted

    @property
    def prompt_s(self) -> float:
        """Seconds of evaluating the part of the prompt that was not cached."""
        return self.timings.prompt_ms / 1000

    @property
    def n_evaluated(self) -> int | None:
        """Tokens of that part; None where the server does not report them."""
        return self.timings.prompt_n


class _Defaults(msgspec.Struct):
    n_ctx: _Number | None = None


class PropsReply(msgspec.Struct):
    """``GET /props``: what does not change while a server runs."""

    default_generation_settings: _Defaults = msgspec.field(default_factory=_Defaults)
    total_slots: _Number | None = None
    model_alias: str | None = None
    model_path: str | None = None
    model_ftype: str | None = None
    build_info: str | None = None
    is_sleeping: bool = False
    role: str | None = None

    @property
    def n_ctx(self) -> int | None:
        """Tokens that a slot has room for."""
        return self.default_generation_settings.n_ctx or None


class ModelMeta(msgspec.Struct):
    """The weights of a model, as ``/v1/models`` has them."""

    n_params: _Number | None = None
    size: _Number | None = None


class ModelReply(msgspec.Struct):
    """One model of ``/v1/models``."""

    meta: ModelMeta | None = None


class ModelsReply(msgspec.Struct):
    """``GET /v1/models``."""

    data: list[ModelReply] = []


class SlotPhase(StrEnum):
    """The activity of a slot."""

    IDLE = "idle"
    PROMPT = "reading"
    """The slot evaluates a prompt."""
    GENERATING = "generating"


class NextToken(msgspec.Struct, frozen=True):
    """Progress of a slot's request."""

    n_decoded: _Number | None = None


class SlotParameters(msgspec.Struct, frozen=True):
    """Parameters of a slot's request."""

    types: str | None = msgspec.field(default=None, name="speculative.types")


class SlotReply(msgspec.Struct, frozen=True, kw_only=True):
    """One slot of ``GET /slots``. Missing fields are None."""

    id: _Number
    n_ctx: _Number | None = None
    speculates: bool | None = msgspec.field(default=None, name="speculative")
    is_processing: bool = False
    """Whether it has a request."""
    task: _Number | None = msgspec.field(default=None, name="id_task")
    """The request's number."""
    n_used: _Number | None = msgspec.field(default=None, name="n_prompt_tokens")
    """Tokens of the slot's context that are in use, drafts under way included."""
    params: SlotParameters | None = None
    next_token: tuple[NextToken, ...] = ()

    @property
    def phase(self) -> SlotPhase:
        """The activity of the slot."""
        if not self.is_processing:
            return SlotPhase.IDLE
        return SlotPhase.GENERATING if self.n_decoded else SlotPhase.PROMPT

    @property
    def n_decoded(self) -> int | None:
        """Tokens generated for the request; the last one's when idle."""
        return self.next_token[0].n_decoded if self.next_token else None

    @property
    def drafters(self) -> tuple[str, ...]:
        """Drafters of the request, in llama-server's words; empty where it does not say."""
        types = "" if self.params is None else self.params.types or ""
        return tuple(one_line(name) for name in types.split(",") if name not in {"", "none"})


SlotsReply = Annotated[tuple[SlotReply, ...], Meta(max_length=_MOST_SLOTS)]
"""``GET /slots``."""
