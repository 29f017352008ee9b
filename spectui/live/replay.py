"""Replay of every setting on a session's own answers."""

from dataclasses import dataclass

from spectui.live.recording import ChatRecording
from spectui.trace.costs import Costs
from spectui.trace.replay import Total, replay_trace
from spectui.tune.space import SearchSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReplay:
    """The search space of tuning, replayed on the recorded answers of a chat."""

    draft: str
    """Name of the draft; ``MTP_KIND`` for the target's own MTP layers."""
    totals: tuple[Total, ...]
    """Best first; without costs, those of most tokens per round."""
    costs: Costs | None
    """Costs of rounds; None before a search has measured them."""


def replay_chat(recording: ChatRecording, costs: Costs | None) -> ChatReplay:
    """Replay the search space on the recorded answers, of which there is at least one.

    Args:
        recording: recording of the session's answers.
        costs: costs of rounds that tuning measured of this pair.
    """
    space = SearchSpace(drafts=(recording.draft,), max_draft=recording.longest)
    grid = space.grid(recording.draft)
    totals = replay_trace(recording.recordings, recording.draft, grid, costs)
    able = [total for total in totals if total.model.check() is None]
    # Of those that do the same, the one that asks for the least.
    able.sort(key=lambda total: (-replayed_value(total), total.model.draft_min))
    return ChatReplay(draft=recording.draft, totals=tuple(able), costs=costs)


def replayed_value(total: Total) -> float:
    """Return the predicted speedup; without costs, the tokens per round."""
    return total.speedup or total.tokens_per_round or 1.0
