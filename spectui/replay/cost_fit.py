"""Fitting the cost model to real rounds of every length side by side.

A decode measured alone costs more than the same decode inside the loop, so nothing is measured
alone: the rounds come from generations in which the longest draft changes from round to round.
Each generation has its own level, since machines drift; what counts is how lengths compare within
one, and the mean level of all. Predictions are of sums, so means are what is fitted. The outermost
rounds are left out of them, lest one slow round bend a curve, and put back into the level of all.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spectui.replay.cost_curve import Curve, flattened, floats, growth, mean
from spectui.replay.costs import Costs, along
from spectui.replay.prices import Prices
from spectui.replay.probed import Observed, ObservedOff, Probed, pooled
from spectui.speculative.counters import Round, RoundEnd

_MAX_GROWN = 0.9
"""Share of a cost that may be due to the context: something is left of it without one."""


def fit_costs(probed: Probed, others: Sequence[Probed] = ()) -> Costs:
    """Fit the cost model.

    Args:
        probed: the target with the drafter whose costs are wanted.
        others: the same target with other drafters. What it takes to verify, and alone, does not
            depend on who drafts: the more that is measured of it, and the further apart, the less
            the machine's drift can say.

    Raises:
        ValueError: no round drafted anything.
    """
    observed = probed.observed
    if not any(o.round.n_drafted for o in observed):
        raise ValueError("no round drafted anything")
    n_past = float(np.median([o.n_past for o in observed]))
    whole = pooled((probed, *others))
    verify = Curve(whole.observed, lambda r: r.times.verify_s, n_past)
    again = Curve(observed, lambda r: r.times.draft_s - r.chain_s, n_past)
    # The draft was measured when the machine was as it was then.
    level = float(np.mean([verify.level(group) for group in {o.group for o in observed}]))
    lengths = np.array(verify.lengths, float)
    step_s, step_growth_s, catch_up_s = _chain_costs(observed, n_past)
    rejected = [o.round for o in observed if o.round.end is RoundEnd.MISMATCH]
    upheld = [o.round for o in observed if o.round.end is not RoundEnd.MISMATCH]
    undone = mean([r.times.rollback_s for r in upheld])
    rollback_s, rollback_token_s = _rollback_costs(rejected, undone)
    costs = Costs(
        n_past=n_past,
        lengths=verify.lengths,
        verify_s=verify.seconds,
        verify_growth_s=verify.growth_s,
        again_s=floats(along(again.lengths, again.seconds, lengths) / level),
        again_growth_s=floats(
            np.maximum(along(again.lengths, again.growth_s, lengths), 0.0) / level
        ),
        step_s=step_s / level,
        step_growth_s=step_growth_s / level,
        catch_up_s=catch_up_s / level,
        token_s=sum(o.round.times.sample_s for o in observed)
        / sum(len(o.round.tokens) for o in observed),
        fixed_s=mean([o.round.times.other_s for o in observed]) + undone,
        rollback_s=rollback_s / level,
        rollback_token_s=rollback_token_s / level,
        off_s=0.0,
        off_growth_s=0.0,
        spread=verify.spread,
    )
    return _with_off(_levelled(_bounded(costs), observed, verify), whole.off, verify)


def _levelled(costs: Costs, observed: Sequence[Observed], verify: Curve) -> Costs:
    """Costs that add up to what the rounds of a generation took together."""
    # A chain may have been longer than the draft that came of it.
    prices = costs.prices(max(max(one.round.n_drafted, one.round.n_steps) for one in observed))
    shares = []
    for group in {one.group for one in observed}:
        own = [one for one in observed if one.group == group]
        taken_s = sum(one.round.times.total_s for one in own)
        shares.append(taken_s / verify.level(group) / sum(_modelled_s(one, prices) for one in own))
    # Of a generation every round counts; a machine that stood still in one of them does not.
    share = mean(shares)

    def scaled(seconds: Sequence[float]) -> tuple[float, ...]:
        return tuple(share * one for one in seconds)

    return replace(
        costs,
        verify_s=scaled(costs.verify_s),
        verify_growth_s=scaled(costs.verify_growth_s),
        again_s=scaled(costs.again_s),
        again_growth_s=scaled(costs.again_growth_s),
        step_s=share * costs.step_s,
        step_growth_s=share * costs.step_growth_s,
        catch_up_s=share * costs.catch_up_s,
        token_s=share * costs.token_s,
        fixed_s=share * costs.fixed_s,
        rollback_s=share * costs.rollback_s,
        rollback_token_s=share * costs.rollback_token_s,
    )


def _modelled_s(observed: Observed, prices: Prices) -> float:
    one, price = observed.round, prices.at(observed.n_past)
    seconds = price.batch[one.n_drafted] + price.chain[one.n_steps] + price.fixed
    seconds += price.token * len(one.tokens) + price.catch_up * observed.catches_up
    if one.end is RoundEnd.MISMATCH:
        seconds += price.rollback + price.rollback_token * one.n_accepted
    return float(seconds)


def _with_off(costs: Costs, off: Sequence[ObservedOff], verify: Curve) -> Costs:
    """Costs with those of the target alone, which grow as a round that drafts nothing does."""
    growth_s = float(along(verify.lengths, verify.growth_s, np.zeros(1))[0])
    token_s = np.array([one.token_s for one in off])
    more = np.array([one.n_past - costs.n_past for one in off])
    levels = np.array([verify.level(one.group) for one in off])
    # As robust as the level of the rounds, which it is compared with.
    off_s = mean(flattened(token_s, growth_s * more) / levels)
    return _bounded(_at_most_a_round(replace(costs, off_s=off_s, off_growth_s=growth_s)))


def _at_most_a_round(costs: Costs) -> Costs:
    """Costs whose target alone takes no longer than a round that drafts nothing.

    That does the same and more. Where the machine says otherwise it was busier during the one than
    during the other, and every speedup would be as much too large.
    """
    if costs.lengths[0] > 0:
        return costs
    round_s = costs.verify_s[0] + costs.token_s + costs.fixed_s
    if costs.off_s <= round_s:
        return costs
    unsteady = float(np.log(costs.off_s / round_s))
    return replace(costs, off_s=round_s, spread=max(costs.spread or 0.0, unsteady))


def _bounded(costs: Costs) -> Costs:
    """Costs that leave something of every part where the context is empty."""

    def bounded(growth_s: float, seconds: float) -> float:
        return min(growth_s, _MAX_GROWN * seconds / max(costs.n_past, 1.0))

    return replace(
        costs,
        verify_growth_s=tuple(map(bounded, costs.verify_growth_s, costs.verify_s)),
        again_growth_s=tuple(map(bounded, costs.again_growth_s, costs.again_s)),
        step_growth_s=bounded(costs.step_growth_s, costs.step_s),
        off_growth_s=bounded(costs.off_growth_s, costs.off_s),
    )


def _chain_costs(observed: Sequence[Observed], n_past: float) -> tuple[float, float, float]:
    """Seconds of a step at ``n_past``, its growth, and what catching up adds."""
    chains = [o for o in observed if o.round.n_steps]
    steady = [o for o in chains if not o.catches_up] or chains
    growth_s, _weight = growth(
        np.array([o.n_past for o in steady], float),
        np.array([o.round.chain_s / o.round.n_steps for o in steady]),
    )
    growth_s = max(0.0, growth_s)

    def flat_s(one: Observed) -> float:
        return one.round.chain_s - growth_s * (one.n_past - n_past) * one.round.n_steps

    step_s = mean([flat_s(o) / o.round.n_steps for o in steady])
    late = [flat_s(o) - step_s * o.round.n_steps for o in chains if o.catches_up]
    return max(0.0, step_s), growth_s, max(0.0, mean(late))


def _rollback_costs(rejected: Sequence[Round], undone_s: float) -> tuple[float, float]:
    """Seconds more of a round that ends in a mismatch, and per token that it had accepted."""
    accepted = np.array([one.n_accepted for one in rejected], float)
    seconds = np.array([one.times.rollback_s - undone_s for one in rejected])
    slope = max(0.0, growth(accepted, seconds, apart=1)[0])
    return max(0.0, mean(seconds - slope * accepted)), slope
