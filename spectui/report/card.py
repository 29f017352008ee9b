"""The report as a card of JSON: facts alone, nothing of who measured it or of what was prompted.

Every field is named here: a new one of a study does not get into a card by itself.
"""

import json
from collections.abc import Sequence
from math import isfinite

from spectui.documents import Json, or_reason
from spectui.format import printable
from spectui.prompts import builtin_suite
from spectui.report.commands import public_command
from spectui.report.comparison import compare
from spectui.report.content import Content
from spectui.report.document import CategoryPart, Interval, ModelPart, RequestPart
from spectui.report.words import file_name, short

_SCHEMA = "spectui.card/1"
_MOST = 100
_NOT_KEPT = "the study does not keep it"


def render_card(contents: Sequence[Content]) -> str:
    """Encode one study, or two side by side."""
    cards = [card(one) for one in contents]
    document = cards[0]
    if len(contents) > 1:
        sentence = compare(*contents).sentence
        document = {"schema": "spectui.cards/1", "compared": sentence, "cards": cards}
    return f"{json.dumps(document, indent=2, allow_nan=False)}\n"


def card(content: Content) -> Json:
    """One study."""
    found, verdict = content.document, content.verdict
    command = public_command(content)
    return {
        "schema": _SCHEMA,
        "date": None if content.ended is None else f"{content.ended:%Y-%m-%d}",
        **or_reason("spectui", _text(found.spectui), _NOT_KEPT),
        **or_reason(
            "llama_cpp", None if found.engine is None else _text(found.engine.llama_cpp), _NOT_KEPT
        ),
        "measured_by": "llama-server" if found.backend == "server" else "engine",
        **or_reason("machine", _machine(content), content.reasons["machine"]),
        **or_reason("target", None if found.target is None else _model(found.target), _NOT_KEPT),
        **or_reason("draft", _draft(content), "no draft model is used"),
        **or_reason("setting", _setting(content), "no speculative setting could be measured"),
        **or_reason("config", _config(content), _NOT_KEPT),
        "answer": None if verdict is None or verdict.answer is None else str(verdict.answer),
        "use_speculation": None if verdict is None else verdict.use_speculation,
        **_gain(content),
        **or_reason("tokens_per_s", _rates(content), _NOT_KEPT),
        "requests": [_request(one) for one in (found.requests or ())[:_MOST]],
        "depths": [
            {
                "depth": one.depth,
                "speedup": one.speedup,
                "speedup_ci95": _interval(one.speedup_ci95),
                "acceptance_rate": one.acceptance_rate,
            }
            for one in (found.depths or ())[:_MOST]
        ],
        "other_temperatures": [
            {"temp": one.temp, "predicted_speedup": one.predicted_speedup}
            for one in (found.other_temperatures or ())[:_MOST]
        ],
        "categories": _categories(found.per_category or ()),
        **or_reason("round", _round(content), "single rounds were not seen"),
        "n_trials": len(content.tried),
        "n_predicted": len(content.predicted),
        **or_reason("disturbance", _disturbance(content), content.reasons["conditions"][:_MOST]),
        "lossless": found.lossless,
        **or_reason("command", command.value, "no command can be written"),
    }


def _text(text: str | None) -> str | None:
    return None if text is None else printable(short(text))


def _request(one: RequestPart) -> Json:
    first_s, total_s = one.time_to_first_token_s, one.total_s
    return {
        "n_prompt": one.n_prompt,
        "n_answer": one.n_answer,
        "time_to_first_token_s": {"off": first_s.off, "on": first_s.on},
        "total_s": {"off": total_s.off, "on": total_s.on},
        "speedup": one.speedup,
        "speedup_ci95": _interval(one.speedup_ci95),
    }


def _interval(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _machine(content: Content) -> Json | None:
    machine = content.document.machine
    if machine is None:
        return None
    return {
        "cpu": _text(machine.cpu),
        "n_cores": machine.n_cores,
        "memory_bytes": machine.memory_bytes,
        "gpus": [_text(one) for one in machine.gpus[:_MOST]],
        "driver": _text(machine.driver),
    }


def _model(model: ModelPart) -> Json:
    return {
        "file": _text(file_name(model)),
        "arch": _text(model.arch),
        "n_params": model.n_params,
        "size_bytes": model.size_bytes,
    }


def _draft(content: Content) -> Json | None:
    used = None if content.best is None else content.best.draft
    drafts = content.document.drafts or ()
    return next((_model(one) for one in drafts if used is not None and one.name == used), None)


def _setting(content: Content) -> Json | None:
    how = None if content.best is None else content.best.speculation
    return None if how is None else {"kind": how.own.kind, **how.document()}


def _config(content: Content) -> Json | None:
    config = content.document.config
    if config is None:
        return None
    return {
        "temp": config.temp,
        "seed": config.seed,
        "n_predict": config.n_predict,
        "n_prompts": config.n_prompts,
        "min_gain": config.min_gain,
    }


def _gain(content: Content) -> Json:
    gain = content.gain
    if gain is None:
        return or_reason("speedup", None, "no setting was confirmed")
    ends = (gain.low, gain.high)
    interval = None if None in ends else list(ends)
    return {
        "speedup": gain.speedup,
        **or_reason("speedup_ci95", interval, "it has no interval"),
        "n_prompts": gain.n_prompts,
    }


def _rates(content: Content) -> Json | None:
    rates = content.rates
    if rates is None or not all(map(isfinite, rates)):
        return None
    return {"off": rates[0], "on": rates[1]}


def _categories(categories: Sequence[CategoryPart]) -> list[Json]:
    """Rows by category; names that a user gave are numbered instead."""
    known = {prompt.category for prompt in builtin_suite()}
    return [
        {
            "category": one.category if one.category in known else f"category {number}",
            "n_prompts": one.n_prompts,
            "speedup": one.speedup,
            "acceptance_rate": one.acceptance_rate,
        }
        for number, one in enumerate(categories[:_MOST], 1)
    ]


def _round(content: Content) -> Json | None:
    terms = content.document.explanation_terms
    if terms is None:
        return None
    return {
        "alpha": terms.alpha,
        "c": terms.c,
        "drafted": terms.drafted_per_round,
        "emitted": terms.tokens_per_round,
        "verify_ratio": terms.verify_ratio,
        "draft_s": terms.round_s.draft,
        "second_draft_pass_s": terms.round_s.second_draft_pass,
        "verify_s": terms.round_s.verify,
        "sample_s": terms.round_s.sample,
        "rollback_s": terms.round_s.rollback,
        "other_s": terms.round_s.other,
        "speedup_limit": terms.speedup_limit,
    }


def _disturbance(content: Content) -> Json | None:
    found = content.document.conditions
    if found is None:
        return None
    seen = found.disturbance
    return {
        "watched_s": seen.watched_s,
        "disturbed_share": seen.disturbed_share,
        "drift": found.drift,
        "n_noisy": found.n_noisy,
    }
