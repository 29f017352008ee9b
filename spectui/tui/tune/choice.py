"""Which setting "apply the best" means."""

from dataclasses import dataclass

from spectui.tui.tune.ledger import Ledger, Row
from spectui.tune.progress import TuningState
from spectui.tune.trials import OFF, Arm, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A setting for the live session."""

    arm: Arm
    reason: str
    """What the user is told: what was applied, and why that."""


def best_choice(state: TuningState, ledger: Ledger) -> Choice | None:
    """Return what a confirmed verdict says, else the fastest trial; None if there is neither.

    Off is an arm like the others: it is the choice when the verdict is against speculation, and
    as long as no setting is faster than it.
    """
    if state.result is not None and state.result.speedup is not None:
        verdict, best = state.result.verdict, state.result.best
        if verdict.use_speculation and best is not None:
            return Choice(arm=best, reason=f"Applied the confirmed best: {best.label}.")
        return Choice(arm=OFF, reason=f"Speculation is turned off. {verdict.reason}")
    if ledger.best is None:
        return None
    arm, speedup = ledger.best.record.arm, ledger.speedup(ledger.best)
    if speedup is None:
        # Nothing to compare it with: off was not measured yet.
        return None
    if speedup <= 1:
        reason = "Speculation is turned off: no setting is faster than the target alone so far."
        return Choice(arm=OFF, reason=reason)
    return Choice(arm=arm, reason=f"Applied the best so far, not confirmed yet: {arm.label}.")


def selected_choice(row: Row | None) -> Choice | None:
    """Return what a trial ran; None if it is not known to work."""
    if row is None or row.record.state is not TrialState.COMPLETE:
        return None
    arm = row.record.arm
    what = "Speculation is turned off" if row.is_off else f"Applied {arm.label}"
    return Choice(arm=arm, reason=f"{what}, as in trial {row.number}.")
