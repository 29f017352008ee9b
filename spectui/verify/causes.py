"""Likely causes of differences in counts between llama-server and the engine. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.format import counted
from spectui.measure.lossless import differs
from spectui.measure.measurer import Pair
from spectui.verify.builds import Builds
from spectui.verify.counts import CountCheck

_FEW = 4
"""Near ties are rare: one is likely only if at most one prompt in this many differs."""


class Cause(StrEnum):
    """The likely cause of a difference."""

    BUILD = "build"
    """The binary is a different build of llama.cpp."""
    NEAR_TIE = "near tie"
    """Two choices were closer than the effect of a different batch size."""
    OTHER = "other"


_SAID = {
    Cause.BUILD: "the binary is another llama.cpp than the one that measures in-process",
    Cause.NEAR_TIE: (
        "a near tie, two tokens that are closer than a batch of another size moves them"
    ),
    Cause.OTHER: (
        "something that the server has and the measurement has not, such as its environment, its "
        "own arguments or another build"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """Number of prompts that differ, with the likely cause."""

    n_different: int
    n_prompts: int
    cause: Cause

    @property
    def sentence(self) -> str:
        """The difference and its cause in one sentence."""
        prompts = counted(self.n_prompts, "prompt")
        return f"counts differ on {self.n_different} of {prompts}; likely reason: {self.reason}."

    @property
    def reason(self) -> str:
        """The cause in words."""
        return _SAID[self.cause]


def differing(
    check: CountCheck | None, builds: Builds, delivered: Sequence[Pair]
) -> Differing | None:
    """The prompts whose counts differ; None if all are equal or none were compared."""
    names = set() if check is None else {one.prompt_id for one in check.differences}
    if not names:
        return None
    prompts = {pair.item.id for pair in delivered}
    # The server's own greedy output changed with the size of its batches.
    unsteady = {pair.item.id for pair in delivered if differs(pair)}
    cause = Cause.OTHER
    if builds.is_same is False:
        cause = Cause.BUILD
    elif names <= unsteady or len(names) * _FEW <= len(prompts):
        cause = Cause.NEAR_TIE
    return Differing(n_different=len(names), n_prompts=len(prompts), cause=cause)
