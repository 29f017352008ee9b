"""Replay of any setting on a session's own answers, with costs of its rounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spectui.format import counted
from spectui.live.recording import ChatRecording, Run
from spectui.options.drafters import Model
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.fit import Observed, Probed, fit_costs
from spectui.trace.grid import Grid
from spectui.trace.record import Recording
from spectui.trace.replay import Total, replay_trace
from spectui.tune.probing import observed_off, observed_rounds
from spectui.tune.space import SearchSpace
from spectui.tune.trials import TrialRecord, TrialState

_MIN_LENGTHS = 3
"""Different lengths of drafts that a curve of costs takes."""
_MIN_ROUNDS = 4
"""Rounds of one length; fewer say little about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCosts:
    """Costs of rounds, or why they are not known."""

    costs: Costs | None
    source: str
    """Origin of the costs, or a sentence why there are none."""


def known_costs(
    runs: Sequence[Run], baseline: Run | None, tuned: Costs | None, *, mtp: bool = False
) -> KnownCosts:
    """Return the best costs that there are.

    Args:
        runs: runs that generated the session's answers.
        baseline: the target alone.
        tuned: costs that tuning measured for this pair.
        mtp: the target's own MTP layers draft, not a draft model.
    """
    if tuned is not None:
        return KnownCosts(costs=tuned, source="as tuning measured them")
    alone = [run for run in (*runs, baseline) if run is not None and run.speculation is None]
    chat = _frequent(_observed([run for run in runs if _drafts_alone(run, mtp=mtp)]))
    # The target alone tells what verifying one token takes, and nothing of a draft.
    single = _frequent(_observed(alone))
    lengths = sorted({one.round.n_drafted for one in (*chat, *single)})
    if len(lengths) < _MIN_LENGTHS or not any(one.round.n_steps for one in chat):
        return KnownCosts(costs=None, source=_too_few(lengths))
    present = {one.group for one in single}
    off = [
        observed_off(group, run.n_prompt, run.rounds)
        for group, run in enumerate(alone)
        if group in present
    ]
    n_rounds = counted(len(chat) + len(single), "round")
    return KnownCosts(
        costs=fit_costs(Probed(observed=chat, off=[]), [Probed(observed=single, off=off)]),
        source=f"fitted to {n_rounds} of up to {lengths[-1]} drafted, beyond along a line",
    )


def _observed(runs: Sequence[Run]) -> list[Observed]:
    return [
        one
        for group, run in enumerate(runs)
        # The first round after a prompt is slower than the rest.
        for one in observed_rounds(run.rounds, run.n_prompt, group)[1:]
    ]


def _drafts_alone(run: Run, *, mtp: bool) -> bool:
    """Whether its rounds did the same work as rounds that the recorded drafter drafts alone."""
    speculation = run.speculation
    return speculation is not None and not speculation.ngrams and speculation.is_mtp is mtp


def _frequent(observed: Sequence[Observed]) -> list[Observed]:
    n_rounds = Counter(one.round.n_drafted for one in observed)
    return [one for one in observed if n_rounds[one.round.n_drafted] >= _MIN_ROUNDS]


def _too_few(lengths: Sequence[int]) -> str:
    said = "only " + " and ".join(map(str, lengths)) if any(lengths) else "nothing often enough"
    return (
        f"tokens/s is not known: that takes rounds of {_MIN_LENGTHS} different lengths, and this "
        f"session has drafted {said} with it alone; chat with other settings, or tune"
    )


Line = tuple[Total, ...]
"""Totals over ``draft_max``, from 1 on."""


_UNKNOWN = KnownCosts(costs=None, source="")


class Source(StrEnum):
    """Origin of a measured setting."""

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
    """Basis of the what-if screen at one moment."""

    recording: ChatRecording | None = None
    """None where nothing is recorded; ``reason`` says why."""
    reason: str | None = None
    known: KnownCosts = _UNKNOWN
    measured: tuple[Measured, ...] = ()
    applied: Model | None = None
    """Settings for the next answer; None without drafting, or if others than recorded draft."""
    other: Speculation | None = None
    """Other drafters for the next answer, or drafters that help: these are not replayed."""


def whatif_state(
    recording: ChatRecording,
    *,
    applied: Speculation | None,
    tuned: Costs | None = None,
    trials: Sequence[TrialRecord] = (),
) -> WhatIfState:
    """Put together what is known.

    Args:
        recording: recording of the session's answers.
        applied: drafting of the next answers.
        tuned: costs that tuning measured of this pair with who is recorded.
        trials: trials of the search.
    """
    alone = recording.alone(applied)
    return WhatIfState(
        recording=recording,
        known=known_costs(recording.runs, recording.baseline, tuned, mtp=recording.is_mtp),
        measured=(*chat_points(recording), *trial_points(recording, trials)),
        applied=alone,
        other=applied if alone is None else None,
    )


def chat_points(recording: ChatRecording) -> tuple[Measured, ...]:
    """Return the throughput of every setting that answers ran with."""
    by_setting: dict[Model, list[Run]] = {}
    for run in recording.runs:
        setting = recording.alone(run.speculation)
        if setting is not None:
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
    """Return the throughput of every completed trial of the recorded drafter alone."""
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
        """Start without a replay.

        Args:
            recordings: at least one, all with the draft's chains.
            draft: name of who drafts in them.
            longest: largest ``draft_max`` to answer for.
            costs: costs of rounds; None for counts only.
        """
        self.recordings = tuple(recordings)
        self.draft = draft
        self.longest = longest
        self.costs = costs
        self._lines: dict[tuple[float, ...], Line] = {}
        """By the numbers beside the longest draft."""
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
        """Replay the search space of tuning: every line whose values are the steps of the keys."""
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
        return setting.beside_length in self._lines

    def line(self, setting: Model) -> Line:
        """Totals over ``draft_max`` at the setting's other numbers."""
        if not self.knows(setting):
            lists: dict[str, Any] = {name: (value,) for name, value in setting.numbers.items()}
            self._replay(Grid(**lists | {"draft_max": tuple(range(1, self.longest + 1))}))
        return self._lines[setting.beside_length]

    def at(self, setting: Model) -> Total:
        """Total of one setting, with a ``draft_max`` of 1 to ``longest``."""
        return self.line(setting)[setting.draft_max - 1]

    @property
    def best(self) -> Total | None:
        """The fastest of the replayed space; None before it was replayed, and without costs."""
        return self._best

    def _replay(self, grid: Grid) -> Line:
        totals = replay_trace(self.recordings, self.draft, grid, self.costs)
        lines: dict[tuple[float, ...], list[Total]] = {}
        for total in totals:
            lines.setdefault(total.model.beside_length, []).append(total)
        self._lines |= {place: tuple(line) for place, line in lines.items()}
        return totals
