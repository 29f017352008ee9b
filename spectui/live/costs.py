"""What rounds cost in a live session: as tuning measured it, else from the chat's own rounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectui.live.runs import Run
from spectui.models.sizes import counted
from spectui.options.setup import Schedule
from spectui.trace.costs import Costs
from spectui.trace.fit import Observed, Probed, fit_costs
from spectui.tune.probing import observed_off, observed_rounds

_MIN_LENGTHS = 3
"""Different lengths of drafts that a curve of costs takes."""
_MIN_ROUNDS = 4
"""Rounds of one length; fewer say little about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCosts:
    """What rounds cost, or why that is not known."""

    costs: Costs | None
    source: str
    """Where they come from, or a sentence why there are none."""


def known_costs(
    runs: Sequence[Run],
    baseline: Run | None,
    schedule: Schedule,
    tuned: Costs | None,
    *,
    mtp: bool = False,
) -> KnownCosts:
    """Return the best costs that there are.

    Args:
        runs: how the answers of the session were generated.
        baseline: the target alone.
        schedule: the work per round of the answers to come.
        tuned: what tuning measured of this pair, on the ``server`` schedule.
        mtp: the target's own MTP layers draft, not a draft model.
    """
    drafting = [run for run in runs if _drafts_as(run, schedule, mtp=mtp)]
    if tuned is not None:
        lacking = _lacking(drafting) if mtp else 1.0
        costs = on_schedule(tuned, schedule, n_lacking=lacking)
        return KnownCosts(costs=costs, source="as tuning measured them")
    alone = [run for run in (*runs, baseline) if run is not None and run.speculation is None]
    chat = _frequent(_observed(drafting, schedule, mtp=mtp))
    # The target alone tells what verifying one token takes, and nothing of a draft.
    single = _frequent(_observed(alone, schedule))
    lengths = sorted({one.round.n_drafted for one in (*chat, *single)})
    if len(lengths) < _MIN_LENGTHS or not any(one.round.n_steps for one in chat):
        return KnownCosts(costs=None, source=_too_few(lengths))
    present = {one.group for one in single}
    off = [
        observed_off(group, run.n_prompt, run.rounds)
        for group, run in enumerate(alone)
        if group in present
    ]
    n_rounds = counted(len(chat) + len(single), "round")
    return KnownCosts(
        costs=fit_costs(Probed(observed=chat, off=[]), [Probed(observed=single, off=off)]),
        source=f"fitted to {n_rounds} of up to {lengths[-1]} drafted, beyond along a line",
    )


def _observed(runs: Sequence[Run], schedule: Schedule, *, mtp: bool = False) -> list[Observed]:
    return [
        one
        for group, run in enumerate(runs)
        # The first round after a prompt is slower than the rest.
        for one in observed_rounds(run.rounds, run.n_prompt, group, schedule, mtp=mtp)[1:]
    ]


def on_schedule(costs: Costs, schedule: Schedule, *, n_lacking: float = 1.0) -> Costs:
    """Return costs on the ``server`` schedule as they are on ``schedule``.

    ``fast`` does not evaluate the batch on the draft again; instead a chain begins with more than
    one token where the last draft was right to its end, or for MTP layers at all.

    Args:
        costs: as measured.
        schedule: the wanted one.
        n_lacking: tokens that such a chain begins with beside the last one, in the mean.
    """
    if schedule is Schedule.SERVER:
        return costs
    one, more = costs.drafting_again(np.array([0.0, n_lacking]))
    free = (0.0,) * len(costs.lengths)
    catch_up_s = max(0.0, float(more - one))
    return replace(costs, again_s=free, again_growth_s=free, catch_up_s=catch_up_s)


def _lacking(runs: Sequence[Run]) -> float:
    """What MTP layers read again after a round that accepted anything, in the mean; at least 1."""
    accepted = [one.n_accepted for run in runs for one in run.rounds if one.n_accepted]
    return sum(accepted) / len(accepted) if accepted else 1.0


def _drafts_as(run: Run, schedule: Schedule, *, mtp: bool) -> bool:
    """Whether its rounds did the work that rounds do in which who is meant drafts alone."""
    speculation = run.speculation
    if speculation is None or speculation.ngrams or speculation.is_mtp is not mtp:
        return False
    return run.schedule is schedule


def _frequent(observed: Sequence[Observed]) -> list[Observed]:
    n_rounds = Counter(one.round.n_drafted for one in observed)
    return [one for one in observed if n_rounds[one.round.n_drafted] >= _MIN_ROUNDS]


def _too_few(lengths: Sequence[int]) -> str:
    said = "only " + " and ".join(map(str, lengths)) if any(lengths) else "nothing often enough"
    return (
        f"tokens/s is not known: that takes rounds of {_MIN_LENGTHS} different lengths, and this "
        f"session has drafted {said} with it alone; chat with other settings, or tune"
    )
