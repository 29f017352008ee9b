"""What any setting would have done on a session's own answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.live.costs import KnownCosts, known_costs
from spectui.live.recording import ChatRecording
from spectui.live.runs import Run
from spectui.options.drafters import Model
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.grid import Grid
from spectui.trace.record import Recording
from spectui.trace.replay import Total, replay_trace
from spectui.tune.space import SearchSpace
from spectui.tune.trials import TrialRecord, TrialState

Line = tuple[Total, ...]
"""Totals over ``draft_max``, from 1 on."""


_UNKNOWN = KnownCosts(costs=None, source="")


class Source(StrEnum):
    """Who measured a setting."""

    CHAT = "chat"
    TRIAL = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A setting that was really run."""

    source: Source
    setting: Model
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfState:
    """What the what-if screen rests on, at one moment."""

    recording: ChatRecording | None = None
    """None where nothing is recorded; ``reason`` says why."""
    reason: str | None = None
    schedule: Schedule = Schedule.FAST
    """The work per round of the answers to come."""
    known: KnownCosts = _UNKNOWN
    measured: tuple[Measured, ...] = ()
    applied: Model | None = None
    """How the next answer will be drafted; None for not at all, or not by who is recorded alone."""
    other: Speculation | None = None
    """How it will be drafted by others, or with their help: that is not replayed."""


def whatif_state(
    recording: ChatRecording,
    *,
    schedule: Schedule,
    applied: Speculation | None,
    tuned: Costs | None = None,
    trials: Sequence[TrialRecord] = (),
) -> WhatIfState:
    """Put together what is known.

    Args:
        recording: of the session's answers.
        schedule: the work per round of the answers to come.
        applied: how they will be drafted.
        tuned: costs that tuning measured of this pair with who is recorded.
        trials: of the search.
    """
    alone = recording.alone(applied)
    return WhatIfState(
        recording=recording,
        schedule=schedule,
        known=known_costs(
            recording.runs, recording.baseline, schedule, tuned, mtp=recording.is_mtp
        ),
        measured=(*chat_points(recording, schedule), *trial_points(recording, trials)),
        applied=alone,
        other=applied if alone is None else None,
    )


def chat_points(recording: ChatRecording, schedule: Schedule) -> tuple[Measured, ...]:
    """Return the throughput of every setting that answers ran with."""
    by_setting: dict[Model, list[Run]] = {}
    for run in recording.runs:
        setting = recording.alone(run.speculation)
        if setting is not None and run.schedule is schedule:
            by_setting.setdefault(setting, []).append(run)
    return tuple(
        Measured(
            source=Source.CHAT,
            setting=setting,
            tokens_per_s=sum(run.n_decoded for run in found) / sum(run.decode_s for run in found),
        )
        for setting, found in by_setting.items()
        if sum(run.decode_s for run in found) > 0
    )


def trial_points(recording: ChatRecording, trials: Sequence[TrialRecord]) -> tuple[Measured, ...]:
    """Return the throughput of every trial that completed with who is recorded, alone."""
    found = []
    for trial in trials:
        setting, speed = recording.alone(trial.arm.speculation), trial.tokens_per_s
        if trial.state is TrialState.COMPLETE and setting is not None and speed is not None:
            found.append(Measured(source=Source.TRIAL, setting=setting, tokens_per_s=speed))
    return tuple(found)


class WhatIf:
    """Replays settings on recordings, and remembers every line that it has replayed."""

    def __init__(
        self, recordings: Sequence[Recording], draft: str, *, longest: int, costs: Costs | None
    ) -> None:
        """Nothing is replayed yet.

        Args:
            recordings: at least one, all with the draft's chains.
            draft: name of who drafts in them.
            longest: largest ``draft_max`` to answer for.
            costs: what rounds cost; None for counts only.
        """
        self.recordings = tuple(recordings)
        self.draft = draft
        self.longest = longest
        self.costs = costs
        self._lines: dict[tuple[int, float], Line] = {}
        self._best: Total | None = None

    def is_like(self, other: "WhatIf") -> bool:
        """Whether ``other`` would answer the same."""
        return (self.recordings, self.longest, self.costs) == (
            other.recordings,
            other.longest,
            other.costs,
        )

    @property
    def is_mtp(self) -> bool:
        """Whether the target's own MTP layers draft."""
        return any(recording.chains[self.draft].mtp_layers for recording in self.recordings)

    @property
    def n_tokens(self) -> int:
        """Tokens of the recordings that rounds emit."""
        return sum(recording.n_decoded for recording in self.recordings)

    def replay_space(self) -> None:
        """Replay what tuning would search: every line whose values are the steps of the keys."""
        space = SearchSpace(drafts=(self.draft,), max_draft=self.longest)
        totals = self._replay(space.grid(self.draft))
        self._best = max(
            (one for one in totals if one.tokens_per_s is not None and one.model.check() is None),
            # Of those that do the same, the one that asks for the least.
            key=lambda one: (one.tokens_per_s or 0.0, -one.model.draft_min),
            default=None,
        )

    def knows(self, setting: Model) -> bool:
        """Whether the setting's line was replayed."""
        return _line_of(setting) in self._lines

    def line(self, setting: Model) -> Line:
        """Totals over ``draft_max`` at the setting's ``draft_min`` and ``draft_p_min``."""
        if not self.knows(setting):
            draft_max = tuple(range(1, self.longest + 1))
            draft_min, draft_p_min = _line_of(setting)
            self._replay(
                Grid(draft_max=draft_max, draft_min=(draft_min,), draft_p_min=(draft_p_min,))
            )
        return self._lines[_line_of(setting)]

    def at(self, setting: Model) -> Total:
        """What one setting, with a ``draft_max`` of 1 to ``longest``, would have done."""
        return self.line(setting)[setting.draft_max - 1]

    @property
    def best(self) -> Total | None:
        """The fastest of the replayed space; None before it was replayed, and without costs."""
        return self._best

    def _replay(self, grid: Grid) -> Line:
        totals = replay_trace(self.recordings, self.draft, grid, self.costs)
        lines: dict[tuple[int, float], list[Total]] = {}
        for total in totals:
            lines.setdefault(_line_of(total.model), []).append(total)
        self._lines |= {place: tuple(line) for place, line in lines.items()}
        return totals


def _line_of(setting: Model) -> tuple[int, float]:
    return setting.draft_min, setting.draft_p_min
