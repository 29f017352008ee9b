"""Replays added up over the recordings of a trace."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectui.options.drafters import Model
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Tally
from spectui.trace.costs import Costs, Vector
from spectui.trace.grid import (
    COUNTS,
    N_PARTS,
    Counts,
    Grid,
    Parts,
    Replayed,
    check_covered,
    replay_grid,
)
from spectui.trace.record import Recording

_COUNTS = COUNTS[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Tally):
    """Result of one setting on all recordings."""

    draft: str | None
    """Name of the draft model; None for an n-gram drafter."""
    speculation: Speculation
    """Settings of the draft model or the MTP layers if there is a draft."""
    batches: tuple[int, ...]
    """[depth + 1]: rounds by the length of their draft."""
    n_decoded: int
    """Tokens that rounds emit."""
    mean_past: float
    """Depth of the context at which they are decoded, in the mean."""
    off_s: float | None
    """Seconds of the target alone; None without costs."""
    parts: Parts = field(compare=False, repr=False)
    """The same by parts of the answers."""

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
    for recording in recordings:
        check_covered(grid, recording.chains[draft])
    sums = _Sums(recordings, draft, grid, costs)
    off_s = None if costs is None else sum(off_seconds(recordings, costs))
    deepness = mean_past(recordings)
    is_mtp = any(recording.chains[draft].mtp_layers for recording in recordings)
    rows: list[list[Any]] = sums.counts.T.tolist()
    return tuple(
        Total(
            draft=draft,
            speculation=Speculation(setting),
            **dict(zip(_COUNTS, row, strict=True)),
            batches=tuple(map(int, sums.batches[:, index])),
            n_decoded=sum(recording.n_decoded for recording in recordings),
            mean_past=deepness,
            off_s=off_s,
            parts=Parts(*sums.parts[..., index]),
        )
        for index, (setting, row) in enumerate(zip(grid.settings(mtp=is_mtp), rows, strict=True))
    )


class _Sums:
    """Replays of a grid, added up one by one: all of a long chat's at once would take megabytes."""

    def __init__(
        self, recordings: Sequence[Recording], draft: str, grid: Grid, costs: Costs | None
    ) -> None:
        n_settings = math.prod(grid.shape)
        depth = max(recording.chains[draft].depth for recording in recordings)
        self.counts = np.zeros((len(_COUNTS), n_settings), np.uint64)
        """[n_counts, n_settings], in the order of ``_COUNTS``."""
        self.batches: Counts = np.zeros((depth + 1, n_settings), np.uint32)
        """[depth + 1, n_settings]; recordings may differ in depth."""
        self.parts = np.zeros((4, len(recordings), N_PARTS, n_settings))
        """As of ``Parts``, [4, n_recordings, n_parts, n_settings]."""
        prices = None if costs is None else costs.prices(max(grid.draft_max))
        for index, recording in enumerate(recordings):
            self._add(
                index,
                replay_grid(recording, recording.chains[draft], grid, prices=prices, batches=True),
            )

    def _add(self, index: int, replay: Replayed) -> None:
        self.counts += np.array([getattr(replay, name).ravel() for name in _COUNTS])
        if replay.batches is not None:
            n_lengths = len(replay.batches)
            self.batches[:n_lengths] += replay.batches.reshape(n_lengths, -1)
        self.parts[:, index] = replay.parts.reshape(N_PARTS, 4, -1).swapaxes(0, 1)


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
    return part_tokens * (costs.off_s + costs.off_growth_s * (depth - costs.n_past))


def off_seconds(recordings: Sequence[Recording], costs: Costs) -> list[float]:
    """Seconds of the target alone for each recording."""
    return [costs.off_seconds(_span(recording)) for recording in recordings]


def mean_past(recordings: Sequence[Recording]) -> float:
    """Depth at which the tokens of all recordings are decoded, in the mean; 0 without any."""
    spans = [_span(recording) for recording in recordings]
    n_decoded = sum(map(len, spans))
    return sum(map(sum, spans)) / n_decoded if n_decoded else 0.0


def _span(recording: Recording) -> range:
    """Depths at which the tokens of a recording are decoded."""
    first = len(recording.prompt)
    return range(first, first + recording.n_decoded)
