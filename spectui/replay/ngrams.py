"""Replay of n-gram drafters, alone or asked before a draft model.

Alone they need no more than the text, so every trace answers for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from spectui.config import Schedule
from spectui.errors import UsageError
from spectui.options.drafters import ModelDrafter
from spectui.options.speculation import Speculation
from spectui.replay.costs import Costs
from spectui.replay.grid import Grid, check_depth
from spectui.replay.prices import Prices, RoundPrices
from spectui.replay.recorded import RecordedDraft, run_along
from spectui.replay.totals import Total, mean_past, off_seconds, spread
from spectui.replay.trace import Recording
from spectui.speculative.counters import Round, RoundEnd
from spectui.speculative.drafters import ChainedDrafter, Drafter, model_drafter
from spectui.speculative.mtp import mtp_drafter
from spectui.speculative.ngram import ngram_drafter
from spectui.speculative.rollback import usable_snapshots

NGRAM_COSTS = "ngram"
"""Among a trace's costs, those of rounds that no model drafts for."""


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


def hashes_tokens(speculation: Speculation) -> bool:
    """Whether an n-gram drafter keeps tokens in slots by their numbers.

    Two n-grams in one slot are rare, but then drafts depend on it. So such drafters can only be
    replayed exactly on the vocabulary's own tokens, which a trace without text does not have.
    """
    return any(one.hashes_tokens for one in speculation.ngrams)


def replay_ngrams(
    recordings: Sequence[Recording],
    settings: Iterable[Speculation],
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
    found = []
    for setting in settings:
        if setting.model is not None:
            raise UsageError("this setting drafts with a model; replay it with the model's chains")
        found.append(_total(recordings, setting, None, costs))
    return tuple(found)


def replay_chained(
    recordings: Sequence[Recording],
    draft: str,
    settings: Iterable[Speculation],
    costs: Costs | None = None,
) -> tuple[Total, ...]:
    """Replay settings of a draft model with n-gram drafters ahead of it on every recording.

    Counts are exact, on either schedule.

    Args:
        recordings: of a trace, all with this draft's chains.
        draft: its name.
        settings: what to try.
        costs: what rounds with this draft cost, for the seconds. Whoever drafts, the target
            verifies and the draft model follows; only its own chains take a chain's time.

    Returns:
        A total per setting, in their order.

    Raises:
        UsageError: a ``draft_max`` is longer than the chains.
    """
    found = []
    for setting in settings:
        for recording in recordings:
            check_depth(Grid(draft_max=(setting.own.longest,)), recording.chains[draft])
        found.append(_total(recordings, setting, draft, costs))
    return tuple(found)


def _total(
    recordings: Sequence[Recording],
    speculation: Speculation,
    draft: str | None,
    costs: Costs | None,
) -> Total:
    walks = [
        run_along(
            recording,
            _drafter(recording, speculation, draft),
            n_snapshots=usable_snapshots(speculation),
        )
        for recording in recordings
    ]
    rounds = list(chain.from_iterable(walks))
    mismatches = [one for one in rounds if one.end is RoundEnd.MISMATCH]
    batches = [0] * (speculation.longest + 1)
    for one in rounds:
        batches[one.n_drafted] += 1
    off_s = None if costs is None else off_seconds(recordings, costs)
    prices = None if costs is None else costs.prices(len(batches) - 1)
    seconds = None if prices is None else _seconds_of(recordings, walks, prices, speculation)
    return Total(
        draft=draft,
        speculation=speculation,
        n_rounds=len(rounds),
        n_drafted=sum(one.n_drafted for one in rounds),
        n_accepted=sum(one.n_accepted for one in rounds),
        n_rejections=len(mismatches),
        n_before_mismatch=sum(one.n_accepted for one in mismatches),
        n_redone=sum(one.is_redone for one in rounds),
        batches=tuple(batches),
        n_decoded=sum(recording.n_decoded for recording in recordings),
        mean_past=mean_past(recordings),
        seconds=None if seconds is None else sum(seconds),
        off_s=None if off_s is None else sum(off_s),
        spread=None if off_s is None else float(spread(off_s, np.array([seconds]).T)[0]),
    )


def _drafter(recording: Recording, speculation: Speculation, draft: str | None) -> Drafter:
    drafters = [ngram_drafter(one) for one in speculation.ngrams]
    own = speculation.model
    if draft is None or own is None:
        return drafters[0] if len(drafters) == 1 else ChainedDrafter(drafters)
    return ChainedDrafter((*drafters, _own_drafter(recording, own, draft)))


def _own_drafter(recording: Recording, own: ModelDrafter, draft: str) -> Drafter:
    # Both schedules draft the same; of the time that passes here nothing is kept.
    chains = recording.chains[draft]
    given = RecordedDraft(recording, chains), own, Schedule.SERVER, lambda: 0.0
    if chains.mtp_layers:
        return mtp_drafter(*given, n_layers=chains.mtp_layers)
    return model_drafter(*given)


def _seconds_of(
    recordings: Sequence[Recording],
    walks: Sequence[Sequence[Round]],
    prices: Prices,
    speculation: Speculation,
) -> list[float]:
    """[n_recordings]."""
    return [
        _seconds(rounds, prices, len(recording.prompt), is_mtp=speculation.is_mtp)
        for recording, rounds in zip(recordings, walks, strict=True)
    ]


def _seconds(rounds: Sequence[Round], prices: Prices, n_past: int, *, is_mtp: bool) -> float:
    total, lacking = 0.0, 0
    for one in rounds:
        total += _round_s(one, prices.at(n_past), lacking=lacking)
        n_past += len(one.tokens)
        # Of a chain that was accepted to its end the draft model has not decoded the last token;
        # of what others drafted, nothing. MTP layers read what was accepted again.
        if one.n_steps:
            is_behind = one.n_drafted == one.n_accepted == one.n_steps
            lacking = int(is_behind or one.is_redone or (is_mtp and one.n_accepted > 0))
        else:
            lacking += len(one.tokens)
    return total


def _round_s(one: Round, price: RoundPrices, *, lacking: int) -> float:
    seconds = float(price.batch[one.n_drafted]) + price.fixed + price.token * len(one.tokens)
    if one.n_steps:
        seconds += float(price.chain[one.n_steps]) + price.catch_up * lacking
    if one.end is RoundEnd.MISMATCH:
        seconds += price.rollback + price.rollback_token * one.n_accepted
    return seconds
