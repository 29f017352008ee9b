"""Parts of documents on servers that were already running."""

from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.bench import counters_document, ending
from spectui.cli.documents.common import header, sampling_document, sha256, throughput_of
from spectui.cli.documents.served import NOT_LOADED
from spectui.measure.comparison import AloneResult, Done
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine
from spectui.server.watch.sample import ServerFacts

_UNTOLD = "the server does not tell"
NO_BASELINE = (
    "nothing was compared: llama-server takes no speculative parameters per request; give a server "
    "without speculation with --baseline-url"
)
_OWN = "the server drafts as it was started, and does not tell how"

UNKNOWN_SETTING: Json = {
    **or_reason("draft_max", None, _OWN),
    **or_reason("draft_min", None, _OWN),
    **or_reason("draft_p_min", None, _OWN),
}


def running_model(facts: ServerFacts) -> Json:
    """The target, as far as the server reports it."""
    return {
        **or_reason("path", facts.model_path, _UNTOLD),
        **or_reason("arch", None, NOT_LOADED),
        **or_reason("name", facts.alias, _UNTOLD),
        **or_reason("n_params", facts.n_params, _UNTOLD),
        **or_reason("size_bytes", facts.size_bytes, _UNTOLD),
        **or_reason("rollback", None, NOT_LOADED),
        **or_reason("n_ctx", facts.n_ctx, _UNTOLD),
    }


def running_draft() -> Json:
    """The drafter."""
    return {**or_reason("kind", None, _OWN), **or_reason("path", None, _OWN)}


def running_by(url: str, baseline: str | None, facts: ServerFacts) -> Json:
    """The servers that have measured."""
    return {
        "backend": "server",
        "server": {
            "url": url,
            **or_reason("baseline_url", baseline, "none was given"),
            **or_reason("build", facts.build, _UNTOLD),
        },
    }


def alone_document(
    result: AloneResult, workload: Workload, facts: ServerFacts, backend: Json, machine: Machine
) -> Json:
    """``spectui.bench/1`` where nothing was compared."""
    return {
        **header("bench", machine),
        "target": running_model(facts),
        "draft": running_draft(),
        "config": {**UNKNOWN_SETTING, "schedule": "server", **sampling_document(workload)},
        **or_reason("baseline", None, NO_BASELINE),
        "speculative": {
            **throughput_of([one.result for one in result.done]),
            **counters_document(result.counters),
        },
        **or_reason("speedup", None, NO_BASELINE),
        **or_reason("speedup_ci95", None, NO_BASELINE),
        **or_reason("lossless", None, NO_BASELINE),
        "divergence": None,
        **ending(result.ended),
        "prompts": [_prompt(one) for one in result.done],
        **backend,
        "notes": [],
    }


def _prompt(done: Done) -> Json:
    result, counters = done.result, done.result.counters
    nothing = "the answer ended before anything was decoded"
    return {
        "id": done.item.id,
        "category": done.item.category,
        "n_prompt_tokens": result.n_prompt_tokens,
        **or_reason("baseline_tokens_per_s", None, NO_BASELINE),
        **or_reason("tokens_per_s", result.tokens_per_s, nothing),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **or_reason("n_rounds", counters.known_rounds, _OWN),
        "stop": str(result.stop),
        "output_sha256": sha256(result.tokens),
    }
