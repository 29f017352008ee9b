"""Sections of a report: for each its title, a sentence that explains it, and what it shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spectui.format import (
    bytes_text,
    count_text,
    counted,
    duration_text,
    percent_text,
    rate_text,
    times_text,
)
from spectui.known import Known
from spectui.monitor.disturbance import Cause, Kind
from spectui.report.charts import Bar, Bars, Forest, Row, bar, waterfall
from spectui.report.content import Content
from spectui.report.document import CausePart, ModelPart, RequestPart
from spectui.report.settings import arm_of
from spectui.report.settings_map import SettingsMap, settings_map
from spectui.report.words import file_name, interval_text, label_of, short, time_text
from spectui.tune.trials import TrialState

MOST_TRIALS = 25
_MOST = 24
"""Rows of any other chart or table."""
_MOST_CAUSES = 8
_SHORTEST = 2
"""Tokens of the shortest answer of which anything is decoded."""
_DRAWN = 0.001
"""Share of a round below which a part is not drawn."""
Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts."""

    heads: Cells
    rows: tuple[Cells, ...]
    n_words: int = 1
    """Leading columns that hold words; the others hold numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one study says in a section."""

    forest: Forest | None = None
    bars: Bars | None = None
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kindred:
    """A section of all studies of a report."""

    name: str
    title: str
    lead: str
    """What it shows, for somebody who knows nothing of it."""
    read: Callable[[Content], Known[Section]]
    is_narrow: bool = True
    """Whether half of a wide page is enough for it."""
    is_first: bool = False
    """Whether it comes before the narrow ones."""


def beside(sections: Sequence[Known[Section]]) -> tuple[Known[Section], ...]:
    """Sections of several studies, whose charts have one scale."""
    found = [known.value for known in sections if known.value is not None]
    rows = tuple(row for one in found if one.forest for row in one.forest.rows)
    bars = tuple(bar for one in found if one.bars for bar in one.bars.bars)
    ends = [end for one in found if one.map for end in (one.map.low, one.map.high)]

    def aligned(section: Section) -> Section:
        return replace(
            section,
            forest=section.forest and replace(section.forest, beside=rows),
            bars=section.bars and replace(section.bars, beside=bars),
            map=section.map and replace(section.map, low=min(ends), high=max(ends)),
        )

    return tuple(
        known if known.value is None else Known(aligned(known.value)) for known in sections
    )


def _gain(content: Content) -> Known[Section]:
    gain = content.gain
    if gain is None:
        return Known(None, "no setting was confirmed")
    rows = [
        Row(
            label=f"writing, {label_of(content.best)}",
            speedup=gain.speedup,
            low=gain.low,
            high=gain.high,
            is_strong=True,
        )
    ]
    for request in (content.document.requests or ())[:_MOST]:
        low, high = request.speedup_ci95 or (None, None)
        label = f"whole request, {_shape(request)}"
        rows.append(Row(label=label, speedup=request.speedup, low=low, high=high))
    for one in (content.document.served or ())[:_MOST]:
        if one.delivered is not None and one.delivered.speedup:
            low, high = one.delivered.speedup_ci95 or (None, None)
            label = f"on llama-server, {label_of(arm_of(one.params))}"
            rows.append(Row(label=label, speedup=one.delivered.speedup, low=low, high=high))
    for standing in (content.document.finalists or ())[1:_MOST]:
        if standing.speedup:
            low, high = standing.speedup_ci95 or (None, None)
            label = f"runner-up, {label_of(arm_of(standing.params))}"
            rows.append(Row(label=label, speedup=standing.speedup, low=low, high=high))
    notes = [
        f"Measured on {counted(gain.n_prompts, 'prompt')}, without and with the draft in turns."
    ]
    if content.document.lossless:
        notes.append("The text was the same with and without the draft.")
    return Known(Section(forest=Forest(rows=tuple(rows)), notes=tuple(notes)))


def _shape(request: RequestPart) -> str:
    return f"{request.n_prompt:,} + {request.n_answer:,} tokens"


def _requests(content: Content) -> Known[Section]:
    found = content.document.requests
    if not found:
        return Known(None, content.reasons["requests"])
    bars: list[Bar] = []
    rows: list[Cells] = []
    for one in found[:_MOST]:
        first, total = one.time_to_first_token_s, one.total_s
        bars += [
            bar(
                f"{_shape(one)}, target alone",
                ("prompt", first.off),
                ("answer", total.off - first.off),
            ),
            bar("with the draft", ("prompt", first.on), ("answer", total.on - first.on)),
        ]
        pays = (
            "never"
            if one.break_even is None
            else "any"
            if one.break_even <= _SHORTEST
            else f"{one.break_even:,}"
        )
        rows.append(
            (
                _shape(one),
                *(
                    f"{time_text(off)} → {time_text(on)}"
                    for off, on in ((first.off, first.on), (total.off, total.on))
                ),
                times_text(one.speedup),
                pays,
            )
        )
    heads = ("prompt + answer", "first token", "whole request", "speedup", "pays from (tokens)")
    notes = tuple(
        f"No prompt of about {one.n_prompt:,} tokens was measured, so that row is extrapolated."
        for one in found[:_MOST]
        if one.is_extrapolated
    )
    return Known(
        Section(
            bars=Bars(bars=tuple(bars)), table=Table(heads=heads, rows=tuple(rows)), notes=notes
        )
    )


