"""The document of ``verify``."""

from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import NOTHING_DRAFTED, header, setting, speedup_of
from spectui.errors import CancelledError
from spectui.measure.promise import Case
from spectui.monitor.machine import Machine
from spectui.options.setup import SamplingConfig
from spectui.server import Completion
from spectui.verify.builds import Builds
from spectui.verify.comparison import Summary, agreement, verdict
from spectui.verify.counts import Counts
from spectui.verify.order import Side
from spectui.verify.result import Verified, notes, warnings
from spectui.verify.served import Delivered, ServedPair

_NO_PROMISE = "nothing was promised"
_NOTHING = "nothing was measured before the run ended"
_NO_MODEL = "no draft model is needed"
_UNTOLD = "the binary does not tell"


def verify_document(found: Verified, machine: Machine) -> Json:
    """``spectui.verify/1``."""
    promised, delivered = found.promised, found.summary
    return {
        **header("verify", machine),
        "server": _server(found),
        "drift": _drift(found.builds),
        "target": {"path": str(found.case.target.path)},
        "draft": _draft(found.case),
        "config": {**setting(found.case.speculation), **_sampling(found.case)},
        "order": {
            "keeps_both": found.keeps_both,
            "n_starts": found.delivered.n_starts,
            "repeats": found.repeats,
            "seed": found.seed,
        },
        **or_reason("promised", _promised(found, promised), _NO_PROMISE),
        **or_reason("delivered", None if delivered is None else _summary(delivered), _NOTHING),
        **_agreement(found, promised, delivered),
        **or_reason("counts", _counts(found), found.counts_reason or _NOTHING),
        "notes": list(notes(found)),
        "warnings": list(warnings(found)),
        **_ending(found.delivered),
        "prompts": [_prompt(pair) for pair in found.delivered.pairs],
    }


def _ending(delivered: Delivered) -> Json:
    ended = delivered.ended
    interrupted = isinstance(ended, KeyboardInterrupt | CancelledError)
    error = None if ended is None or interrupted else str(ended)
    return {"interrupted": interrupted, "error": error}


def _server(found: Verified) -> Json:
    version = found.builds.server
    return {
        "path": found.binary,
        **or_reason("version", None if version is None else version.text, _UNTOLD),
        **or_reason("build", None if version is None else version.build, _UNTOLD),
        **or_reason("commit", None if version is None else version.commit, _UNTOLD),
        "arguments": {str(side): list(found.arguments[side]) for side in Side},
    }


def _drift(builds: Builds) -> Json:
    return {
        "engine": builds.engine,
        **or_reason("engine_commit", builds.engine_commit, "the library does not tell"),
        "server": builds.server_text,
        **or_reason("same", builds.is_same, _UNTOLD),
        **or_reason("compared", builds.compared and str(builds.compared), _UNTOLD),
    }


def _draft(case: Case) -> Json:
    path = None if case.draft is None or not case.speculation.needs_draft else str(case.draft.path)
    return {"kind": case.speculation.own.label, **or_reason("path", path, _NO_MODEL)}


def _sampling(case: Case) -> Json:
    sampling: SamplingConfig = case.sampling
    return {
        "temp": sampling.temp,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "ignore_eos": sampling.ignore_eos,
        "n_predict": case.n_predict,
    }


def _promised(found: Verified, promised: Summary | None) -> Json | None:
    if promised is None or found.promise is None:
        return None
    reason = "it was measured just now"
    origin = found.origin
    advice = None if origin is None or origin.advice is None else str(origin.advice)
    return {
        **or_reason("study", None if origin is None else origin.study, reason),
        **or_reason("advice", advice, "no study has advised anything"),
        "schedule": str(found.promise.schedule),
        **_summary(promised),
    }


def _summary(summary: Summary) -> Json:
    return {
        "baseline": {
            "tokens_per_s": summary.baseline_tokens_per_s,
            "n_tokens": summary.baseline_tokens,
            "decode_s": summary.baseline_s,
        },
        "speculative": {
            "tokens_per_s": summary.tokens_per_s,
            "n_tokens": summary.speculative_tokens,
            "decode_s": summary.speculative_s,
            "n_drafted": summary.n_drafted,
            "n_accepted": summary.n_accepted,
            **or_reason("acceptance_rate", summary.acceptance_rate, NOTHING_DRAFTED),
        },
        **speedup_of(summary.speedup),
    }


def _agreement(found: Verified, promised: Summary | None, delivered: Summary | None) -> Json:
    """Whether it holds, in a word, in a sentence and as a ratio."""
    if delivered is None:
        return {"agreement": None, "agreement_reason": _NOTHING, "verdict": None}
    told = verdict(None if promised is None else promised.speedup, delivered.speedup, found.ratio)
    if promised is None:
        return {"agreement": None, "agreement_reason": _NO_PROMISE, "verdict": told}
    ratio = found.ratio
    fields = None
    if ratio is not None:
        interval = None if ratio.low is None else [ratio.low, ratio.high]
        reason = ratio.interval_reason or "the interval is not known"
        fields = {"estimate": ratio.estimate, **or_reason("ci95", interval, reason)}
    return {
        "agreement": str(agreement(promised.speedup, delivered.speedup, ratio)),
        "verdict": told,
        **or_reason("delivered_over_promised", fields, "no prompt is the same"),
    }


def _counts(found: Verified) -> Json | None:
    check, differing = found.counts, found.differing
    if check is None:
        return None
    equal = "they are equal"
    return {
        "n_compared": check.n_compared,
        "n_equal": check.n_equal,
        "n_different_prompts": 0 if differing is None else differing.n_different,
        **or_reason("verdict", None if differing is None else differing.sentence, equal),
        **or_reason("likely_reason", None if differing is None else str(differing.cause), equal),
        "different": [
            {
                "id": one.prompt_id,
                "engine": _of(one.engine),
                "server": _of(one.server),
                **or_reason("output_parts_at", one.parted_at, "the output is the same"),
            }
            for one in check.differences
        ],
    }


def _of(counts: Counts) -> Json:
    return {"n_drafted": counts.n_drafted, "n_accepted": counts.n_accepted}


def _prompt(pair: ServedPair) -> Json:
    return {
        "id": pair.item.id,
        "category": pair.item.category,
        "n_prompt_tokens": len(pair.item.tokens),
        **or_reason("baseline_tokens_per_s", _rate(pair.off), "nothing was decoded"),
        **or_reason("tokens_per_s", _rate(pair.on), "nothing was decoded"),
        "n_drafted": pair.on.n_drafted,
        "n_accepted": pair.on.n_accepted,
        "stop": pair.on.stop,
        "same_output": pair.on.tokens == pair.off.tokens,
    }


def _rate(done: Completion) -> float | None:
    """Decode throughput: the first token comes with the prompt."""
    decoded = done.n_predicted - 1
    return decoded / done.predicted_s if decoded > 0 and done.predicted_s > 0 else None
