"""The drafter over the layers with which a target predicts several tokens (MTP)."""

from dataclasses import replace

import msgspec

from spectui.options.drafters import ModelDrafter
from spectui.speculative.drafters import Clock, Draft, DraftModelDrafter
from spectui.speculative.models import DraftModel, Outputs


class MtpDrafter(DraftModelDrafter):
    """The target's MTP layers driven as by ``common_speculative_impl_draft_mtp``.

    Besides a token they read the target's hidden state, so they evaluate every verified batch
    again, with the target's states in place of their own.
    """

    _follows_with = Outputs.NONE

    def __init__(
        self,
        model: DraftModel,
        config: ModelDrafter,
        clock: Clock,
        *,
        n_layers: int = 1,
        bounded: bool = False,
    ) -> None:
        """Draft with MTP layers.

        Args:
            model: the MTP layers.
            config: the setting.
            clock: source of all times.
            n_layers: MTP layers that draft.
            bounded: make no longer chains than are asked for: for measuring what chains cost.
        """
        longest = longest_draft(config.draft_max, n_layers)
        super().__init__(model, msgspec.structs.replace(config, draft_max=longest), clock)
        self._bounded = bounded

    def draft(self, last: int, n_max: int) -> Draft:
        """Draft as if context and budget were endless; the bound is applied afterwards."""
        longest = n_max if self._bounded else self._model.n_ctx - self._n_past
        draft = super().draft(last, longest)
        # ``draft_min`` holds for what they would have drafted (``common_speculative_draft``).
        return replace(
            draft, tokens=draft.tokens[:n_max], probabilities=draft.probabilities[:n_max]
        )


def longest_draft(wanted: int, n_layers: int) -> int:
    """Limit a draft's length: a single layer feeds itself, of several each drafts one token."""
    return min(wanted, n_layers) if n_layers > 1 else wanted
