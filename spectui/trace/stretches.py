"""Stretches of replayed answers: what consecutive rounds emit and cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.ngrams import round_seconds, rounds_of
from spectui.trace.record import Recording

_LEAST = 8
"""Tokens of a stretch, at least: some rounds, so that one stretch says little of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive rounds of one recording."""

    id: str
    """The recording's."""
    category: str
    n_tokens: int
    """Emitted."""
    n_accepted: int
    seconds: float
    """Predicted, of the rounds."""
    off_s: float
    """Predicted, of the target alone for these tokens."""


def stretches(
    recordings: Sequence[Recording],
    speculation: Speculation,
    draft: str | None,
    *,
    costs: Costs,
    off: Costs,
) -> tuple[Stretch, ...]:
    """Replay one setting, and cut every answer into stretches of ``_LEAST`` tokens or more.

    Counts are exact.

    Args:
        recordings: recordings of a trace, with the draft's chains where there is a draft.
        speculation: the setting.
        draft: name of the draft; None for n-gram drafters alone.
        costs: costs of rounds with this draft.
        off: costs that have the target alone.
    """
    prices = costs.prices(speculation.longest)
    found = list[Stretch]()
    for recording in recordings:
        n_past = len(recording.prompt)
        rounds = rounds_of(recording, speculation, draft)
        each_s = round_seconds(rounds, prices, n_past)
        both = ((len(o.tokens), o.n_accepted, s) for o, s in zip(rounds, each_s, strict=True))
        for n_tokens, n_accepted, seconds in _joined(both):
            found.append(
                Stretch(
                    id=recording.id,
                    category=recording.category,
                    n_tokens=n_tokens,
                    n_accepted=n_accepted,
                    seconds=seconds,
                    off_s=off.off_seconds(range(n_past, n_past + n_tokens)),
                )
            )
            n_past += n_tokens
    return tuple(found)


def _joined(rounds: Iterator[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    """Tokens, accepted ones and seconds of stretches; a rest is part of the last one."""
    found: list[tuple[int, int, float]] = []
    n_tokens, n_accepted, seconds = 0, 0, 0.0
    for one, accepted, one_s in rounds:
        n_tokens, n_accepted, seconds = n_tokens + one, n_accepted + accepted, seconds + one_s
        if n_tokens >= _LEAST:
            found.append((n_tokens, n_accepted, seconds))
            n_tokens, n_accepted, seconds = 0, 0, 0.0
    if n_tokens:
        last = found.pop() if found else (0, 0, 0.0)
        found.append((last[0] + n_tokens, last[1] + n_accepted, last[2] + seconds))
    return found
