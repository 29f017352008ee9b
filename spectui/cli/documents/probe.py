"""The document of ``probe experts``."""

from dataclasses import asdict

from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import header, model, sampling_document
from spectui.engine.events import ModelLoaded
from spectui.monitor.machine import Machine
from spectui.tune.experts import ExpertUse
from spectui.tune.workload import Workload


def experts_document(
    use: ExpertUse, *, machine: Machine, target: ModelLoaded, workload: Workload
) -> Json:
    """``spectui.experts/1``."""
    longest = use.batches[-1].n_tokens
    return {
        **header("experts", machine),
        "target": model(target),
        "config": sampling_document(workload),
        "n_experts": use.n_experts,
        "n_experts_used": use.n_used,
        "n_layers": use.n_layers,
        "n_tokens": use.n_tokens,
        **or_reason(
            "saturation", use.saturation, f"{longest} tokens touch less than nine tenths of them"
        ),
        "batches": [asdict(one) for one in use.batches],
    }
