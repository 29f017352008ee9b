"""What rounds cost in a live session: as tuning measured it, else from the chat's own rounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectui.config import Schedule
from spectui.live.runs import Run
from spectui.models.sizes import counted
from spectui.replay.costs import Costs, Observed, Probed, along, fit_costs
from spectui.replay.prices import Prices
from spectui.tune.probing import observed_rounds

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
    runs: Sequence[Run], baseline: Run | None, schedule: Schedule, tuned: Costs | None
) -> KnownCosts:
    """Return the best costs that there are.

    Args:
        runs: how the answers of the session were generated.
        baseline: the target alone.
        schedule: the work per round of the answers to come.
        tuned: what tuning measured of this pair, on the ``server`` schedule.
    """
    if tuned is not None:
        return KnownCosts(costs=on_schedule(tuned, schedule), source="as tuning measured them")
    comparable = [run for run in runs if _is_comparable(run, schedule)]
    groups = comparable if baseline is None else [baseline, *comparable]
    observed = _frequent(
        [
            one
            for group, run in enumerate(groups)
            # The first round after a prompt is slower than the rest.
            for one in observed_rounds(run.rounds, run.n_prompt, group, schedule)[1:]
        ]
    )
    lengths = sorted({one.round.n_drafted for one in observed})
    if len(lengths) < _MIN_LENGTHS or not any(one.round.n_steps for one in observed):
        return KnownCosts(costs=None, source=_too_few(lengths))
    present = {one.group for one in observed}
    off_s = {
        group: run.decode_s / run.n_decoded
        for group, run in enumerate(groups)
        if run.speculation is None and group in present
    }
    n_rounds = counted(len(observed), "round")
    return KnownCosts(
        costs=_levelled(fit_costs(Probed(observed=observed, off_s=off_s)), observed),
        source=f"fitted to {n_rounds} of up to {lengths[-1]} drafted, beyond along a line",
    )


def _levelled(costs: Costs, observed: Sequence[Observed]) -> Costs:
    """Return costs that add up to what the rounds took together.

    The fit goes by medians, so that a slow round does not bend a curve; but slow rounds are part
    of what a chat takes, with a draft as without one.
    """
    # A chain may have been longer than the draft that came of it.
    prices = costs.prices(max(max(one.round.n_drafted, one.round.n_steps) for one in observed))
    modelled_s = sum(_modelled_s(one, prices) for one in observed)
    share = sum(one.round.times.total_s for one in observed) / modelled_s
    return replace(
        costs,
        verify_s=tuple(share * seconds for seconds in costs.verify_s),
        again_s=tuple(share * seconds for seconds in costs.again_s),
        step_s=share * costs.step_s,
        catch_up_s=share * costs.catch_up_s,
        token_s=share * costs.token_s,
        fixed_s=share * costs.fixed_s,
        rollback_s=share * costs.rollback_s,
    )


def _modelled_s(observed: Observed, prices: Prices) -> float:
    one, price = observed.round, prices.at(observed.n_past)
    seconds = price.batch[one.n_drafted] + price.chain[one.n_steps] + price.fixed
    seconds += price.token * len(one.tokens) + price.rollback * (one.n_accepted < one.n_drafted)
    return float(seconds + price.catch_up * observed.catches_up)


def on_schedule(costs: Costs, schedule: Schedule) -> Costs:
    """Return costs on the ``server`` schedule as they are on ``schedule``.

    ``fast`` does not evaluate the batch on the draft again; instead a chain begins with two tokens
    where the last draft was right to its end.
    """
    if schedule is Schedule.SERVER:
        return costs
    one, two = along(costs.lengths, costs.again_s, np.array([0.0, 1.0]))
    return replace(
        costs, again_s=(0.0,) * len(costs.lengths), catch_up_s=max(0.0, float(two - one))
    )


def _is_comparable(run: Run, schedule: Schedule) -> bool:
    """Whether its rounds did the work that rounds with the draft model do."""
    speculation = run.speculation
    return speculation is None or (speculation.ngram is None and run.schedule is schedule)


def _frequent(observed: Sequence[Observed]) -> list[Observed]:
    n_rounds = Counter(one.round.n_drafted for one in observed)
    return [one for one in observed if n_rounds[one.round.n_drafted] >= _MIN_ROUNDS]


def _too_few(lengths: Sequence[int]) -> str:
    said = "none often enough" if not lengths else "only " + " and ".join(map(str, lengths))
    return (
        f"tokens/s is not known: that takes rounds of {_MIN_LENGTHS} different lengths, and this "
        f"session has drafted {said}; chat with other settings, or tune"
    )
