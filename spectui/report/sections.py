"""Sections of a report: what is gained, and what that rests on, in the order of the page.

What each shows the page's template says.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from spectui.documents import Known
from spectui.format import (
    bytes_text,
    count_text,
    counted,
    percent_text,
    rate_text,
    time_text,
    times_text,
)
from spectui.options.setup import SamplingConfig
from spectui.report.content import Content, interval_text, label_of
from spectui.report.document import Gained, ModelPart, RequestPart, arm_of, short
from spectui.report.section import MOST, Row, Section, bar, facts, table_of
from spectui.report.settings_map import settings_map
from spectui.tune.race import forecast_error
from spectui.tune.trials import TrialState

_SHORTEST = 2
"""Tokens of the shortest answer of which anything is decoded."""


def gain_section(content: Content) -> Known[Section]:
    """Speedups with their intervals: writing, whole requests, llama-server, runners-up."""
    gain, document = content.gain, content.document
    if gain is None:
        return Known(None, "no setting was confirmed")
    others: list[tuple[str, Gained | None]] = []
    if document.placing is not None and document.placing.best:
        values = ", ".join(f"{name} {value}" for name, value in document.placing.best.items())
        label = short(f"before that, {values} over your command")
        others.append((label, document.placing.decoding))
    others += [(f"whole request, {one.shape}", one) for one in document.requests or ()]
    for served in document.served or ():
        label = f"on llama-server, {label_of(arm_of(served.params))}"
        others.append((label, served.delivered))
    finalists = document.finalists or ()
    others += [(f"beside it, {label_of(arm_of(one.params))}", one) for one in finalists[1:]]
    own = Row(f"writing, {label_of(content.best)}", gain.speedup, gain.interval, is_strong=True)
    notes = [_how_measured(content, gain.n_prompts)]
    if document.lossless:
        notes.append("The text was the same with and without the draft.")
    return Known(Section(forest=(own, *_forest(others[:MOST])), notes=tuple(notes)))


def _forest(found: Iterable[tuple[str, Gained | None]]) -> tuple[Row, ...]:
    """Rows of a chart: all that have a speedup."""
    return tuple(
        Row(label, one.speedup, one.speedup_ci95)
        for label, one in found
        if one is not None and one.speedup
    )


def _how_measured(content: Content, n_prompts: int) -> str:
    prompts, how = counted(n_prompts, "prompt"), "without and with the draft in turns"
    n_timed = next((one.n_timed for one in content.document.finalists or ()), None)
    if n_timed is not None and n_timed < n_prompts:
        return f"Counted on {prompts}, {n_timed} of them timed {how}."
    return f"Measured on {prompts}, {how}."


def requests_section(content: Content) -> Known[Section]:
    """Seconds of whole requests, without and with the draft."""
    found = content.document.requests
    if not found:
        return Known(None, content.reasons["requests"])
    bars = []
    for one in found[:MOST]:
        first, total = one.time_to_first_token_s, one.total_s
        for label, prompt_s, whole_s in (
            (f"{one.shape}, target alone", first.off, total.off),
            ("with the draft", first.on, total.on),
        ):
            bars.append(bar(label, ("prompt", prompt_s), ("answer", whole_s - prompt_s)))
    notes = tuple(
        f"No prompt of about {one.n_prompt:,} tokens was measured, so that row is extrapolated."
        for one in found[:MOST]
        if one.is_extrapolated
    )
    columns = {
        "prompt + answer": lambda one: one.shape,
        "first token": lambda one: one.time_to_first_token_s.text,
        "whole request": lambda one: one.total_s.text,
        "speedup": lambda one: times_text(one.speedup),
        "pays from (tokens)": _pays_from,
    }
    table = table_of(found[:MOST], columns)
    return Known(Section(bars=tuple(bars), table=table, notes=notes))


def _pays_from(one: RequestPart) -> str:
    if one.break_even is None:
        return "never"
    return "any" if one.break_even <= _SHORTEST else f"{one.break_even:,}"


def map_section(content: Content) -> Known[Section]:
    """The map of all settings."""
    found = settings_map(content)
    if found is None:
        return Known(None, "nothing was predicted, and no trial was measured")
    predicted = counted(len(content.predicted), "setting")
    notes = [f"{predicted} predicted, {found.n_measured} measured; a cell shows its best one."]
    if not content.predicted:
        notes = ["No predictions are kept here: only what was measured is on the map."]
    pairs = [(one.speedup, one.predicted) for one in content.tried]
    errors = [
        math.log(speedup / predicted) for speedup, predicted in pairs if speedup and predicted
    ]
    if (error := forecast_error(errors)) is not None:
        notes.append(f"{error[:1].upper()}{error[1:]}.")
    if found.n_left_out:
        notes.append(f"{counted(found.n_left_out, 'drafter')} with lower speedups left out.")
    return Known(Section(map=found, notes=tuple(notes)))


def categories_section(content: Content) -> Known[Section]:
    """The best setting by category."""
    found = content.document.per_category
    if not found:
        reason = "no setting was measured" if found is not None else content.reasons["per_category"]
        return Known(None, reason)
    shown, n_more = found[:MOST], len(found) - MOST
    notes = (f"{n_more} further categories left out.",) if n_more > 0 else ()
    chart = _forest((one.label, one) for one in shown)
    columns = {
        "category": lambda one: one.label,
        "prompts": lambda one: str(one.n_prompts),
        "speedup": lambda one: times_text(one.speedup),
        "accepted": lambda one: percent_text(one.acceptance_rate),
    }
    return Known(Section(forest=chart, table=table_of(shown, columns), notes=notes))


def slots_section(content: Content) -> Known[Section]:
    """The best setting with several requests at once."""
    found = content.document.slots
    if not found:
        return Known(
            None, "one request at a time was measured: -np with --backend server measures more"
        )
    columns = {
        "slots": lambda one: str(one.n_slots),
        "alone, tokens/s": lambda one: rate_text(one.off_all_tokens_per_s),
        "drafting, tokens/s": lambda one: rate_text(one.on_all_tokens_per_s),
        "speedup": lambda one: times_text(one.speedup),
        "95 % interval": lambda one: interval_text(one.speedup_ci95),
    }
    return Known(Section(table=table_of(found[:MOST], columns)))


_MOST_TRIALS = 25
_DRAWN = 0.001
"""Share of a round below which a part is not drawn."""
_LONGEST_NOTE = 600

_PARTS = {
    "draft": "the draft guesses",
    "second_draft_pass": "it reads what was checked",
    "verify": "the target checks",
    "sample": "tokens are chosen",
    "rollback": "wrong guesses are taken back",
    "other": "everything else",
}
"""Parts of a round, in their order."""


def round_section(content: Content) -> Known[Section]:
    """The parts of a mean round, beside the target alone."""
    found = content.document.explanation_terms
    if found is None:
        return Known(None, content.reasons["explanation_terms"])
    seconds = {name: found.round_s.get(name, 0.0) for name in _PARTS}
    total_s = sum(seconds.values())
    bars, start_s = [], 0.0
    for name, label in _PARTS.items():
        if seconds[name] > _DRAWN * total_s:
            told = f"{label}: {time_text(seconds[name])}, {percent_text(seconds[name] / total_s)}"
            bars.append(bar(told, (name, seconds[name]), start_s=start_s))
            start_s += seconds[name]
    tokens, alone_s = f"{found.tokens_per_round:.2f} tokens", found.speedup * total_s
    bars += [
        bar(f"the whole round: {time_text(total_s)} for {tokens}", ("total", total_s)),
        bar(f"the target alone: {time_text(alone_s)} for as many", ("alone", alone_s)),
    ]
    rows = [
        ("tokens guessed per round", f"{found.drafted_per_round:.2f}"),
        ("tokens written per round", f"{found.tokens_per_round:.2f}"),
        ("α: chance that a guess is accepted", f"{found.alpha:.2f}"),
        ("c: a guess over a token of the target", f"{found.c:.3g}"),
        ("V(n)/V(1): the check over a token of the target", f"{found.verify_ratio:.2f}"),
    ]
    text = content.document.explanation
    notes = () if text is None else (text,)
    return Known(Section(bars=tuple(bars), table=facts(rows), notes=notes))


def trials_section(content: Content) -> Known[Section]:
    """The fastest trials, and how many are left out."""
    measured = [one for one in content.tried if one.speedup is not None]
    if not content.tried:
        return Known(None, "no trial was measured")
    shown = measured[:_MOST_TRIALS]
    if measured and not any(one.record.arm.is_off for one in shown):
        shown += [one for one in measured if one.record.arm.is_off][:1]
    told = "1 trial in all" if len(content.tried) == 1 else f"{len(content.tried):,} trials in all"
    if len(content.tried) > len(shown):
        told += f"; {len(content.tried) - len(shown):,} that were slower or not measured left out"
    failed = (
        f"Trial {one.record.number}, {label_of(one.record.arm)}: {short(one.record.error, 300)}"
        for one in content.tried
        if one.record.state is TrialState.FAIL and one.record.error
    )
    columns = {
        "setting": lambda one: label_of(one.record.arm),
        "measured": lambda one: times_text(one.speedup),
        "predicted": lambda one: times_text(one.predicted),
        "tokens/s": lambda one: rate_text(one.record.tokens_per_s),
        "accepted": lambda one: percent_text(one.record.acceptance_rate),
        "trial": lambda one: str(one.record.number),
    }
    table = table_of(shown, columns) if shown else None
    return Known(Section(table=table, notes=(f"{told}.", *islice(failed, 3))))


def conditions_section(content: Content) -> Known[Section]:
    """Disturbances of the measurement, as ``tune`` reported them."""
    found = content.document.conditions
    if found is None:
        return Known(None, content.reasons["conditions"])
    notes = [short(one, _LONGEST_NOTE) for one in found.notes[:MOST]]
    return Known(Section(notes=tuple(notes) or ("Nothing disturbed it.",)))


def machine_section(content: Content) -> Known[Section]:
    """Hardware, models, versions and sampling."""
    rows = [*_hardware(content), *_models(content), *_versions(content), *_workload(content)]
    if not rows:
        return Known(None, content.reasons["machine"])
    return Known(Section(table=facts(rows, n_words=2)))


def _hardware(content: Content) -> Iterator[tuple[str, str]]:
    found = content.document.machine
    if found is not None:
        yield "processor", f"{short(found.cpu)}, {counted(found.n_cores, 'core')}"
        yield "memory", bytes_text(found.memory_bytes)
        yield "GPUs", short(", ".join(map(short, found.gpus[:16]))) or "none"
        if found.driver is not None:
            yield "driver", short(found.driver)


def _models(content: Content) -> Iterator[tuple[str, str]]:
    target, drafts = content.document.target, content.document.drafts
    if target is not None:
        yield "target", _model_text(target)
    used = None if content.best is None else content.best.draft
    for one in (drafts or ())[:MOST]:
        yield "draft" if one.name == used else "draft, not chosen", _model_text(one)


def _model_text(model: ModelPart) -> str:
    n_params, n_bytes = model.n_params, model.size_bytes
    told = (
        model.file_name,
        None if model.arch is None else short(model.arch),
        None if n_params is None else f"{count_text(n_params)} parameters",
        None if n_bytes is None else bytes_text(n_bytes),
    )
    return ", ".join(filter(None, told))


def _versions(content: Content) -> Iterator[tuple[str, str]]:
    document = content.document
    engine, server = document.engine, document.server
    if document.spectui is not None:
        yield "spectui", short(document.spectui)
    if server is not None:
        yield "measured by", f"llama-server {short(server.version or '')}".strip()
    elif engine is not None:
        yield "measured by", f"llama.cpp {short(engine.llama_cpp)}, in spectui itself"
    if engine is not None and engine.library is not None:
        yield "library", short(engine.library.without_folder)
    if engine is not None and engine.llama_cpp_python is not None:
        yield "llama-cpp-python", short(engine.llama_cpp_python)


def _workload(content: Content) -> Iterator[tuple[str, str]]:
    config, prompts = content.document.config, content.prompts.value
    if config is not None:
        sampling = SamplingConfig(temp=config.temp).label
        if config.temp > 0:
            sampling += f", top-k {config.top_k}, top-p {config.top_p:g}, min-p {config.min_p:g}"
        yield "sampling", f"{sampling}, seed {config.seed}"
        of_whom = "" if prompts is None else f": {short(prompts)}"
        yield "prompts", f"{config.n_prompts}, {config.n_predict} tokens each{of_whom}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A section of a report."""

    name: str
    title: str
    read: Callable[[Content], Known[Section]]
    width: str = "half"
    """On a wide page: ``half``, ``first`` for all of it above the halves, ``whole`` below."""


SECTIONS: Sequence[Topic] = (
    Topic("gain", "How sure is it?", gain_section),
    Topic("requests", "A whole request", requests_section),
    Topic("map", "Every setting", map_section, width="first"),
    Topic("round", "Where the time goes", round_section),
    Topic("categories", "By kind of prompt", categories_section),
    Topic("slots", "Several requests at once", slots_section),
    Topic("trials", "What was tried", trials_section, width="whole"),
    Topic("conditions", "What disturbed it", conditions_section),
    Topic("machine", "Machine, models and versions", machine_section, width="whole"),
)
