"""Replays added up over the recordings of a trace."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from spectui.options.drafters import Model
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Tally
from spectui.trace.costs import Costs, Vector
from spectui.trace.grid import Grid, Parts, Replay, replay_grid
from spectui.trace.record import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Tally):
    """Result of one setting on all recordings."""

    draft: str | None
    """Name of the draft model; None for an n-gram drafter."""
    speculation: Speculation
    """Settings of the draft model or the MTP layers if there is a draft."""
    n_decoded: int
    """Tokens that rounds emit."""
    off_s: float | None
    """Seconds of the target alone; None without costs."""
    parts: Parts = field(compare=False, repr=False)
    """The same by parts of the answers, [n_answers, n_parts]; seconds are NaN without costs."""

    @property
    def model(self) -> Model:
        """Options of the draft model or the MTP layers.

        Raises:
            ValueError: there is none.
        """
        model = self.speculation.model
        if model is None:
            raise ValueError(f"{self.speculation.own.kind} has no draft model")
        return model

    @property
    def seconds(self) -> float | None:
        """Seconds of all rounds; None without costs."""
        seconds = float(self.parts.seconds.sum())
        return None if math.isnan(seconds) else seconds

    @property
    def tokens_per_s(self) -> float | None:
        """Predicted decode throughput, None without costs."""
        return self.n_decoded / self.seconds if self.seconds else None

    @property
    def speedup(self) -> float | None:
        """Predicted throughput over the target's alone, None without costs."""
        return self.off_s / self.seconds if self.off_s and self.seconds else None


def replay_trace(
    recordings: Sequence[Recording], draft: str, grid: Grid, costs: Costs | None = None
) -> tuple[Total, ...]:
    """Replay ``grid`` with one draft on every recording.

    Args:
        recordings: recordings of a trace, all with this draft's chains.
        draft: its name.
        grid: settings to try.
        costs: costs of rounds with this draft, for the seconds.

    Returns:
        A total per setting, in the order of ``grid.settings``.

    Raises:
        UsageError: the chains do not answer for a setting.
    """
    depth = max(recording.chains[draft].depth for recording in recordings)
    prices = None if costs is None else costs.prices(depth)
    replay = replay_grid(recordings, draft, grid, prices=prices)
    is_mtp = any(recording.chains[draft].mtp_layers for recording in recordings)
    settings = map(Speculation, grid.settings(mtp=is_mtp))
    return totals(replay, recordings, draft, settings, costs)


def totals(
    replay: Replay,
    recordings: Sequence[Recording],
    draft: str | None,
    settings: Iterable[Speculation],
    costs: Costs | None,
) -> tuple[Total, ...]:
    """A total for each setting that was replayed.

    Args:
        replay: counts and seconds on the recordings.
        recordings: recordings of a trace.
        draft: name of the draft model; None for n-gram drafters.
        settings: that were replayed.
        costs: costs of rounds, for the seconds of the target alone.
    """
    n_decoded = sum(recording.n_decoded for recording in recordings)
    off_s = None if costs is None else off_seconds(recordings, costs)
    whole = replay.whole
    return tuple(
        Total(
            draft=draft,
            speculation=setting,
            n_rounds=int(replay.n_rounds[index]),
            n_drafted=int(whole.drafted[index]),
            n_accepted=int(whole.accepted[index]),
            n_rejections=int(replay.n_rejections[index]),
            n_redone=int(replay.n_redone[index]),
            n_decoded=n_decoded,
            off_s=off_s,
            parts=Parts(*replay.parts[..., index]),
        )
        for index, setting in enumerate(settings)
    )


def off_part_seconds(recordings: Sequence[Recording], part_tokens: Vector, costs: Costs) -> Vector:
    """[n_recordings, n_parts]: of the target alone for as many tokens of each part.

    Args:
        recordings: recordings of a trace.
        part_tokens: [n_recordings, n_parts].
        costs: costs that have the target alone.
    """
    after = part_tokens.cumsum(axis=1)
    first = np.array([[len(one.prompt)] for one in recordings])
    # Depths are consecutive, so that their mean is that of the first and the last.
    depth = first + (2 * after - part_tokens - 1) / 2
    found: Vector = costs.off_seconds(part_tokens, depth)
    return found


def off_seconds(recordings: Sequence[Recording], costs: Costs) -> float:
    """Seconds of the target alone for the tokens of all recordings."""
    n_decoded = np.array([one.n_decoded for one in recordings], float)
    return float(off_part_seconds(recordings, n_decoded[:, None], costs).sum())
