"""Events of the engine. Frozen; emitted on the engine's thread."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from spectui.documents import Json
from spectui.errors import SpectuiError
from spectui.llama.buffers import ModelMemory
from spectui.models.facts import ModelFacts
from spectui.models.ranking import ModelInspected
from spectui.options.setup import ModelOptions
from spectui.speculative.counters import Counters, Round
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.record import Chains
from spectui.trace.routing import Routing


class Role(StrEnum):
    """Role of a model."""

    TARGET = "target"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """Weights are being read."""

    role: Role
    path: Path
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWarned:
    """A remark on a load: weights will be read from disk, or ``--fit`` has placed layers."""

    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded:
    """A model is ready to decode."""

    role: Role
    info: ModelFacts
    rollback: Rollback
    n_ctx: int
    """Tokens that its context holds; of a target at most those that it was trained for."""
    memory: ModelMemory
    """Memory that it takes and reads."""
    mtp_layers: int = 0
    """MTP layers of a target that can draft for itself, or of a draft that consists of them; 0 for
    one that was loaded without."""
    placed: ModelOptions | None = None
    """Options of a target whose placement was open, with what was chosen; None for any other."""

    @property
    def remedy(self) -> str:
        """The remedy where its context is too short."""
        is_full = self.n_ctx >= self.info.n_ctx_train
        return "the model was trained for no more" if is_full else "raise -c"

    def document(self) -> Json:
        """The model's description as JSON."""
        return self.info.document(rollback=str(self.rollback), n_ctx=self.n_ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenized:
    """Result of ``Tokenize``."""

    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEvaluated:
    """The prompt stands in the caches; generation begins."""

    n_tokens: int
    seconds: float
    n_reused: int
    """Part of ``n_tokens`` that the target's cache still held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEmitted:
    """One token of the output."""

    token: int
    piece: bytes
    """Bytes of text, possibly half a character."""
    from_draft: bool
    """Whether the draft proposed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFinished:
    """One round of drafting and verification; its tokens were emitted before."""

    round: Round
    rejected: tuple[bytes, ...]
    """Text of the drafted tokens that did not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """A generation ended; all of it."""

    tokens: tuple[int, ...]
    text: str
    n_prompt_tokens: int
    prompt_s: float
    decode_s: float
    """Wall seconds from the first token to the last."""
    counters: Counters
    stop: Stop
    rounds: tuple[Round, ...] = ()
    """Each round; empty where a server decoded."""
    n_evaluated: int | None = None
    """Tokens of the prompt that the target evaluated in ``prompt_s``: the others it still held.
    None where that is not known."""
    prompt_draft_s: float | None = None
    """Part of ``prompt_s`` in which a draft model or MTP layers read the prompt, 0 without either;
    None where it is not known, as of a server."""
    n_read: int | None = None
    """Prompt tokens that the draft model or the MTP layers read in ``prompt_draft_s``."""

    @property
    def n_decoded(self) -> int:
        """Tokens decoded within ``decode_s``: the first one came with the prompt."""
        return max(0, len(self.tokens) - 1)

    @property
    def tokens_per_s(self) -> float | None:
        """Decode throughput as llama-server's ``predicted_per_second``; None without a decode."""
        return self.n_decoded / self.decode_s if self.n_decoded else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWritten:
    """An answer of ``WriteAnswers`` is complete."""

    index: int
    """Index of the prompt."""
    tokens: tuple[int, ...]
    stop: Stop
    decode_s: float
    """Seconds from the first token to the last; its share of those in which others grew as well."""
    read_s: float | None = None
    """Seconds of evaluating the prompt as a whole; None where it was known already."""
    probabilities: tuple[float, ...] = ()
    """Probability of each token among those that the samplers had left; empty where not kept."""

    def first(self, n: int) -> "AnswerWritten":
        """The answer as it would be, had ``n`` tokens been asked for at most."""
        tokens, is_ended = self.tokens[:n], self.stop is Stop.END_OF_GENERATION
        is_all = len(self.tokens) < n or (len(self.tokens) == n and is_ended)
        return replace(self, tokens=tokens, stop=self.stop if is_all else Stop.LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRead:
    """The target has read an answer."""

    tokens: tuple[int, ...]
    """Tokens of the answer, as many as asked for; with ``is_ended`` its end token as well."""
    is_ended: bool
    """Whether the answer was read to its end, and the target would end it there."""
    log_p: tuple[float, ...]
    """Natural logarithm of the probability of each token of the text."""
    entropy: tuple[float, ...]
    """Expected ``-log_p`` of the target at the same position, in nats."""
    variance: tuple[float, ...]
    """Variance of that, in square nats."""
    read_s: float | None
    """Seconds of evaluating the prompt as a whole; None where it was known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Part of an answer that was decoded without and with speculation, close in time."""

    baseline_s: tuple[float, ...]
    """[n]: seconds of each token of the target alone, which are the first ones of this segment
    where it began, and those of another one where speculation did."""
    rounds: tuple[Round, ...]
    """Rounds of speculation."""

    @property
    def n_tokens(self) -> int:
        """Tokens that speculation wrote."""
        return sum(len(one.tokens) for one in self.rounds)

    @property
    def baseline_decode_s(self) -> float:
        """Seconds of the target alone for as many tokens."""
        return sum(self.baseline_s) / len(self.baseline_s) * self.n_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGenerated:
    """A prompt was continued without and with speculation.

    The tokens of ``baseline`` are what the target alone chose after the text that speculation had
    written so far: the first difference of the two is where their outputs part. Its ``decode_s``
    are the seconds that these tokens take at the pace of each segment.
    """

    speculative: GenerationResult
    baseline: GenerationResult
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginProbed:
    """Gap between the target's two best logits, and how far batching moves a logit there."""

    margin: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainsRecorded:
    """A drafter's proposals at every position of an output."""

    chains: Chains
    seconds: float
    """Seconds of the draft's work, without the prompt."""
    read_s: float | None = None
    """Seconds in which the prompt was evaluated as a whole, by MTP layers together with the target;
    None where it was known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFailed:
    """A command failed. The engine lives on."""

    error: SpectuiError
    trace: str | None
    """The traceback, where the failure is a defect of spectui."""

    @classmethod
    def of(cls, error: Exception) -> "EngineFailed":
        """The failure of a command; errors other than ``SpectuiError`` are defects of spectui."""
        if isinstance(error, SpectuiError):
            return cls(error=error, trace=None)
        trace = "".join(traceback.format_exception(error))
        return cls(error=SpectuiError(f"{type(error).__name__}: {error}"), trace=trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command without a result of its own was executed; of ``Shutdown`` the last event."""


Answer = (
    ModelLoaded
    | Tokenized
    | GenerationResult
    | AnswerRead
    | PairGenerated
    | MarginProbed
    | ChainsRecorded
    | Routing
    | ModelInspected
    | EngineFailed
    | Done
)
"""An event that answers a command."""

Event = (
    Answer
    | LoadProgress
    | LoadWarned
    | PromptEvaluated
    | TokenEmitted
    | RoundFinished
    | AnswerWritten
)

Sink = Callable[[Event], None]
"""Called with each event, on the engine's thread."""
