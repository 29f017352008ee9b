"""JSON of ``spectui replay``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectui import __version__
from spectui.cli.documents.common import setting
from spectui.cli.documents.explanation import costs_document, explanation_fields
from spectui.trace.costs import Costs
from spectui.trace.replay import Total
from spectui.tune.explain import Explanation


def replay_document(
    path: Path, totals: Sequence[Total], explanation: Explanation, costs: Mapping[str, Costs]
) -> dict[str, Any]:
    """``spectui.replay/1``: replayed settings of the trace at ``path``, and costs of rounds."""
    return {
        "schema": "spectui.replay/1",
        "spectui": __version__,
        "trace": str(path),
        "configs": [_config(total) for total in totals],
        **explanation_fields(explanation),
        "costs": {name: costs_document(measured) for name, measured in costs.items()},
    }


def _config(total: Total) -> dict[str, Any]:
    document: dict[str, Any] = {
        "draft": total.draft,
        **setting(total.speculation),
        "n_rounds": total.n_rounds,
        "n_drafted": total.n_drafted,
        "n_accepted": total.n_accepted,
        "n_rejections": total.n_rejections,
        "acceptance_rate": total.acceptance_rate,
        "mean_accepted_length": total.mean_accepted_length,
        "tokens_per_s": total.tokens_per_s,
        "speedup": total.speedup,
        "rounds_by_n_drafted": list(total.batches),
    }
    no_costs = "the trace holds no costs: they were left out, or nothing was drafted to measure"
    reasons = {
        "acceptance_rate": "nothing was drafted",
        "mean_accepted_length": "no round was run",
        "tokens_per_s": no_costs,
        "speedup": no_costs,
    }
    for name, reason in reasons.items():
        if document[name] is None:
            document[f"{name}_reason"] = reason
    return document