def _map(content: Content) -> Known[Section]:
    found = settings_map(content)
    if found is None:
        return Known(None, "nothing was predicted, and no trial was measured")
    predicted = counted(found.n_predicted, "setting")
    notes = [f"{predicted} predicted, {found.n_measured} measured; a cell shows its best one."]
    if not found.n_predicted:
        notes = ["Nothing was predicted here: only what was measured is on the map."]
    if content.is_partly_predicted:
        n_all = content.document.n_replayed
        notes.append(
            f"An older spectui kept only the best {found.n_predicted} of {n_all:,} predictions."
        )
    if found.n_left_out:
        notes.append(f"{counted(found.n_left_out, 'drafter')} with lower speedups left out.")
    return Known(Section(map=found, notes=tuple(notes)))


def _depth(content: Content) -> Known[Section]:
    found = content.document.depths
    if not found:
        reason = "no lengths of prompt were asked for: spectui tune --depth 0,4096,16384 does"
        return Known(None, reason if found is not None else content.reasons["depths"])
    rows, cells = [], []
    for one in found[:_MOST]:
        low, high = one.speedup_ci95 or (None, None)
        label = f"{one.depth:,} tokens" if one.depth else "prompts as they are"
        rows.append(Row(label=label, speedup=one.speedup, low=low, high=high))
        token = "–" if one.token_s is None else f"{1000 * one.token_s:.3g} ms"
        cells.append(
            (
                label,
                times_text(one.speedup),
                interval_text(low, high),
                percent_text(one.acceptance_rate),
                token,
            )
        )
    heads = ("length of prompt", "speedup", "95 % interval", "accepted", "a token of the target")
    limit = content.document.depth_limit
    notes = [] if limit is None else [f"It pays up to a depth of about {limit:,} tokens."]
    return Known(
        Section(
            forest=Forest(rows=tuple(rows)),
            table=Table(heads=heads, rows=tuple(cells)),
            notes=tuple(notes),
        )
    )


def _temperatures(content: Content) -> Known[Section]:
    found = content.document.other_temperatures
    if not found:
        return Known(None, content.reasons["other_temperatures"])
    rows = tuple(
        (
            "greedy" if one.temp <= 0 else f"{one.temp:g}",
            times_text(one.predicted_speedup),
            percent_text(one.acceptance_rate),
            str(one.n_prompts),
        )
        for one in found[:_MOST]
    )
    heads = ("temperature", "predicted speedup", "accepted", "prompts")
    config = content.document.config
    own = (
        ""
        if config is None
        else "greedy output"
        if config.temp <= 0
        else f"temperature {config.temp:g}"
    )
    notes = (f"Everything else here was measured with {own}.",) if own else ()
    return Known(Section(table=Table(heads=heads, rows=rows), notes=notes))


def _categories(content: Content) -> Known[Section]:
    found = content.document.per_category
    if not found:
        return Known(None, content.reasons["per_category"])
    rows, cells = [], []
    for one in found[:_MOST]:
        best = None if one.trials is None else one.trials.best
        if one.speedup:
            rows.append(
                Row(
                    label=f"{short(one.category, 60)} ({counted(one.n_prompts, 'prompt')})",
                    speedup=one.speedup,
                    other=None if best is None else best.speedup,
                )
            )
        cells.append(
            (
                short(one.category, 60),
                str(one.n_prompts),
                times_text(one.speedup),
                percent_text(one.acceptance_rate),
                "–"
                if best is None
                else f"{times_text(best.speedup)} {label_of(arm_of(best.params))}",
            )
        )
    heads = ("category", "prompts", "speedup", "accepted", "best in the trials")
    notes = [f"{counted(len(found) - _MOST, 'category')} left out."] if len(found) > _MOST else []
    chart = Forest(rows=tuple(rows)) if rows else None
    return Known(
        Section(forest=chart, table=Table(heads=heads, rows=tuple(cells)), notes=tuple(notes))
    )


_PARTS = (
    ("the draft guesses", "draft"),
    ("it reads what was checked", "second_draft_pass"),
    ("the target checks", "verify"),
    ("tokens are chosen", "sample"),
    ("wrong guesses are taken back", "rollback"),
    ("everything else", "other"),
)


