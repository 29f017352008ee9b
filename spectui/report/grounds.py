"""Sections on what the gain rests on: rounds, trials, disturbances, the machine."""

from spectui.format import (
    bytes_text,
    count_text,
    counted,
    percent_text,
    rate_text,
    times_text,
)
from spectui.known import Known
from spectui.options.setup import SamplingConfig
from spectui.report.charts import Bars, bar, waterfall
from spectui.report.content import Content
from spectui.report.document import ModelPart
from spectui.report.section import MOST, Section, Table, facts
from spectui.report.words import file_name, label_of, short, time_text
from spectui.tune.trials import TrialState

_MOST_TRIALS = 25
_DRAWN = 0.001
"""Share of a round below which a part is not drawn."""
_LONGEST_NOTE = 600

_PARTS = (
    ("the draft guesses", "draft"),
    ("it reads what was checked", "second_draft_pass"),
    ("the target checks", "verify"),
    ("tokens are chosen", "sample"),
    ("wrong guesses are taken back", "rollback"),
    ("everything else", "other"),
)


def round_section(content: Content) -> Known[Section]:
    """The parts of a mean round, beside the target alone."""
    found = content.document.explanation_terms
    if found is None:
        return Known(None, content.reasons["explanation_terms"])
    seconds = [(label, name, found.round_s.get(name, 0.0)) for label, name in _PARTS]
    total_s = sum(one[-1] for one in seconds)
    shown = [one for one in seconds if one[-1] > _DRAWN * total_s]
    labelled = [
        (f"{label}: {time_text(s)}, {percent_text(s / total_s)}", name, s)
        for label, name, s in shown
    ]
    alone_s = found.speedup * total_s
    emitted = f"{found.tokens_per_round:.2f} tokens"
    bars = (
        *waterfall(labelled),
        bar(f"the whole round: {time_text(total_s)} for {emitted}", ("total", total_s)),
        bar(f"the target alone: {time_text(alone_s)} for as many", ("alone", alone_s)),
    )
    rows = [
        ("tokens guessed per round", f"{found.drafted_per_round:.2f}"),
        ("tokens written per round", f"{found.tokens_per_round:.2f}"),
        ("α: chance that a guess is accepted", f"{found.alpha:.2f}"),
        ("c: a guess over a token of the target", f"{found.c:.3g}"),
        ("V(n)/V(1): the check over a token of the target", f"{found.verify_ratio:.2f}"),
        ("most that any draft could give", times_text(found.speedup_limit)),
    ]
    text = content.document.explanation
    return Known(
        Section(
            bars=Bars(bars=bars),
            table=facts(rows),
            notes=() if text is None else (text,),
        )
    )


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
    notes = [_left_out(content, n_shown=len(shown), n_measured=len(measured))]
    notes += [
        f"Trial {one.record.number}, {label_of(one.record.arm)}: {short(one.record.error, 300)}"
        for one in content.tried
        if one.record.state is TrialState.FAIL and one.record.error
    ][:3]
    table = Table(heads=heads, rows=rows) if rows else None
    return Known(Section(table=table, notes=tuple(notes)))


_STATE_WORDS = {
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "had no room in memory",
    TrialState.INTERRUPTED: "stopped",
    TrialState.RUNNING: "running",
}


def _left_out(content: Content, *, n_shown: int, n_measured: int) -> str:
    others = [
        f"{content.states[state]:,} {words}"
        for state, words in _STATE_WORDS.items()
        if content.states.get(state)
    ]
    told = "1 trial in all" if len(content.tried) == 1 else f"{len(content.tried):,} trials in all"
    if others:
        told += f", of which {', '.join(others)}"
    if n_measured > n_shown:
        told += f"; the {n_shown} best are shown, and {n_measured - n_shown:,} slower ones left out"
    later = f" {content.n_later:,} of them came after the verdict." if content.n_later else ""
    return f"{told}.{later}"


def conditions_section(content: Content) -> Known[Section]:
    """What disturbed the measurement, as ``tune`` said it."""
    found = content.document.conditions
    if found is None:
        return Known(None, content.reasons["conditions"])
    notes = [short(one, _LONGEST_NOTE) for one in found.notes[:MOST]]
    return Known(Section(notes=tuple(notes) or ("Nothing disturbed it.",)))


def machine_section(content: Content) -> Known[Section]:
    """Hardware, models, versions and sampling."""
    rows = [*_hardware(content), *_models(content), *_versions(content)]
    if not rows:
        return Known(None, content.reasons["machine"])
    return Known(Section(table=facts(rows, n_words=2)))


def _hardware(content: Content) -> list[tuple[str, str]]:
    found = content.document.machine
    if found is None:
        return []
    rows: list[tuple[str, str]] = [
        ("processor", f"{short(found.cpu)}, {counted(found.n_cores, 'core')}"),
        ("memory", bytes_text(found.memory_bytes)),
        ("GPUs", short(", ".join(map(short, found.gpus[:16]))) or "none"),
    ]
    if found.driver is not None:
        rows.append(("driver", short(found.driver)))
    return rows


def _models(content: Content) -> list[tuple[str, str]]:
    target, drafts = content.document.target, content.document.drafts
    rows: list[tuple[str, str]] = [] if target is None else [("target", _model_text(target))]
    used = None if content.best is None else content.best.draft
    return rows + [
        ("draft" if one.name == used else "draft, not chosen", _model_text(one))
        for one in (drafts or ())[:MOST]
    ]


def _model_text(model: ModelPart) -> str:
    told = [file_name(model)]
    if model.arch is not None:
        told.append(short(model.arch))
    if model.n_params is not None:
        told.append(f"{count_text(model.n_params)} parameters")
    if model.size_bytes is not None:
        told.append(bytes_text(model.size_bytes))
    return ", ".join(told)


def _versions(content: Content) -> list[tuple[str, str]]:
    document = content.document
    rows: list[tuple[str, str]] = []
    if document.spectui is not None:
        rows.append(("spectui", short(document.spectui)))
    engine, server = document.engine, document.server
    if server is not None:
        rows.append(("measured by", f"llama-server {short(server.version or '')}".strip()))
    elif engine is not None:
        rows.append(("measured by", f"llama.cpp {short(engine.llama_cpp)}, in spectui itself"))
    if engine is not None and engine.library is not None:
        rows.append(("library", short(engine.library.without_folder)))
    if engine is not None and engine.llama_cpp_python is not None:
        rows.append(("llama-cpp-python", short(engine.llama_cpp_python)))
    config = document.config
    if config is not None:
        sampling = SamplingConfig(temp=config.temp).label
        if config.temp > 0:
            sampling += f", top-k {config.top_k}, top-p {config.top_p:g}, min-p {config.min_p:g}"
        rows.append(("sampling", f"{sampling}, seed {config.seed}"))
        prompts = f"{config.n_prompts}, {config.n_predict} tokens each"
        if content.prompts.value is not None:
            prompts += f": {short(content.prompts.value)}"
        rows.append(("prompts", prompts))
    return rows
