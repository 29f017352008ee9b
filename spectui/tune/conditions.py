"""Conditions of a search's measurements: how steady the machine was, how hot, who disturbed it."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.format import percent_text
from spectui.measure.statistics import MAX_DRIFT, drift
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.monitor.readings import Reading
from spectui.tune.trials import TrialRecord, levelled

_HOT_C = 85.0
"""Near where processors begin to slow themselves down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions that may have influenced the measurements."""

    drift: float | None
    """Drift of the machine's own speed over all trials: fastest anchor over slowest, minus 1. None
    with fewer than two trials."""
    n_noisy: int
    """Trials between anchors that disagreed even after a repetition."""
    temperatures_c: tuple[Reading, Reading]
    """Hottest sensor before and after."""
    disturbance: DisturbanceSummary
    """Load of the rest of the machine meanwhile."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a user should know; none under good conditions."""
        found = []
        if self.drift is not None and self.drift > MAX_DRIFT:
            found.append(
                f"The machine's own speed moved by {percent_text(self.drift)} during the trials; "
                "speedups compare with the target alone at the same time, not with the tokens/s of "
                "another trial, but an idle machine gives narrower intervals."
            )
        hottest = self.temperatures_c[1].value
        if hottest is not None and hottest >= _HOT_C:
            found.append(
                f"The hottest sensor showed {hottest:.0f} °C at the end: the processor may have "
                "slowed itself down."
            )
        return (*found, *self.disturbance.notes)

    def document(self) -> Json:
        """Its fields as JSON."""
        before, after = self.temperatures_c
        return {
            **or_reason("drift", self.drift, "fewer than two trials were measured"),
            "n_noisy": self.n_noisy,
            **or_reason("temperature_before_c", before.value, before.reason or ""),
            **or_reason("temperature_after_c", after.value, after.reason or ""),
            "disturbance": self.disturbance.document(),
            "notes": list(self.notes),
        }


def conditions(
    trials: Sequence[TrialRecord],
    before: Reading,
    after: Reading,
    disturbance: DisturbanceSummary,
) -> Conditions:
    """Look at a search's trials, the temperatures around it, and what disturbed it."""
    anchors = [one.anchor_tokens_per_s for one in levelled(trials) if one.anchor_tokens_per_s]
    return Conditions(
        drift=drift(anchors) if len(anchors) > 1 else None,
        n_noisy=sum(trial.noisy for trial in trials),
        temperatures_c=(before, after),
        disturbance=disturbance,
    )
