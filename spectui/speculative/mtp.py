"""Drafters over the layers with which a target predicts several tokens (MTP)."""

from dataclasses import replace

import msgspec

from spectui.options.drafters import ModelDrafter
from spectui.options.setup import Schedule
from spectui.speculative.drafters import (
    Clock,
    Draft,
    Drafter,
    FastModelDrafter,
    ModelFollower,
    ServerModelDrafter,
)
from spectui.speculative.models import DraftModel, Outputs


class _MtpDrafter(ModelFollower):
    """Base of the drafters of both schedules."""

    _follows_with = Outputs.NONE

    def __init__(
        self, model: DraftModel, config: ModelDrafter, clock: Clock, *, bounded: bool = False
    ) -> None:
        """Draft with ``model``; if ``bounded``, no longer chains than are asked for."""
        super().__init__(model, config, clock)
        self._bounded = bounded

    def _longest(self, n_max: int) -> int:
        """MTP layers draft as if context and budget were endless: the bound comes afterwards."""
        return n_max if self._bounded else self._model.n_ctx - self._n_past


class ServerMtpDrafter(_MtpDrafter, ServerModelDrafter):
    """The target's MTP layers driven as by ``common_speculative_impl_draft_mtp``.

    What they read beside a token is the target's hidden state, so they evaluate every verified
    batch again to have that of the target in place of their own.
    """

    def draft(self, last: int, n_max: int) -> Draft:
        """Draft like a draft model, with a bound that is applied afterwards."""
        return _cut(super().draft(last, self._longest(n_max)), n_max)


class FastMtpDrafter(_MtpDrafter, FastModelDrafter):
    """MTP layers that read the target's states of accepted tokens with the next draft's first step.

    That saves a decode per round.
    """

    def draft(self, last: int, n_max: int) -> Draft:
        """Catch up and draft in one go; what was drafted from states of their own is forgotten."""
        draft = super().draft(last, self._longest(n_max))
        self._model.truncate(self._n_past + 1)
        return _cut(draft, n_max)


def _cut(draft: Draft, n_max: int) -> Draft:
    """The beginning of a draft.

    ``draft_min`` holds for what MTP layers would have drafted (``common_speculative_draft``).
    """
    return replace(draft, tokens=draft.tokens[:n_max], probabilities=draft.probabilities[:n_max])


def mtp_drafter(
    model: DraftModel,
    config: ModelDrafter,
    schedule: Schedule,
    clock: Clock,
    *,
    n_layers: int = 1,
    bounded: bool = False,
) -> Drafter:
    """The drafter of ``schedule`` over a target's MTP layers.

    Several draft one token each, and know of the text only what all of them have followed: that is
    the server's schedule.

    Args:
        model: the MTP layers.
        config: the setting.
        schedule: the work per round.
        clock: source of all times.
        n_layers: MTP layers that draft.
        bounded: make no longer chains than are asked for: for measuring what chains cost.
    """
    longest = longest_draft(config.draft_max, n_layers)
    config = msgspec.structs.replace(config, draft_max=longest)
    if effective_schedule(schedule, n_layers) is Schedule.SERVER:
        return ServerMtpDrafter(model, config, clock, bounded=bounded)
    return FastMtpDrafter(model, config, clock, bounded=bounded)


ONLY_SERVER = "several MTP layers draft on llama-server's schedule alone"
"""Why ``effective_schedule`` is not what was asked for."""


def effective_schedule(wanted: Schedule, n_layers: int) -> Schedule:
    """The work per round that ``n_layers`` MTP layers can do it in; 0 for none that draft."""
    return Schedule.SERVER if n_layers > 1 else wanted


def longest_draft(wanted: int, n_layers: int) -> int:
    """Limit a draft's length: a single layer feeds itself, of several each drafts one token."""
    return min(wanted, n_layers) if n_layers > 1 else wanted
