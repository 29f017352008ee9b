"""Sections on what the gain rests on: rounds, trials, disturbances, the machine."""

from collections.abc import Iterator
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
from spectui.report.charts import bar
from spectui.report.content import Content
from spectui.report.document import ModelPart
from spectui.report.section import MOST, Section, Table, facts, file_name, label_of, short
from spectui.tune.trials import TrialState

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
        ("most that any draft could give", times_text(found.speedup_limit)),
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
    rows = tuple(
        (
            label_of(one.record.arm),
            times_text(one.speedup),
            times_text(one.predicted),
            rate_text(one.record.tokens_per_s),
            percent_text(one.record.acceptance_rate),
            str(one.record.number),
        )
        for one in shown
    )
    heads = ("setting", "measured", "predicted", "tokens/s", "accepted", "trial")
    told = "1 trial in all" if len(content.tried) == 1 else f"{len(content.tried):,} trials in all"
    if len(content.tried) > len(shown):
        told += f"; {len(content.tried) - len(shown):,} that were slower or not measured left out"
    failed = (
        f"Trial {one.record.number}, {label_of(one.record.arm)}: {short(one.record.error, 300)}"
        for one in content.tried
        if one.record.state is TrialState.FAIL and one.record.error
    )
    table = Table(heads=heads, rows=rows) if rows else None
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
        file_name(model),
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
