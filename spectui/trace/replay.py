"""Replays added up over the recordings of a trace."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectui.options.drafters import Model
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Tally
from spectui.trace.costs import Costs
from spectui.trace.grid import Counts, Grid, Replayed, Seconds, check_depth, replay_grid
from spectui.trace.record import Recording

_COUNTS = ("n_rounds", "n_drafted", "n_accepted", "n_rejections", "n_before_mismatch", "n_redone")


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
    each_s: tuple[float, ...] | None
    """[n_recordings]: seconds of the rounds of each; None without costs."""
    each_off_s: tuple[float, ...] | None
    """[n_recordings]: seconds of the target alone; None without costs."""

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
        return None if self.each_s is None else sum(self.each_s)

    @property
    def off_s(self) -> float | None:
        """Seconds of the target alone; None without costs."""
        return None if self.each_off_s is None else sum(self.each_off_s)

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
        UsageError: a ``draft_max`` is longer than the chains.
    """
    for recording in recordings:
        check_depth(grid, recording.chains[draft])
    sums = _Sums(recordings, draft, grid, costs)
    each_off_s = None if costs is None else tuple(off_seconds(recordings, costs))
    each_s: list[list[float]] = sums.seconds.T.tolist()
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
            each_s=None if costs is None else tuple(each_s[index]),
            each_off_s=each_off_s,
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
        self.seconds: Seconds = np.zeros((len(recordings), n_settings))
        """[n_recordings, n_settings]; 0 without costs."""
        prices = None if costs is None else costs.prices(max(grid.draft_max))
        for seconds, recording in zip(self.seconds, recordings, strict=True):
            self._add(
                replay_grid(recording, recording.chains[draft], grid, prices=prices, batches=True),
                seconds,
            )

    def _add(self, replay: Replayed, seconds: Seconds) -> None:
        self.counts += np.array([getattr(replay, name).ravel() for name in _COUNTS])
        if replay.batches is not None:
            n_lengths = len(replay.batches)
            self.batches[:n_lengths] += replay.batches.reshape(n_lengths, -1)
        if replay.seconds is not None:
            seconds[:] = replay.seconds.ravel()


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
