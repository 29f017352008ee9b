"""Results per category."""

from collections.abc import Sequence

from spectui.documents import Json, or_reason
from spectui.measure.measurer import NOTHING_DRAFTED, Pair, throughput
from spectui.speculative.counters import Counters
from spectui.tune.categories import CategoryResult, Profiles
from spectui.tune.result import TuneResult

_NOT_TRIED = "no trial measured a prompt of it"
_NOT_CONFIRMED = "no prompt of it was confirmed"


def per_category_rows(result: TuneResult, categories: Sequence[CategoryResult]) -> list[Json]:
    """Rows per category: the winner's confirmation, and the trials of all settings."""
    confirmed: dict[str, list[Pair]] = {}
    for pair in result.pairs:
        confirmed.setdefault(pair.item.category, []).append(pair)
    tried = {one.category: one for one in categories}
    names = dict.fromkeys((*tried, *confirmed))
    return [_row(name, confirmed.get(name, []), tried.get(name)) for name in names]


def _row(name: str, pairs: Sequence[Pair], tried: CategoryResult | None) -> Json:
    off = throughput([pair.baseline for pair in pairs])
    on = throughput([pair.speculative for pair in pairs])
    rounds = sum((pair.speculative.counters for pair in pairs), Counters())
    trials = None
    if tried is not None:
        trials = {
            "n_prompts": tried.n_prompts,
            "n_tokens": tried.n_tokens,
            "best": {"params": tried.best.document(), "speedup": tried.best_speedup},
            **or_reason("winner_speedup", tried.winner_speedup, "it was not tried there"),
        }
    return {
        "category": name,
        "n_prompts": len(pairs),
        **or_reason("speedup", on / off if on and off else None, _NOT_CONFIRMED),
        **or_reason(
            "acceptance_rate", rounds.acceptance_rate, NOTHING_DRAFTED if pairs else _NOT_CONFIRMED
        ),
        **or_reason("trials", trials, _NOT_TRIED),
    }


def profiles_document(profiles: Profiles) -> Json:
    """Whether a profile per category is worth it."""
    interval = None if profiles.gain_ci99 is None else list(profiles.gain_ci99)
    unknown = profiles.reason
    return {
        "recommended": profiles.recommended,
        **or_reason("gain", profiles.gain, unknown),
        **or_reason("gain_ci99", interval, "the interval is not known"),
        **or_reason("apparent_gain", profiles.apparent_gain, unknown),
        "reason": profiles.reason,
    }
