"""Replay of every setting on a session's own answers, with costs of its rounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from spectui.format import counted
from spectui.live.recording import ChatRecording, Run
from spectui.trace.costs import Costs
from spectui.trace.fit import Observed, fit_costs
from spectui.trace.replay import Total, replay_trace
from spectui.tune.probing import observed_rounds
from spectui.tune.space import SearchSpace

_MIN_LENGTHS = 3
"""Different lengths of drafts that a curve of costs takes."""
_MIN_ROUNDS = 4
"""Rounds of one length; fewer say little about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReplay:
    """The search space of tuning, replayed on the recorded answers of a chat."""

    draft: str
    """Name of the draft; ``MTP_KIND`` for the target's own MTP layers."""
    totals: tuple[Total, ...]
    """Best first; without costs, those of most tokens per round."""
    costs: Costs | None
    """Costs of rounds; None where they are not known."""
    source: str
    """Origin of the costs; without any, the reason."""


def replay_chat(recording: ChatRecording, tuned: Costs | None) -> ChatReplay:
    """Replay the search space on the recorded answers, of which there is at least one.

    Args:
        recording: recording of the session's answers.
        tuned: costs that tuning measured of this pair.
    """
    costs, source = known_costs(recording, tuned)
    space = SearchSpace(drafts=(recording.draft,), max_draft=recording.longest)
    grid = space.grid(recording.draft)
    totals = replay_trace(recording.recordings, recording.draft, grid, costs)
    able = [total for total in totals if total.model.check() is None]
    # Of those that do the same, the one that asks for the least.
    able.sort(key=lambda total: (-replayed_value(total), total.model.draft_min))
    return ChatReplay(draft=recording.draft, totals=tuple(able), costs=costs, source=source)


def replayed_value(total: Total) -> float:
    """Return the predicted speedup; without costs, the tokens per round."""
    return total.speedup or total.tokens_per_round or 1.0


def known_costs(recording: ChatRecording, tuned: Costs | None) -> tuple[Costs | None, str]:
    """Return the best costs that there are, and their origin; else None, and the reason.

    Args:
        recording: recording of the session's answers.
        tuned: costs that tuning measured of this pair.
    """
    if tuned is not None:
        return tuned, "as tuning measured them"
    runs = recording.runs
    alone = [one for one in (*runs, recording.baseline) if one and one.speculation is None]
    chat = _frequent(_observed([one for one in runs if recording.alone(one.speculation)]))
    # The target alone tells what verifying one token takes, and nothing of a draft.
    single = _frequent(_observed(alone))
    if not single:
        return None, "no speedup is known before the target alone is measured"
    lengths = sorted({one.round.n_drafted for one in (*chat, *single)})
    if len(lengths) < _MIN_LENGTHS or not any(one.round.n_steps for one in chat):
        return None, _too_few(lengths)
    n_rounds = counted(len(chat) + len(single), "round")
    return (
        fit_costs(chat, [single]),
        f"fitted to {n_rounds} of up to {lengths[-1]} drafted, beyond along a line",
    )


def _observed(runs: Sequence[Run]) -> list[Observed]:
    return [
        one
        for group, run in enumerate(runs)
        # The first round after a prompt is slower than the rest.
        for one in observed_rounds(run.rounds, run.n_prompt, group)[1:]
    ]


def _frequent(observed: Sequence[Observed]) -> list[Observed]:
    n_rounds = Counter(one.round.n_drafted for one in observed)
    return [one for one in observed if n_rounds[one.round.n_drafted] >= _MIN_ROUNDS]


def _too_few(lengths: Sequence[int]) -> str:
    drafted = "only " + " and ".join(map(str, lengths)) if any(lengths) else "nothing often enough"
    return (
        f"no speedup is known: that takes rounds of {_MIN_LENGTHS} different lengths, and this "
        f"chat has drafted {drafted} with it alone; chat with another draft_max, or tune"
    )