def _round(content: Content) -> Known[Section]:
    found = content.document.explanation_terms
    if found is None:
        return Known(None, content.reasons["explanation_terms"])
    seconds = [(f"{label}", name, getattr(found.round_s, name)) for label, name in _PARTS]
    total_s = sum(one[-1] for one in seconds)
    shown = [one for one in seconds if one[-1] > 0.001 * total_s]
    labelled = [
        (f"{label}: {_ms(s)}, {percent_text(s / total_s)}", name, s) for label, name, s in shown
    ]
    alone_s = found.speedup * total_s
    emitted = f"{found.tokens_per_round:.2f} tokens"
    bars = (
        *waterfall(labelled),
        bar(f"the whole round: {_ms(total_s)} for {emitted}", ("total", total_s)),
        bar(f"the target alone: {_ms(alone_s)} for as many", ("alone", alone_s)),
    )
    rows = (
        ("tokens guessed per round", f"{found.drafted_per_round:.2f}"),
        ("tokens written per round", f"{found.tokens_per_round:.2f}"),
        ("α: chance that a guess is accepted", f"{found.alpha:.2f}"),
        ("c: a guess over a token of the target", f"{found.c:.3g}"),
        ("V(n)/V(1): the check over a token of the target", f"{found.verify_ratio:.2f}"),
        ("most that any draft could give", times_text(found.speedup_limit)),
    )
    text = content.document.explanation
    return Known(
        Section(
            bars=Bars(bars=bars),
            table=Table(heads=("", ""), rows=rows),
            notes=() if text is None else (text,),
        )
    )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _slots(content: Content) -> Known[Section]:
    found = content.document.slots
    if not found:
        return Known(
            None, "one request at a time was measured: -np with --backend server measures more"
        )
    rows = []
    for one in found[:_MOST]:
        low, high = one.speedup_ci95 or (None, None)
        rates = (rate_text(one.off_all_tokens_per_s), rate_text(one.on_all_tokens_per_s))
        rows.append((str(one.n_slots), *rates, times_text(one.speedup), interval_text(low, high)))
    heads = ("slots", "alone, tokens/s", "drafting, tokens/s", "speedup", "95 % interval")
    return Known(Section(table=Table(heads=heads, rows=tuple(rows))))


def _trials(content: Content) -> Known[Section]:
    measured = [one for one in content.tried if one.speedup is not None]
    if not content.tried:
        return Known(None, "no trial was measured")
    shown = measured[:MOST_TRIALS]
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
    return Known(Section(table=Table(heads=heads, rows=rows), notes=tuple(notes)))


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
    told = f"{len(content.tried):,} trials in all"
    if others:
        told += f", of which {', '.join(others)}"
    if n_measured > n_shown:
        told += f"; the {n_shown} best are shown, and {n_measured - n_shown:,} slower ones left out"
    later = f" {content.n_later:,} of them came after the verdict." if content.n_later else ""
    return f"{told}.{later}"


def _conditions(content: Content) -> Known[Section]:
    found = content.document.conditions
    if found is None:
        return Known(None, content.reasons["conditions"])
    seen = found.disturbance
    share = "" if seen.disturbed_share is None else f" ({percent_text(seen.disturbed_share)})"
    rows = [
        ("watched", duration_text(seen.watched_s)),
        ("disturbed", f"{duration_text(seen.disturbed_s)}{share}"),
    ]
    if found.drift is not None:
        rows.append(("the machine's own speed moved by", percent_text(found.drift)))
    rows.append(("trials repeated in vain, as it was unsteady", str(found.n_noisy)))
    before, after = found.temperature_before_c, found.temperature_after_c
    if before is not None and after is not None:
        rows.append(("hottest sensor, before and after", f"{before:.0f} °C, {after:.0f} °C"))
    notes = [_cause_text(one) for one in seen.causes[:_MOST_CAUSES]]
    if len(seen.causes) > _MOST_CAUSES:
        notes.append(f"{counted(len(seen.causes) - _MOST_CAUSES, 'further cause')} left out.")
    if not seen.causes:
        notes.append("Nothing disturbed it.")
    return Known(Section(table=Table(heads=("", ""), rows=tuple(rows)), notes=tuple(notes)))


def _cause_text(part: CausePart) -> str:
    try:
        kind = Kind(part.kind)
    except ValueError:
        return f"{short(part.kind)} for {duration_text(part.seconds)}."
    cause = Cause(
        kind=kind,
        name=None if part.name is None else short(part.name),
        n_processes=part.n_processes,
        seconds=part.seconds,
        share=part.share,
    )
    return f"{cause.text[0].upper()}{cause.text[1:]}."


def _machine(content: Content) -> Known[Section]:
    rows = [*_hardware(content), *_models(content), *_versions(content)]
    if not rows:
        return Known(None, content.reasons["machine"])
    return Known(Section(table=Table(heads=("", ""), rows=tuple(rows), n_words=2)))


