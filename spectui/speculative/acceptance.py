"""Acceptance of drafted tokens: the target samples once per position until it disagrees."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.speculative.counters import RoundEnd
from spectui.speculative.models import TargetModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Result of the target's check of a draft."""

    tokens: tuple[int, ...]
    """Emitted: the accepted tokens, then the bonus token unless the text has ended."""
    n_accepted: int
    end: RoundEnd


def accept(target: TargetModel, draft: Sequence[int]) -> Acceptance:
    """Sample the verified batch and compare it with the draft.

    As ``common_sampler_sample_and_accept_n``: the target's own sample is emitted whether it
    matches or not, which is why the output cannot depend on the draft. A drafted end of text is
    counted as accepted only in the last place of the draft, since llama-server counts so;
    nothing is emitted after it.

    Args:
        target: has just decoded the last token and the draft, with logits for all.
        draft: the drafted tokens, possibly none.
    """
    emitted: list[int] = []
    for position, drafted in enumerate(draft):
        token = target.sample(position)
        emitted.append(token)
        if token != drafted:
            return Acceptance(tokens=tuple(emitted), n_accepted=position, end=RoundEnd.MISMATCH)
        if target.is_eog(token):
            n_accepted = position + 1 if position + 1 == len(draft) else position
            return Acceptance(
                tokens=tuple(emitted), n_accepted=n_accepted, end=RoundEnd.END_OF_GENERATION
            )
    emitted.append(target.sample(len(draft)))
    return Acceptance(tokens=tuple(emitted), n_accepted=len(draft), end=RoundEnd.EXHAUSTED)
