"""Experts that the recorded answers use, read once from the target after the race.

They tell why verifying a batch costs what it does, and what a cache of experts on a GPU would hold.
"""

from operator import itemgetter

from spectui.documents import Json, Known, encoded, or_reason
from spectui.engine.commands import ReadExperts
from spectui.errors import BadInputError, DoesNotFitError, EngineDiedError, UsageError
from spectui.format import bytes_text, counted, percent_text
from spectui.trace.routing import ExpertUse, use_of
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import NO_TIME, Pace
from spectui.tune.setup import SearchSetup

_MOST_TOKENS = 1024
"""Tokens of answers that are read: enough for every expert to have been used many times."""
_SLOWER = 2.0
"""Factor by which reading takes longer than a prompt does: for the logits of every token, and as
llama.cpp stops behind each router."""
_FARTHER = 2
"""Doublings between the two sizes that a sentence has, from the smallest that holds anything."""
_NOT_RECORDED = "no answers were recorded in this process"
_NO_EXPERTS = "the target has no experts"

Experts = Known[ExpertUse]
"""Use of the experts, or why it is not known."""


def experts_document(found: Experts) -> Json:
    """``moe_cache`` in documents."""
    told = None if found.value is None else encoded(found.value)
    return or_reason("moe_cache", told, found.reason or "")


def cache_sentence(found: Experts) -> str | None:
    """Caches of two sizes in words; None where nothing is known, or RAM has no experts."""
    use = found.value
    held = () if use is None else tuple(one for one in use.caches if one.hit_rate)
    if use is None or not held:
        return None
    shown = dict.fromkeys((held[0], *held[: 1 + _FARTHER][-1:]))
    (size_mib, rate), *larger = [(one.size_mib, percent_text(one.hit_rate)) for one in shown]
    held_text = f"{rate} of the experts that a token reads from RAM"
    more = "".join(f", {size} {share}" for size, share in larger)
    others = " and ".join(bytes_text(round(one.upload_bytes)) for one in shown)
    return (
        f"On a GPU, --moe-cache-mib {size_mib} would hold {held_text}{more}; the others, {others} "
        f"for each token, would be copied there (by {counted(use.n_answers, 'recorded answer')})."
    )


def batch_sentence(found: Experts, n_tokens: float) -> str | None:
    """Experts that a batch of about so many tokens reads; None where they are not known."""
    use = found.value
    if use is None or not use.batches[1:]:
        return None
    one, *more = use.batches
    near = min(more, key=lambda batch: abs(batch.n_tokens - n_tokens))
    return (
        f"{near.n_tokens} consecutive tokens read {near.measured:.1f} of a layer's "
        f"{use.n_experts} experts, {near.random:.1f} if they were routed at random; one "
        f"reads {one.measured:.3g}."
    )


def read_experts(setup: SearchSetup, pace: Pace, forecaster: Forecaster | None) -> Experts:
    """Read what there is time for of the answers that ``forecaster`` has recorded."""
    texts = () if forecaster is None else forecaster.texts
    if forecaster is None or not texts:
        return Experts(None, _NOT_RECORDED)
    token_s, left_s = _SLOWER * setup.measurer.prompt_token_s, pace.left_s
    chosen, n_left = list[tuple[tuple[int, ...], tuple[int, ...]]](), _MOST_TOKENS
    for prompt, answer in filter(itemgetter(1), texts):
        left_s -= token_s * (len(prompt) + len(answer))
        if left_s < 0 or n_left <= 0:
            break
        n_left -= len(answer)
        chosen.append((prompt, answer))
    if not chosen:
        return Experts(None, NO_TIME)
    try:
        routing = forecaster.loader.engine.read_experts(ReadExperts(texts=tuple(chosen)))
    except (BadInputError, DoesNotFitError, EngineDiedError, UsageError) as error:
        # Such as no room for one more context: all else is measured.
        return Experts(None, str(error))
    return Experts(use_of(routing)) if routing.layers else Experts(None, _NO_EXPERTS)
