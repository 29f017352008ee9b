"""Which actions make sense when."""

from spectui.tui.tune.choice import best_choice, selected_choice
from spectui.tui.tune.ledger import Ledger, Row
from spectui.tune.progress import Phase, TuningState

_STARTING = frozenset({"start", "source", "trials"})
_FOUND = frozenset({"apply", "export"})
_SORTING = frozenset({"sort", "reverse"})
ACTIONS = _STARTING | _FOUND | _SORTING | {"pause", "resume", "stop", "apply_selected"}
"""Actions that are not always there."""


def available(state: TuningState, ledger: Ledger, selected: Row | None) -> frozenset[str]:
    """Return the names of the actions that make sense."""
    found: frozenset[str] = frozenset()
    if not state.is_running:
        found |= _STARTING
    elif state.phase is not Phase.STOPPING:
        found |= {"stop", "resume" if state.paused else "pause"}
    if best_choice(state, ledger) is not None:
        found |= _FOUND
    if len(ledger.rows) > 1:
        found |= _SORTING
    if selected_choice(selected) is not None:
        found |= {"apply_selected"}
    return found
