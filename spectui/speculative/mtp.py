"""Drafters over the layers with which a target predicts several tokens (MTP)."""

from dataclasses import replace

from spectui.config import Schedule, SpeculationConfig
from spectui.speculative.drafters import (
    Clock,
    Draft,
    Drafter,
    FastModelDrafter,
    ServerModelDrafter,
)
from spectui.speculative.models import DraftModel, Outputs


class ServerMtpDrafter(ServerModelDrafter):
    """The target's MTP layers driven as by ``common_speculative_impl_draft_mtp``.

    What they read beside a token is the target's hidden state, so they evaluate every verified
    batch again to have that of the target in place of their own.
    """

    _follows_with = Outputs.NONE

    def draft(self, last: int, n_max: int) -> Draft:
        """As a draft model, but for a bound that is applied afterwards."""
        return _cut(super().draft(last, self._model.n_ctx - self._n_past), n_max)


class FastMtpDrafter(FastModelDrafter):
    """MTP layers that read the target's states of accepted tokens with the next draft's first step.

    That saves a decode per round.
    """

    _follows_with = Outputs.NONE

    def draft(self, last: int, n_max: int) -> Draft:
        """Catch up and draft in one go; what was drafted from states of their own is forgotten."""
        draft = super().draft(last, self._model.n_ctx - self._n_past)
        self._model.truncate(self._n_past + 1)
        return _cut(draft, n_max)


def _cut(draft: Draft, n_max: int) -> Draft:
    """The beginning of a draft: MTP layers draft as if context and budget were endless.

    So ``draft_min`` holds for what they would have drafted (``common_speculative_draft``).
    """
    return replace(draft, tokens=draft.tokens[:n_max], probabilities=draft.probabilities[:n_max])


def mtp_drafter(
    model: DraftModel,
    config: SpeculationConfig,
    schedule: Schedule,
    clock: Clock,
    *,
    n_layers: int = 1,
) -> Drafter:
    """The drafter of ``schedule`` over a target's MTP layers.

    Several draft one token each, and know of the text only what all of them have followed: that is
    the server's schedule.
    """
    if n_layers > 1:
        config = replace(config, draft_max=min(config.draft_max, n_layers))
    if schedule is Schedule.SERVER or n_layers > 1:
        return ServerMtpDrafter(model, config, clock)
    return FastMtpDrafter(model, config, clock)
