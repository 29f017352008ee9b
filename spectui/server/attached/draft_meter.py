"""Drafts of the requests that have ended while they were watched."""

from dataclasses import dataclass, field

from spectui.monitor.history import Ring
from spectui.server.attached.counting import NO_DRAFTS, is_exact_enough, together
from spectui.server.attached.meters import N_COLUMNS
from spectui.server.attached.sample import DraftCounts


@dataclass(slots=True)
class DraftMeter:
    """Adds them up, and keeps the acceptance of each."""

    watched: DraftCounts = NO_DRAFTS
    last: DraftCounts | None = None
    history: Ring = field(default_factory=lambda: Ring(N_COLUMNS))

    pending: DraftCounts = NO_DRAFTS
    """What is too little against totals that the server rounds."""

    def add(self, done: DraftCounts, total: DraftCounts) -> None:
        """Take what has ended since the last look, if anything did."""
        self.watched = together(self.watched, done)
        self.pending = together(self.pending, done)
        is_known = is_exact_enough(self.pending.n_drafts, total.n_drafts)
        if is_known and is_exact_enough(self.pending.n_drafted, total.n_drafted):
            self.last, self.pending = self.pending, NO_DRAFTS
            self.history.append(self.last.acceptance_rate)
