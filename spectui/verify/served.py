"""Results of prompts on a llama-server."""

from dataclasses import dataclass, field

from spectui.measure.promise import Observed, digest_of
from spectui.measure.statistics import PairedMeasurement
from spectui.measure.workload import WorkItem
from spectui.server import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPair:
    """One prompt, continued by a server without and by one with speculation."""

    item: WorkItem
    off: Completion
    on: Completion

    @property
    def observed(self) -> Observed | None:
        """Seconds, tokens and counts; None if the text ended before anything was decoded."""
        decoded = [done.n_predicted - 1 for done in (self.off, self.on)]
        if min(decoded) < 1 or not (self.off.predicted_s > 0 and self.on.predicted_s > 0):
            return None
        return Observed(
            measurement=PairedMeasurement(
                prompt_id=self.item.id,
                category=self.item.category,
                # The first token comes with the prompt.
                baseline_s=self.off.predicted_s,
                baseline_tokens=decoded[0],
                speculative_s=self.on.predicted_s,
                speculative_tokens=decoded[1],
                n_accepted=self.on.n_accepted,
            ),
            n_drafted=self.on.n_drafted,
            n_accepted=self.on.n_accepted,
            digest=digest_of(self.item.tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Measurements of two servers."""

    pairs: tuple[ServedPair, ...] = ()
    n_starts: int = 0
    repeated: tuple[str, ...] = ()
    """Prompts that were left out as duplicates of others in tokens."""
    ended: BaseException | None = field(default=None, compare=False)
    """The error that ended it early."""

    @property
    def observed(self) -> tuple[Observed, ...]:
        """Observations of the pairs that decoded something."""
        return tuple(one for pair in self.pairs if (one := pair.observed) is not None)
