"""Commands for the engine. Each is answered by exactly one terminal event.

``doing`` says what the engine does while it runs.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from spectui.llama.planned import PlanRequest
from spectui.options.setup import (
    GREEDY,
    OWN_TEMPLATE,
    ContextOptions,
    ModelOptions,
    Rendering,
    SamplingConfig,
)
from spectui.options.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Load the target, closing what was loaded before. Answered by ``ModelLoaded``."""

    doing: ClassVar = "loading the target"
    options: ModelOptions
    context: ContextOptions
    max_draft: int
    """Longest draft that will be asked for."""
    mtp: bool = False
    """Load its MTP layers as well, to draft for itself."""
    mtp_file: bool = False
    """MTP layers of another file will draft for it, which ``LoadDraft`` brings."""
    draft: ModelOptions | None = None
    """Draft that is to be loaded beside it, for which there has to be room as well."""
    from_disk: bool = False
    """Whether to load it even if weights will be read from disk again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDraft:
    """Load a draft for the loaded target, in place of the last one. Answered by ``ModelLoaded``."""

    doing: ClassVar = "loading the draft"
    options: ModelOptions
    mtp: bool = False
    """MTP layers of this file draft, in place of the target's own; it may have nothing else."""
    from_disk: bool = False
    """As ``LoadTarget.from_disk``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadDraft:
    """Free the draft's memory. Answered by ``Done``."""

    doing: ClassVar = "freeing the draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """Turn a conversation or a raw text into tokens. Answered by ``Tokenized``."""

    doing: ClassVar = "reading a prompt"
    text: str | None = None
    messages: tuple[tuple[str, str], ...] = ()
    """(role, content) pairs, rendered with the target's chat template."""
    rendering: Rendering = OWN_TEMPLATE
    """Template to use instead of the model's own, and arguments for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Continue a prompt. Answered by ``GenerationResult``."""

    doing: ClassVar = "generating"
    prompt: tuple[int, ...]
    n_predict: int = -1
    """Tokens to emit, -1 for as many as the context holds."""
    sampling: SamplingConfig = GREEDY
    speculation: Speculation | None = None
    """None runs the target alone."""
    draft_lengths: tuple[int, ...] = ()
    """Bounds of the drafts, one per round and over again, beside those of ``speculation``: for
    measuring what rounds of every length cost. Empty for none."""
    reuse_prompt: bool = False
    """Keep the evaluated prompt and take it up again when the same prompt comes back."""
    conversation: bool = False
    """The prompt continues the last conversation: only what is new of it is evaluated. Its caches
    are put aside while commands without this use the contexts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAnswers:
    """Have the target continue several prompts, each as ``Generate`` would by itself.

    Answered by ``Done``, after an ``AnswerWritten`` for each. Where the context can, it
    decodes a token of several answers at once: with weights that are read once for all of them.
    """

    doing: ClassVar = "writing answers"
    prompts: tuple[tuple[int, ...], ...]
    n_predict: int
    """Tokens of each answer at most, -1 for as many as the context holds."""
    sampling: SamplingConfig
    """Sampling of each answer, from its beginning on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """Have the target read an answer that is there already. Answered by ``AnswerRead``."""

    doing: ClassVar = "reading an answer"
    prompt: tuple[int, ...]
    answer: str
    """Text behind the prompt."""
    n_most: int
    """Tokens that are read at most."""
    temp: float
    """Temperature above 0 at which probabilities are computed."""


SEGMENT_S = 0.5
"""Seconds of a segment: short beside what other programs on the machine do at a stretch, and long
enough for a few tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratePair:
    """Continue a prompt without and with speculation, in turns. Answered by ``PairGenerated``.

    Speculation writes the answer, a segment at a time. Before or after each the target decodes
    alone, and forgets what it wrote. The only event on the way is ``PromptEvaluated``.
    """

    doing: ClassVar = "generating"
    speculative: Generate
    """Generation with speculation; the target alone runs with the same options."""
    baseline_first: bool
    """Whether the target alone begins each segment."""
    segment_s: float = SEGMENT_S
    """Seconds that the first of the two decodes before the other's turn."""
    baseline_share: float = 1.0
    """Share of the answer that the target decodes alone, at most 1. The target's seconds per token
    vary much less than the acceptance, so that a part of the answer is enough to measure them."""

    @property
    def baseline(self) -> Generate:
        """Generation of the target alone."""
        return replace(self.speculative, speculation=None, draft_lengths=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMargin:
    """Measure how clear the target's greedy choice after a text is. Answered by ``MarginProbed``.

    Tells a real loss from two tokens that were equally good but for rounding.
    """

    doing: ClassVar = "comparing two tokens"
    prompt: tuple[int, ...]
    continuation: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChains:
    """Ask the draft for its chain at every position of an output.

    Answered by ``ChainsRecorded``.
    """

    doing: ClassVar = "recording a draft"
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    """The target's continuation of the prompt."""
    depth: int
    """Longest draft that the chains must cover, in tokens."""
    floor: float = 0.0
    """Lowest ``draft_p_min`` above 0 that the chains must cover, see ``Chains.floor``."""
    reuse_prompt: bool = False
    """Keep the caches of the prompt for the next time, and use kept ones."""
    sampling: SamplingConfig | None = None
    """By which the target has sampled the output, for the probabilities that a draft which samples
    would give its tokens; None where they are not wanted."""
    mtp: bool = False
    """Ask MTP layers instead, those of a loaded file or the target's own; the target decodes the
    output for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExperts:
    """Read answers with the target, in a context beside its own. Answered by ``Routing``."""

    doing: ClassVar = "reading which experts answers use"
    texts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Prompt and answer of each. Prompts are read, but their routing is not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePair:
    """Find out, without loading weights, whether a draft fits. Answered by ``ModelInspected``."""

    doing: ClassVar = "reading a model's header"
    request: PlanRequest
    """The pair as it would be loaded, in place of the loaded models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """Close the models and end the thread. Answered by ``Done``."""

    doing: ClassVar = "closing"


Command = (
    LoadTarget
    | LoadDraft
    | UnloadDraft
    | Tokenize
    | Generate
    | WriteAnswers
    | ReadAnswer
    | GeneratePair
    | ProbeMargin
    | RecordChains
    | ReadExperts
    | ComparePair
    | Shutdown
)
