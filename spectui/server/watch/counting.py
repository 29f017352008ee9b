"""Differences between two looks at a server's counters, over its restarts as well."""

import math
from dataclasses import dataclass

from spectui.server.metrics import NO_DRAFTS, Counters, DraftCounts
from spectui.server.replies import SlotReply

_DIGITS = 6
"""Significant ones of a number in llama-server's ``/metrics``."""
_ENOUGH = 20
"""A difference this many times as large as the rounding of its terms is off by 5 % at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The work of a server over some time. Nothing in it is negative."""

    n_prompt: int = 0
    prompt_s: float = 0.0
    n_predicted: int = 0
    predicted_s: float = 0.0
    drafts: DraftCounts = NO_DRAFTS
    is_restart: bool = False
    """Whether the server was started again meanwhile: what it did before that is not known."""


def progress(before: Counters, after: Counters) -> Progress:
    """Return the work between two looks; since its start, if the server was started again."""
    is_restart = was_restarted(before, after)
    then = Progress() if is_restart else before
    return Progress(
        n_prompt=after.n_prompt - then.n_prompt,
        prompt_s=after.prompt_s - then.prompt_s,
        n_predicted=after.n_predicted - then.n_predicted,
        predicted_s=after.predicted_s - then.predicted_s,
        drafts=(after.drafts or NO_DRAFTS) - (then.drafts or NO_DRAFTS),
        is_restart=is_restart,
    )


def was_restarted(before: Counters, after: Counters) -> bool:
    """Return whether the server was started between two looks: it says so, or counts anew."""
    if before.started != after.started:
        return True
    then, now = before.drafts or NO_DRAFTS, after.drafts or NO_DRAFTS
    pairs = (
        (before.n_prompt, after.n_prompt),
        (before.prompt_s, after.prompt_s),
        (before.n_predicted, after.n_predicted),
        (before.predicted_s, after.predicted_s),
        (then.n_drafts, now.n_drafts),
        (then.n_drafted, now.n_drafted),
        (then.n_accepted, now.n_accepted),
        *zip(then.accepted_per_position, now.accepted_per_position, strict=False),
    )
    is_shorter = len(now.accepted_per_position) < len(then.accepted_per_position)
    return is_shorter or any(new < old for old, new in pairs)


def is_exact_enough(difference: float, total: float) -> bool:
    """Return whether a difference of two totals says something, rounded as they are."""
    if difference <= 0 or total <= 0:
        return False
    step = 10.0 ** (math.floor(math.log10(total)) + 1 - _DIGITS)
    is_exact = isinstance(total, int) and total < 10**_DIGITS
    return is_exact or difference >= _ENOUGH * step


def decoded_between(before: SlotReply, after: SlotReply) -> int:
    """Return how many tokens a slot has generated between two looks, as far as they show.

    Of a request that began in between all tokens count, of one that ended its last ones are lost.
    """
    now = after.n_decoded or 0
    then = (before.n_decoded or 0) if before.task == after.task else 0
    # The numbers of requests begin anew with the server.
    return now - then if now >= then else now
