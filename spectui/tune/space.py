"""The search space: which arms and settings a study may try."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import msgspec

from spectui.errors import UsageError
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NGRAMS,
    DraftSimple,
    ModelDrafter,
    Ngram,
    NgramMapK,
    NgramMod,
    NgramSimple,
    number_of,
    numbers_of,
    old_defaults,
    with_kind,
)
from spectui.options.setup import ContextOptions
from spectui.options.speculation import Speculation
from spectui.speculative.mtp import longest_draft as longest_mtp_draft
from spectui.trace.replay import Grid
from spectui.tune.layouts import Layouts

MAX_DRAFT = 16
LEAST_P_MIN = 0.3
"""Least ``draft_p_min`` above 0 that is forecast. Lower ones hardly differ from 0: on 14 recordings
of the demo's drafts the best of them was 0.8 % faster at most. A draft's chains behind its errors
end where they are less probable, which leaves a sixth of them to be recorded."""
P_MINS = tuple(
    p
    for p in number_of(DraftSimple, "draft_p_min").searched_values(MAX_DRAFT)
    if not 0 < p < LEAST_P_MIN
)
"""Values of ``draft_p_min`` that are forecast."""
_NO_FLOOR = 2.0
_LONGEST_PRESENT = 32
"""Longest draft of the user's present setting that is recorded for it. To measure rounds of longer
ones takes more time than to race the setting."""
SERVER_DEFAULTS = DraftSimple()
"""Defaults of current llama-server."""
OLD_DEFAULTS = old_defaults(DraftSimple)
"""Defaults of llama-server until spring 2026."""
_NUMBERS = numbers_of(DraftSimple)

FIRST_NGRAM = NgramSimple(size_n=4, size_m=8)
"""Llama-server's own 12 and 48 draft nothing before 62 tokens, nor ever less than 12 at once:
right for long texts that repeat whole paragraphs. Four tokens in a row already are rarely a
coincidence, and occur in short texts as well."""
_NGRAM_M = (4, 8, 12, 16)
"""Longest drafts of n-gram drafters that are replayed, beside the space's own."""
AHEAD: tuple[Ngram, ...] = (
    FIRST_NGRAM,
    NgramMapK(size_n=4, size_m=8),
    NgramMod(n_match=16, n_min=0, n_max=16),
)
"""Drafters that may precede a draft model: their proposals take its place, so they should
propose only what is likely. Of these at most one; more seldom differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Candidates for drafting, all numbers of which vary.

    N-gram drafters are in it wherever the user's server has them: they cost no memory.
    """

    drafts: tuple[str, ...]
    """Names of draft models, ``MTP_KIND`` for the target's own MTP layers; none if only n-gram
    drafters can be tried."""
    max_draft: int = MAX_DRAFT
    """Longest draft that batch and context have room for, at most ``MAX_DRAFT``."""
    mtp_layers: Mapping[str, int] = field(default_factory=dict)
    """MTP layers by draft, the target's own under ``MTP_KIND``; none or 0 of another draft."""
    with_ngrams: bool = True
    """Whether n-gram drafters may be tried; needed where there is no draft model."""
    readers: tuple[tuple[str, str], ...] = ()
    """Drafts that read the target's hidden states, each with its kind of ``HIDDEN_STATE_KINDS``."""
    with_p_min: bool = True
    """Whether ``draft_p_min`` varies: a trace may hold too little for that."""
    layouts: Layouts | None = None
    """How the target lies beside each draft; None where that is alike."""
    present: Arm | None = None
    """The user's present arm, which is tried first; it may lie outside the search space."""

    def layers_of(self, draft: str | None) -> int:
        """MTP layers that a draft consists of; 0 for another one, and for none."""
        return self.mtp_layers.get(draft or "", 0)

    def placed(self, arm: Arm) -> Arm:
        """The arm with the layout that goes with its draft."""
        return arm if self.layouts is None else replace(arm, layout=self.layouts.of(arm.draft).text)

    @property
    def off(self) -> Arm:
        """The baseline: the target in its layout without a draft."""
        return self.placed(OFF)

    @property
    def defaults(self) -> tuple[Arm, ...]:
        """Arms that the user has or gets without tuning, besides off.

        One of them drafts from n-grams: so each kind of drafter has a real trial, however little
        time there is, and a sampler that has never seen a kind would leave it alone.
        """
        arms = [self.arm(draft, SERVER_DEFAULTS) for draft in self.drafts]
        # Builds that had these defaults knew nothing of MTP.
        models = [draft for draft in self.drafts if not self.layers_of(draft)]
        arms += [self.arm(draft, OLD_DEFAULTS) for draft in models[:1]]
        arms += [Arm(draft=None, speculation=Speculation(FIRST_NGRAM))] * self.with_ngrams
        return tuple(
            self.placed(arm)
            for arm in arms
            if arm.speculation is not None and arm.speculation.own.longest <= self.max_draft
        )

    def arm(self, draft: str, setting: ModelDrafter, ahead: Sequence[Ngram] = ()) -> Arm:
        """``draft`` with the numbers of ``setting``, as many as there are MTP layers for."""
        n_layers = self.layers_of(draft)
        is_mtp = n_layers > 0 or draft == MTP_KIND
        own = with_kind(setting, dict(self.readers).get(draft, MTP_KIND if is_mtp else MODEL_KIND))
        if n_layers:
            longest = longest_mtp_draft(own.draft_max, n_layers)
            own = msgspec.structs.replace(own, draft_max=longest).within_bounds()
        return Arm(draft=draft, speculation=Speculation(own, tuple(ahead)))

    def grid(self, draft: str) -> Grid:
        """Every setting of a draft model, for a replay."""
        most = longest_mtp_draft(self.max_draft, self.layers_of(draft))
        lists: dict[str, Any] = {one.name: one.searched_values(most) for one in _NUMBERS}
        return Grid(**{**lists, "draft_p_min": P_MINS if self.with_p_min else (0.0,)})

    @property
    def depth(self) -> int:
        """Longest draft that a recording has to answer for."""
        present = None if self.present is None else self.present.speculation
        longest = 0 if present is None else present.longest
        return max(self.max_draft, longest if longest <= _LONGEST_PRESENT else 0)

    @property
    def floor(self) -> float:
        """Least ``draft_p_min`` above 0 that a recording has to answer for; above 1 for none."""
        floors = [LEAST_P_MIN] * self.with_p_min
        present = None if self.present is None else self.present.speculation
        if present is not None and present.model is not None and present.model.draft_p_min > 0:
            floors.append(present.model.draft_p_min)
        return min(floors, default=_NO_FLOOR)

    def ngrams(self) -> tuple[Speculation, ...]:
        """Settings of n-gram drafters, for a replay: representative ones of those in between.

        No draft is longer than a draft model's, which is what costs are measured for.
        """
        if not self.with_ngrams:
            return ()
        found = (setting for drafter in NGRAMS for setting in self._ngrams_of(drafter))
        return tuple(
            Speculation(one)
            for one in found
            if one.longest <= self.max_draft and one.check() is None
        )

    def _ngrams_of(self, drafter: type[Ngram]) -> Iterator[Ngram]:
        # Lengths vary fastest.
        numbers = sorted(numbers_of(drafter), key=lambda number: number.bounds_drafts)
        lengths = (*(m for m in _NGRAM_M if m < self.max_draft), self.max_draft)
        values = [
            lengths if one.bounds_drafts else one.replayed or (int(one.default),) for one in numbers
        ]
        for chosen in product(*values):
            yield drafter(**{one.name: value for one, value in zip(numbers, chosen, strict=True)})

    def ahead(self) -> tuple[Ngram, ...]:
        """N-gram drafters that may draft ahead of a draft model."""
        if not (self.drafts and self.with_ngrams):
            return ()
        return tuple(setting for setting in AHEAD if setting.longest <= self.max_draft)


def longest_draft(context: ContextOptions) -> int:
    """Longest draft to try: the verified batch holds the bonus token as well.

    Raises:
        UsageError: the batch has no room for a draft.
    """
    longest = min(MAX_DRAFT, context.batch_size - 1, context.ctx_size - 1)
    if longest < SERVER_DEFAULTS.draft_max:
        raise UsageError(
            f"-b {context.batch_size} and -c {context.ctx_size} have no room for a draft of "
            f"{SERVER_DEFAULTS.draft_max} tokens; raise them"
        )
    return longest
