"""Parts that documents of measurements share."""

import hashlib
from collections.abc import Sequence

from spectui.cli.documents.base import Json, header_with, model_with, or_reason
from spectui.engine.events import GenerationResult, ModelLoaded
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.measure.arm import Arm
from spectui.measure.lossless import UNTOLD, LosslessCheck
from spectui.measure.measurer import Pair, throughput
from spectui.measure.statistics import Speedup
from spectui.measure.workload import Workload
from spectui.monitor.machine import Machine
from spectui.options.drafters import (
    DrafterSetting,
    DraftMtp,
    DraftSimple,
    HiddenStateDrafter,
    ModelDrafter,
    NgramDrafter,
)
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation

NOTHING_DRAFTED = "nothing was drafted"
NO_ROUNDS = "llama-server does not tell how many rounds it ran"
"""The tokens do not tell either: a text ended inside a draft, or the target redoes rounds."""
NO_DETAIL = "llama-server does not tell single rounds"


def header(kind: str, machine: Machine) -> Json:
    """Fields at the start of every document."""
    return header_with(
        kind, machine, llama_cpp_python=binding_version(), llama_cpp=llama_cpp_version()
    )


def model(loaded: ModelLoaded) -> Json:
    """A loaded model."""
    return model_with(loaded.info, rollback=loaded.rollback, n_ctx=loaded.n_ctx)


def config(workload: Workload, speculation: Speculation, schedule: Schedule) -> Json:
    """The configuration of a run."""
    return {
        **setting(speculation),
        "schedule": str(schedule),
        **sampling_document(workload),
    }


def sampling_document(workload: Workload) -> Json:
    """Sampling options, and the number of tokens to predict."""
    sampling = workload.sampling
    return {
        "temp": sampling.temp,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "ignore_eos": sampling.ignore_eos,
        "n_predict": workload.n_predict,
    }


def throughput_of(results: Sequence[GenerationResult]) -> Json:
    """Tokens, seconds and the resulting throughput."""
    return {
        **or_reason("tokens_per_s", throughput(results), "nothing was decoded"),
        "n_tokens": sum(result.n_decoded for result in results),
        "decode_s": sum(result.decode_s for result in results),
    }


def setting(speculation: Speculation) -> Json:
    """Drafting options: the longest draft and a draft model's bounds, for every kind of drafter."""
    found = _setting(speculation.own)
    if speculation.ahead:
        found["ahead"] = [_setting(one) for one in speculation.ahead]
    return found


def _setting(own: DrafterSetting) -> Json:
    model = own if isinstance(own, ModelDrafter) else DraftSimple(draft_max=own.longest)
    found: Json = dict(model.numbers)
    if isinstance(own, NgramDrafter):
        found["ngram"] = {"kind": own.kind, **own.numbers}
    if isinstance(own, DraftMtp):
        found["mtp"] = True
    if isinstance(own, HiddenStateDrafter):
        found["spec_type"] = own.kind
    return found


def arm_document(arm: Arm) -> Json:
    """Drafter and setting of an arm; ``draft`` is null for off and where no draft model is needed.

    ``n_cpu_moe`` is there where it is searched.
    """
    how = {} if arm.speculation is None else setting(arm.speculation)
    placed = {} if arm.n_cpu_moe is None else {"n_cpu_moe": arm.n_cpu_moe}
    return {"draft": arm.draft, **how, **placed}


def speedup_of(speedup: Speedup) -> Json:
    """A speedup with its interval, and the most that the accepted tokens can give."""
    interval = None if speedup.low is None else [speedup.low, speedup.high]
    reason = speedup.interval_reason or "the interval is not known"
    return {
        "speedup": speedup.estimate,
        **or_reason("speedup_ci95", interval, reason),
        **or_reason("speedup_at_most", speedup.ceiling, "it is not known what was accepted"),
        "speedup_is_noise": speedup.is_noise,
    }


def lossless(check: LosslessCheck | None) -> Json:
    """Whether speculation changed the output."""
    if check is None:
        reason = "only complete runs of greedy output are compared"
        return {"lossless": None, "lossless_reason": reason, "divergence": None}
    divergence = check.divergence
    if divergence is None:
        return {"lossless": True, "divergence": None}
    return {
        **or_reason("lossless", check.lossless, UNTOLD),
        "divergence": {
            "prompt": divergence.prompt_id,
            "position": divergence.position,
            **or_reason("margin", divergence.margin, UNTOLD),
            **or_reason("noise", divergence.noise, UNTOLD),
            "n_prompts": check.n_different,
        },
    }


def prompt(pair: Pair) -> Json:
    """Result of one prompt, without and with speculation."""
    counters = pair.speculative.counters
    nothing = "the answer ended before anything was decoded"
    return {
        "id": pair.item.id,
        "category": pair.item.category,
        "n_prompt_tokens": pair.speculative.n_prompt_tokens,
        **or_reason("baseline_tokens_per_s", pair.baseline.tokens_per_s, nothing),
        **or_reason("tokens_per_s", pair.speculative.tokens_per_s, nothing),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **or_reason("n_rounds", counters.known_rounds, NO_ROUNDS),
        "stop": str(pair.speculative.stop),
        "output_sha256": sha256(pair.speculative.tokens),
    }


def sha256(tokens: Sequence[int]) -> str:
    """SHA-256 of the token ids as decimal numbers, one per line."""
    return hashlib.sha256("\n".join(map(str, tokens)).encode()).hexdigest()
