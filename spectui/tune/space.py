"""The search space: which arms and settings a study may try."""

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from spectui.config import (
    CACHE_LONGEST,
    MTP_KIND,
    ContextOptions,
    NgramConfig,
    NgramKind,
    SpeculationConfig,
    ngram_setting,
)
from spectui.errors import UsageError
from spectui.speculative.mtp import longest_draft as longest_mtp_draft
from spectui.trace.grid import Grid
from spectui.tune.placements import Placements
from spectui.tune.trials import OFF, Arm

MAX_DRAFT = 16
MAX_DRAFT_MIN = 4
P_MIN_STEP = 0.05
MAX_P_MIN = 0.95

SERVER_DEFAULTS = SpeculationConfig(draft_max=3, draft_min=0, draft_p_min=0.0)
"""Of current llama-server."""
OLD_DEFAULTS = SpeculationConfig(draft_max=16, draft_min=0, draft_p_min=0.75)
"""Of llama-server until spring 2026."""

FIRST_NGRAM = SpeculationConfig(draft_max=8, ngram=NgramConfig(size_n=4))
"""Llama-server's own 12 and 48 draft nothing before 62 tokens, nor ever less than 12 at once:
right for long texts that repeat whole paragraphs. Four tokens in a row already are rarely a
coincidence, and occur in short texts as well."""
MIN_NGRAM_N = 2
"""One token that stood before says little about the next."""
MAX_NGRAM_N = 12
MAX_NGRAM_MATCH = 24
"""Of ``ngram-mod``, which cannot tell n-grams in one slot apart: llama-server warns below 16."""
MAX_HITS = 3
_NGRAM_M = (4, 8, 12, 16)
_NGRAMS: dict[NgramKind, dict[str, tuple[int, ...]]] = {
    NgramKind.SIMPLE: {"size_n": (2, 3, 4, 6, 8, 12)},
    NgramKind.MAP_K: {"size_n": (2, 3, 4, 6, 8)},
    NgramKind.MAP_K4V: {"size_n": (2, 3, 4, 6), "min_hits": (1, 2)},
    NgramKind.MOD: {"n_match": (4, 8, 16, 24), "n_min": (0, 2)},
}
"""What is replayed of each kind, with every longest draft."""
AHEAD = tuple(
    ngram_setting(kind, options)
    for kind, options in (
        (NgramKind.SIMPLE, {"size_n": 4, "size_m": 8}),
        (NgramKind.MAP_K, {"size_n": 4, "size_m": 8}),
        (NgramKind.MOD, {"n_match": 16, "n_min": 0, "n_max": 16}),
    )
)
"""Those that may stand before a draft model: what they propose takes its place, so they should
propose only what is likely. Of these at most one; more seldom differ."""
_LENGTH = {NgramKind.MOD: "n_max"}