def _hardware(content: Content) -> list[Cells]:
    found = content.document.machine
    if found is None:
        return []
    rows: list[Cells] = [
        ("processor", f"{short(found.cpu)}, {counted(found.n_cores, 'core')}"),
        ("memory", bytes_text(found.memory_bytes)),
        ("GPUs", short(", ".join(map(short, found.gpus[:16]))) or "none"),
    ]
    if found.driver is not None:
        rows.append(("driver", short(found.driver)))
    return rows


def _models(content: Content) -> list[Cells]:
    target, drafts = content.document.target, content.document.drafts
    rows: list[Cells] = [] if target is None else [("target", _model_text(target))]
    used = None if content.best is None else content.best.draft
    return rows + [
        ("draft" if one.name == used else "draft, not chosen", _model_text(one))
        for one in (drafts or ())[:_MOST]
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


def _versions(content: Content) -> list[Cells]:
    document = content.document
    rows: list[Cells] = []
    if document.spectui is not None:
        rows.append(("spectui", short(document.spectui)))
    engine, server = document.engine, document.server
    if server is not None:
        rows.append(("measured by", f"llama-server {short(server.version or '')}".strip()))
    elif engine is not None:
        rows.append(("measured by", f"llama.cpp {short(engine.llama_cpp)}, in spectui itself"))
    if engine is not None and engine.llama_cpp_python is not None:
        rows.append(("llama-cpp-python", short(engine.llama_cpp_python)))
    config = document.config
    if config is not None:
        sampling = (
            "greedy"
            if config.temp <= 0
            else (
                f"temperature {config.temp:g}, top-k {config.top_k}, top-p {config.top_p:g}, "
                f"min-p {config.min_p:g}"
            )
        )
        rows.append(("sampling", f"{sampling}, seed {config.seed}"))
        prompts = f"{config.n_prompts}, {config.n_predict} tokens each"
        if content.prompts.value is not None:
            prompts += f": {short(content.prompts.value)}"
        rows.append(("prompts", prompts))
    if document.time is not None:
        rows.append(("the search took", duration_text(document.time.took_s)))
    return rows


SECTIONS: Sequence[Kindred] = (
    Kindred(
        name="gain",
        title="How sure is it?",
        lead=(
            "How many times as fast text comes out as from the target alone, which is 1×. The dot "
            "is what was measured; the true value lies within the bar with 95 % confidence."
        ),
        read=_gain,
    ),
    Kindred(
        name="requests",
        title="A whole request",
        lead=(
            "What somebody waits who sends a prompt: first it is read, which no draft makes "
            "faster, then the answer is written, which a good draft does."
        ),
        read=_requests,
    ),
    Kindred(
        name="map",
        title="Every setting",
        lead=(
            "Each cell is a way to set the draft. Its shade is the speedup that replaying recorded "
            "prompts predicts, an outline marks what was really measured, ★ the setting above."
        ),
        read=_map,
        is_narrow=False,
        is_first=True,
    ),
    Kindred(
        name="round",
        title="Where the time goes",
        lead=(
            "In each round the draft guesses a few tokens and the target checks them all at once. "
            "The bars follow one round; it pays if it is shorter than the last bar."
        ),
        read=_round,
    ),
    Kindred(
        name="categories",
        title="By kind of prompt",
        lead=(
            "Some texts are easier to guess than others. The filled dot is the setting above, "
            "confirmed; the hollow one is the best that any setting reached in its trial."
        ),
        read=_categories,
    ),
    Kindred(
        name="depth",
        title="Behind longer prompts",
        lead=(
            "The more text there is already, the more each token costs, so that the gain may "
            "shrink or grow with it."
        ),
        read=_depth,
    ),
    Kindred(
        name="temperatures",
        title="At other temperatures",
        lead=(
            "The more freely the target chooses its words, the fewer of the guesses are right. "
            "These speedups are predicted from counts, not measured."
        ),
        read=_temperatures,
    ),
    Kindred(
        name="slots",
        title="Several requests at once",
        lead="With more requests at the same time the machine is busier, and drafting gains less.",
        read=_slots,
    ),
    Kindred(
        name="trials",
        title="What was tried",
        lead=(
            "Each trial is one setting on a few prompts, the fastest first. Trials only rank; the "
            "gain above was confirmed by measurements of its own."
        ),
        read=_trials,
        is_narrow=False,
    ),
    Kindred(
        name="conditions",
        title="What disturbed it",
        lead=(
            "Other programs, heat and sleep make a machine slower for a while. This is what was "
            "seen while it measured."
        ),
        read=_conditions,
    ),
    Kindred(
        name="machine",
        title="Machine, models and versions",
        lead="The numbers hold for this hardware, these files and these versions.",
        read=_machine,
        is_narrow=False,
    ),
)
