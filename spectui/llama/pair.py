"""Contexts in the roles of the speculative loop: a target that samples, a draft that proposes."""

from collections.abc import Sequence

from spectui.config import ContextOptions
from spectui.llama.context import AbortFlag, Context, Logits
from spectui.llama.model import Model
from spectui.llama.sampling import SamplerChain, top_token
from spectui.speculative.models import Outputs


class TargetContext(Context):
    """Implements ``TargetModel``: samples with the chain it is given per generation."""

    sampler: SamplerChain | None = None
    prompt_logits: Logits | None = None
    """[n_vocab] logits of a restored prompt, which a restored cache lacks."""

    def __init__(
        self, model: Model, options: ContextOptions, *, max_draft: int, abort: AbortFlag
    ) -> None:
        """Room for the logits of a draft of ``max_draft`` tokens and the bonus token."""
        super().__init__(model, options, max_outputs=max_draft + 1, abort=abort)
        self._end_tokens = self.vocabulary.end_tokens

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """As ``Context.decode``; the logits of a restored prompt are past then."""
        self.prompt_logits = None
        super().decode(tokens, outputs)

    def sample(self, output: int) -> int:
        """Sample from an output of the last decode, or from a restored prompt."""
        if self.sampler is None:
            raise RuntimeError("no sampler was set for this generation")
        logits = self.logits(output) if self.prompt_logits is None else self.prompt_logits
        return self.sampler.sample(logits)

    def is_eog(self, token: int) -> bool:
        """Whether ``token`` ends the text."""
        return token in self._end_tokens


class DraftContext(Context):
    """Implements ``DraftModel``."""

    def __init__(self, model: Model, options: ContextOptions, *, abort: AbortFlag) -> None:
        """Only the last token of a decode ever has logits."""
        super().__init__(model, options, max_outputs=1, abort=abort)

    def top(self) -> tuple[int, float]:
        """Top token of the last decode."""
        return top_token(self.logits(0))
