"""Checks whether speculation changed the output, and whether rounding explains a difference."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.documents import Json, fields_of, or_reason
from spectui.engine.commands import ProbeMargin
from spectui.measure.backend import Backend
from spectui.measure.measurer import Pair
from spectui.speculative.models import n_common


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first token at which an output differs from the target-only output.

    A batch of several tokens is computed in another order than one token, so logits move by
    ``noise``. Two logits can trade places if the gap between them is at most twice that.
    """

    prompt_id: str
    position: int
    margin: float | None
    """Gap between the two best logits of the target-only run; None where a server decoded, which
    does not report logits."""
    noise: float | None
    """Largest difference of a logit between one-by-one and batched decoding of the same text; None
    as ``margin``."""

    @property
    def explained(self) -> bool | None:
        """Whether rounding accounts for it; None where that is not known."""
        if self.margin is None or self.noise is None:
            return None
        return self.margin <= 2 * self.noise


@dataclass(frozen=True, slots=True, kw_only=True)
class LosslessCheck:
    """The worst divergence of a measurement, None if all outputs were equal."""

    divergence: Divergence | None
    n_different: int = 0
    """Prompts whose outputs are not equal."""
    n_compared: int | None = None
    """Tokens that the target alone decoded for it: in the race of a search, a share of each answer.
    None where an older spectui kept it."""

    @property
    def lossless(self) -> bool | None:
        """Whether outputs are equal but for rounding; None where rounding is not known."""
        return True if self.divergence is None else self.divergence.explained


NO_MARGIN = (
    "llama-server does not tell how close the target's choice was, so whether rounding explains "
    "where the outputs part is not known"
)
"""Why a divergence has no margin."""
_NOT_COUNTED = "an older spectui did not count them"


def lossless_document(check: LosslessCheck | None) -> Json:
    """Whether speculation changed the output, in documents."""
    if check is None:
        reason = "only complete runs of greedy output are compared"
        return {**or_reason("lossless", None, reason), "n_compared": 0, "divergence": None}
    worst = check.divergence
    return {
        **or_reason("lossless", check.lossless, NO_MARGIN),
        **or_reason("n_compared", check.n_compared, _NOT_COUNTED),
        "divergence": worst
        and {
            "prompt": worst.prompt_id,
            "position": worst.position,
            **fields_of(worst, NO_MARGIN, "margin", "noise"),
            "n_prompts": check.n_different,
        },
    }


def check_lossless(engine: Backend, pairs: Sequence[Pair]) -> LosslessCheck:
    """Compare the outputs of greedy pairs; probe the target where they differ."""
    first: dict[str, Pair] = {}
    for pair in filter(differs, pairs):
        first.setdefault(pair.item.id, pair)
    found = [_probe(engine, pair) for pair in first.values()]
    unexplained = [divergence for divergence in found if not divergence.explained]
    return LosslessCheck(
        divergence=next(iter(unexplained or found), None),
        n_different=len(found),
        # Of a segment, the tokens that the target alone decoded; the others are speculation's own.
        n_compared=sum(
            pair.baseline.counters.n_rounds if pair.segments else pair.baseline.n_decoded
            for pair in pairs
        ),
    )


def differs(pair: Pair) -> bool:
    """Whether speculation gave another output than the target alone."""
    return pair.baseline.tokens != pair.speculative.tokens


def _probe(engine: Backend, pair: Pair) -> Divergence:
    own = pair.baseline.tokens
    position = n_common(own, pair.speculative.tokens)
    probe = engine.probe_margin(ProbeMargin(prompt=pair.item.tokens, continuation=own[:position]))
    return Divergence(
        prompt_id=pair.item.id,
        position=position,
        margin=None if probe is None else probe.margin,
        noise=None if probe is None else probe.noise,
    )
