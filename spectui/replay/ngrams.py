"""Replay of n-gram drafters: they need the text alone, so every trace answers for all of them."""

from collections.abc import Iterable, Mapping, Sequence

from spectui.config import NgramKind, SpeculationConfig
from spectui.errors import UsageError
from spectui.replay.costs import Costs
from spectui.replay.prices import Prices, RoundPrices
from spectui.replay.recorded import run_along
from spectui.replay.totals import Total, mean_past, off_seconds
from spectui.replay.trace import Recording
from spectui.speculative.counters import Round, RoundEnd
from spectui.speculative.ngram import ngram_drafter

NGRAM_COSTS = "ngram"
"""Among a trace's costs, those of rounds that no model drafts for."""


_HASHING = frozenset({NgramKind.MAP_K, NgramKind.MAP_K4V, NgramKind.MOD})


def ngram_costs(costs: Mapping[str, Costs]) -> Costs | None:
    """What rounds with an n-gram drafter cost.

    Args:
        costs: of a trace, by draft.

    Returns:
        Those that were measured without a model or else, since verifying is the target's work
        alone, with the first draft; less all drafting. None where nothing was measured.
    """
    measured = costs.get(NGRAM_COSTS) or next(iter(costs.values()), None)
    return None if measured is None else measured.without_draft()


def hashes_tokens(speculation: SpeculationConfig) -> bool:
    """Whether an n-gram drafter keeps tokens in slots by their numbers.

    Two n-grams in one slot are rare, but then drafts depend on it. So such drafters can only be
    replayed exactly on the vocabulary's own tokens, which a trace without text does not have.
    """
    return any(kind in _HASHING for kind in speculation.ngrams)


def replay_ngrams(
    recordings: Sequence[Recording],
    settings: Iterable[SpeculationConfig],
    costs: Costs | None = None,
) -> tuple[Total, ...]:
    """Replay n-gram settings on every recording.

    Counts are exact, on either schedule.

    Args:
        recordings: of a trace; chains are not needed.
        settings: what to try.
        costs: what rounds without a draft model cost, for the seconds. Drafts longer than the
            longest that was measured are taken to go on along the last line.

    Returns:
        A total per setting, in their order.

    Raises:
        UsageError: a setting drafts with a model.
    """
    return tuple(_total(recordings, setting, costs) for setting in settings)


def _total(
    recordings: Sequence[Recording], speculation: SpeculationConfig, costs: Costs | None
) -> Total:
    if speculation.ngram is None:
        raise UsageError("this setting drafts with a model; replay it with the model's chains")
    batches = [0] * (speculation.draft_max + 1)
    prices = None if costs is None else costs.prices(speculation.draft_max)
    rounds: list[Round] = []
    seconds = 0.0
    for recording in recordings:
        found = run_along(recording, ngram_drafter(speculation.ngram, speculation.draft_max))
        rounds += found
        if prices is not None:
            seconds += _seconds(found, prices, len(recording.prompt))
    for one in rounds:
        batches[one.n_drafted] += 1
    return Total(
        draft=None,
        speculation=speculation,
        n_rounds=len(rounds),
        n_drafted=sum(one.n_drafted for one in rounds),
        n_accepted=sum(one.n_accepted for one in rounds),
        n_rejections=sum(one.end is RoundEnd.MISMATCH for one in rounds),
        n_before_mismatch=sum(one.n_accepted for one in rounds if one.end is RoundEnd.MISMATCH),
        batches=tuple(batches),
        n_decoded=sum(recording.n_decoded for recording in recordings),
        mean_past=mean_past(recordings),
        seconds=None if costs is None else seconds,
        off_s=None if costs is None else off_seconds(recordings, costs),
    )


def _seconds(rounds: Sequence[Round], prices: Prices, n_past: int) -> float:
    total = 0.0
    for one in rounds:
        total += _round_s(one, prices.at(n_past))
        n_past += len(one.tokens)
    return total


def _round_s(one: Round, price: RoundPrices) -> float:
    seconds = float(price.batch[one.n_drafted]) + price.fixed + price.token * len(one.tokens)
    if one.n_accepted < one.n_drafted:
        seconds += price.rollback + price.rollback_token * one.n_accepted
    return seconds
