"""Estimates the duration of a sweep: from one speed at first, then from finished cells."""

from collections.abc import Sequence

from spectui.sweep.cells import Task
from spectui.sweep.order import Visit
from spectui.sweep.record import VisitRecord, VisitState

RUNS_PER_PROMPT = 2
"""Runs without and with speculation."""


class Pace:
    """Seconds per decoded token, over all work on a cell."""

    def __init__(self, n_prompts: int) -> None:
        """Start without data."""
        self._n_prompts = n_prompts
        self._took: dict[Task, tuple[float, int]] = {}
        """Seconds and tokens of the measured cells."""
        self._guess_s: float | None = None

    def assume(self, tokens_per_s: float) -> None:
        """Assume the target's speed for all cells, until some are measured."""
        self._guess_s = 1 / tokens_per_s

    def learn(self, record: VisitRecord) -> None:
        """Add the duration of a cell. A failed one is ignored."""
        if record.state is not VisitState.COMPLETE:
            return
        seconds, n_tokens = self._took.get(record.visit.cell.task, (0.0, 0))
        n_new = self._n_tokens(record.visit)
        self._took[record.visit.cell.task] = (seconds + record.wall_s, n_tokens + n_new)

    def left_s(self, visits: Sequence[Visit]) -> float | None:
        """Estimated seconds for ``visits``; None without data."""
        if not visits:
            return 0.0
        per_token_s = self._of_all()
        if per_token_s is None:
            return None
        return sum(
            self._n_tokens(visit) * self._per_token_s(visit.cell.task, per_token_s)
            for visit in visits
        )

    def _n_tokens(self, visit: Visit) -> int:
        return self._n_prompts * RUNS_PER_PROMPT * visit.cell.task.n_predict

    def _per_token_s(self, task: Task, otherwise_s: float) -> float:
        seconds, n_tokens = self._took.get(task, (0.0, 0))
        return seconds / n_tokens if n_tokens else otherwise_s

    def _of_all(self) -> float | None:
        n_tokens = sum(n for _seconds, n in self._took.values())
        if not n_tokens:
            return self._guess_s
        return sum(seconds for seconds, _n in self._took.values()) / n_tokens
