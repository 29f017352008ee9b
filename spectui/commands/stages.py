"""Stages of ik_llama.cpp: a kind of drafter behind each ``--spec-type``, with its numbers.

``ngram-mod:n_max=32,n_min=2`` is one. Of two the first drafts, and the next where it finds nothing.
What the numbers may be, its own parser judges.
"""

import re
from collections.abc import Sequence

import msgspec

from spectui.commands.renames import IK_KINDS, NONE
from spectui.options.drafters import NGRAM_KINDS

UNFINISHED = "eagle3"
"""Kind that it takes, and that drafts nothing."""
BY_ITSELF = (*NGRAM_KINDS, "suffix")
"""Kinds that need no model to draft."""
_BEHIND = ("mtp", "draft")
"""Kinds that may draft where one without a model finds nothing."""
KNOWN_TO_IK = (NONE, *IK_KINDS.values(), UNFINISHED, *BY_ITSELF)
_KEYS = (
    *("n_max", "n_min", "p_min", "heads", "mtp_heads", "cross_ctx", "dflash_cross_ctx"),
    *("ngram_size_n", "ngram_size_m", "ngram_min_hits"),
    *("suffix_min_match_len", "suffix_max_depth", "suffix_corpus"),
)
_PAIR = re.compile(r"""(?:\\.|'[^']*'|"[^"]*"|[^,])+""")
"""A part between commas outside quotes."""


class Stage(msgspec.Struct, kw_only=True):
    """A drafter with its numbers."""

    kind: str
    numbers: dict[str, str] = msgspec.field(default_factory=dict)
    """Their texts, unchanged."""

    @property
    def words(self) -> tuple[str, ...]:
        """The option that stands for it."""
        settings = ",".join(f"{key}={text}" for key, text in self.numbers.items())
        return ("--spec-type", f"{self.kind}:{settings}" if settings else self.kind)


def read_stage(value: str) -> Stage:
    """The stage that a value of ``--spec-type`` stands for.

    Raises:
        ValueError: ik_llama.cpp stops at the value; the text is its reason.
    """
    name, _, settings = value.partition(":")
    kind = name.replace("_", "-")
    if kind not in KNOWN_TO_IK:
        raise ValueError(
            f"it takes one of {', '.join(KNOWN_TO_IK)}, and the option again for another"
        )
    stage = Stage(kind=kind)
    for pair in _PAIR.findall(settings):
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"it takes KEY=NUMBER behind the colon, and stops at {pair!r}")
        known = key.lstrip("-").replace("-", "_")
        if known not in _KEYS:
            raise ValueError(f"it takes {', '.join(_KEYS)} behind the colon, and stops at {key!r}")
        stage.numbers[known] = text
    return stage


def fault_of_chain(kinds: Sequence[str]) -> str | None:
    """Why ik_llama.cpp refuses stages beside each other; None where it takes them.

    See ``common_speculative_validate_chain``.
    """
    found = [kind for kind in kinds if kind != NONE]
    match found:
        case [] | [_]:
            return None
        case [first, second] if first == second:
            return f"both are {first}, and two have to differ"
        case [first, second]:
            if first in BY_ITSELF and second in _BEHIND:
                return None
            behind = " or ".join(_BEHIND)
            return f"the first of two has to draft without a model, and the second is {behind}"
    return f"it takes two drafters at most, and there are {len(found)}"


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """The stages with those that need no model first, as ik_llama.cpp takes them."""
    return sorted(stages, key=lambda stage: stage.kind not in BY_ITSELF)