class Parameter(StrEnum):
    """What ``--tune`` may name."""

    DRAFT_MAX = "draft_max"
    DRAFT_MIN = "draft_min"
    DRAFT_P_MIN = "draft_p_min"
    AHEAD = "ahead"
    """N-gram drafters that are asked before the draft model."""
    DRAFT = "draft"
    """A choice wherever there are several, named or not."""
    N_CPU_MOE = "n_cpu_moe"
    """Layers that keep their experts in RAM: follows from the draft, see ``Placements``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Candidates and the parameters that vary; the others stay at the server's defaults.

    N-gram drafters are in it wherever the user's server has them: they cost no memory.
    """

    drafts: tuple[str, ...]
    """Names of draft models, ``MTP_KIND`` for the target's own MTP layers; none if only n-gram
    drafters can be tried."""
    tuned: frozenset[Parameter] = frozenset(Parameter)
    max_draft: int = MAX_DRAFT
    """Longest draft that batch and context have room for, at most ``MAX_DRAFT``."""
    mtp_layers: int = 0
    """Of the target's own, where they may draft."""
    with_ngrams: bool = True
    """Whether n-gram drafters may be tried; needed where there is no draft model."""
    readers: tuple[tuple[str, str], ...] = ()
    """Drafts that read the target's hidden states, each with its kind of ``SERVER_KINDS``."""
    placements: Placements | None = None
    """Where the experts lie with each draft; None where that is not searched."""
    present: Arm | None = None
    """What the user runs today, which is tried first; it may lie outside of what is searched."""

    def placed(self, arm: Arm) -> Arm:
        """The arm with the placement that goes with its draft."""
        if self.placements is None:
            return arm
        return replace(arm, n_cpu_moe=self.placements.of(arm.draft))

    @property
    def off(self) -> Arm:
        """The baseline: the target as it lies without a draft."""
        return self.placed(OFF)

    def first_arms(self) -> tuple[Arm, ...]:
        """Arms that every study tries first: what the user has or gets without tuning.

        One of them drafts from n-grams: so each kind of drafter has a real trial, however little
        time there is, and a sampler that has never seen a kind would leave it alone.
        """
        arms = [OFF]
        arms += [self.arm(draft, SERVER_DEFAULTS) for draft in self.drafts]
        if Parameter.DRAFT_MAX in self.tuned and Parameter.DRAFT_P_MIN in self.tuned:
            # Builds that had these defaults knew nothing of MTP.
            models = [draft for draft in self.drafts if draft != MTP_KIND]
            arms += [self.arm(draft, OLD_DEFAULTS) for draft in models[:1]]
        arms += [Arm(draft=None, speculation=FIRST_NGRAM)] * self.with_ngrams
        return tuple(
            self.placed(arm)
            for arm in arms
            if arm.speculation is None or arm.speculation.draft_max <= self.max_draft
        )

    def arm(self, draft: str, setting: SpeculationConfig) -> Arm:
        """``draft`` with ``setting``, or with as much of it as there are MTP layers for."""
        if draft != MTP_KIND:
            own = replace(setting, reader=dict(self.readers).get(draft))
            return Arm(draft=draft, speculation=own)
        longest = longest_mtp_draft(setting.draft_max, self.mtp_layers)
        # A draft_min above draft_max would drop every draft.
        shortest = min(setting.draft_min, longest)
        own = replace(setting, draft_max=longest, draft_min=shortest, mtp=True)
        return Arm(draft=draft, speculation=own)

    def grid(self, draft: str) -> Grid:
        """Every setting of a draft model, for a replay."""
        tuned, fixed = self.tuned, SERVER_DEFAULTS
        of_layers = self.mtp_layers if draft == MTP_KIND else 0
        most = longest_mtp_draft(self.max_draft, of_layers)
        longest = tuple(range(1, most + 1))
        shortest = tuple(range(MAX_DRAFT_MIN + 1))
        floors = tuple(round(step * P_MIN_STEP, 2) for step in range(round(1 / P_MIN_STEP)))
        return Grid(
            draft_max=longest if Parameter.DRAFT_MAX in tuned else (min(fixed.draft_max, most),),
            draft_min=shortest if Parameter.DRAFT_MIN in tuned else (fixed.draft_min,),
            draft_p_min=floors if Parameter.DRAFT_P_MIN in tuned else (fixed.draft_p_min,),
        )

    def ngrams(self) -> tuple[SpeculationConfig, ...]:
        """Settings of n-gram drafters, for a replay: representative ones of those in between.

        No draft is longer than a draft model's, which is what costs are measured for.
        """
        if not self.with_ngrams:
            return ()
        if Parameter.DRAFT_MAX not in self.tuned:
            return (FIRST_NGRAM,) * (self.max_draft >= FIRST_NGRAM.draft_max)
        lengths = sorted({m for m in _NGRAM_M if m < self.max_draft} | {self.max_draft})
        found = [
            ngram_setting(kind, dict(zip(names, values, strict=True)))
            for kind, ranges in _NGRAMS.items()
            for names in ((*ranges, _LENGTH.get(kind, "size_m")),)
            for values in product(*ranges.values(), lengths)
        ]
        if self.max_draft >= CACHE_LONGEST:
            found.append(ngram_setting(NgramKind.CACHE, {}))
        return tuple(setting for setting in found if _drafts(setting))

    def ahead(self) -> tuple[SpeculationConfig, ...]:
        """N-gram drafters that may be asked before a draft model."""
        if not (self.drafts and self.with_ngrams and Parameter.AHEAD in self.tuned):
            return ()
        return tuple(setting for setting in AHEAD if setting.draft_max <= self.max_draft)


def _drafts(setting: SpeculationConfig) -> bool:
    """Whether it can draft at all: ``ngram-simple`` makes no draft shorter than its n-gram."""
    ngram = setting.ngram
    is_simple = ngram is not None and ngram.kind is NgramKind.SIMPLE
    return not is_simple or ngram is None or ngram.size_n <= setting.draft_max


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
