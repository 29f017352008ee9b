"""Replays added up over the recordings of a trace."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectui.config import SpeculationConfig
from spectui.replay.grid import Counts, Grid, Replayed, replay_grid
from spectui.replay.trace import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What one setting would have done on all recordings."""

    draft: str
    speculation: SpeculationConfig
    n_rounds: int
    n_drafted: int
    n_accepted: int
    n_rejections: int
    """Rounds that ended in a mismatch."""
    batches: tuple[int, ...]
    """[depth + 1]: rounds by the length of their draft."""

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens per round, the bonus token included. None before the first round."""
        return 1 + self.n_accepted / self.n_rounds if self.n_rounds else None


def replay_trace(recordings: Sequence[Recording], draft: str, grid: Grid) -> tuple[Total, ...]:
    """Replay ``grid`` with one draft on every recording.

    Returns:
        A total per setting, in the order of ``grid.settings``.

    Raises:
        UsageError: a ``draft_max`` is longer than the chains.
    """
    replays = [
        replay_grid(recording, recording.chains[draft], grid, batches=True)
        for recording in recordings
    ]
    counts = [_flat(replays, name) for name in ("n_rounds", "n_drafted", "n_accepted")]
    rejections, batches = _flat(replays, "n_rejections"), _batches(replays)
    rows = zip(*counts, rejections, strict=True)
    return tuple(
        Total(
            draft=draft,
            speculation=speculation,
            n_rounds=int(n_rounds),
            n_drafted=int(n_drafted),
            n_accepted=int(n_accepted),
            n_rejections=int(n_rejections),
            batches=tuple(map(int, batches[:, index])),
        )
        for index, (speculation, (n_rounds, n_drafted, n_accepted, n_rejections)) in enumerate(
            zip(grid.settings, rows, strict=True)
        )
    )


def _flat(replays: Sequence[Replayed], name: str) -> Counts:
    total: Counts = np.sum([getattr(replay, name) for replay in replays], axis=0).ravel()
    return total


def _batches(replays: Sequence[Replayed]) -> Counts:
    """[depth + 1, n_settings]; recordings may differ in depth."""
    found = [replay.batches for replay in replays if replay.batches is not None]
    total = np.zeros((max(map(len, found)), found[0][0].size), np.uint32)
    for batches in found:
        total[: len(batches)] += batches.reshape(len(batches), -1)
    return total
