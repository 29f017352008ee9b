"""Sections of a report, in the order of the page: the gain, and the data behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.format import bytes_text, count_text, counted, percent_text, time_text, times_text
from spectui.options.setup import SamplingConfig
from spectui.page import Table, Words
from spectui.report.content import Content, interval_text, label_of
from spectui.report.document import Gained, ModelPart, RequestPart, short

MOST = 24
"""Rows of a table."""
_SHORTEST = 2
"""Tokens of the shortest answer of which anything is decoded."""
_LONGEST_NOTE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a report."""

    title: str
    lead: str
    """Explanation for readers without previous knowledge."""
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


def sections(content: Content) -> list[Section]:
    """The sections that the study has data for."""
    found = (
        _gain(content),
        _requests(content),
        _round(content),
        _conditions(content),
        _machine(content),
    )
    return [one for one in found if one is not None]


def _gain(content: Content) -> Section | None:
    """Speedups with their intervals: of the place before, writing, whole requests."""
    gain, document = content.gain, content.document
    if gain is None:
        return None
    rows = [(f"writing, {label_of(content.best)}", gain.speedup, gain.interval)]
    others: list[tuple[str, Gained | None]] = []
    if document.placing is not None and document.placing.best:
        values = ", ".join(f"{name} {value}" for name, value in document.placing.best.items())
        label = short(f"before that, {values} over your command")
        others.append((label, document.placing.decoding))
    others += [(f"whole request, {one.shape}", one) for one in document.requests or ()]
    rows += [(label, one.speedup, one.speedup_ci95) for label, one in others if one and one.speedup]
    notes = [_how_measured(content, gain.n_prompts)]
    if document.lossless:
        notes.append("The text was the same with and without the draft.")
    return Section(
        title="How sure is it?",
        lead=(
            "How many times as fast text comes out as from the target alone, which is 1×. The true "
            "value lies within the interval with 95 % confidence."
        ),
        table=Table(
            (Words(), "speedup", "95 % interval"),
            [
                (label, times_text(speedup), interval_text(interval))
                for label, speedup, interval in rows[:MOST]
            ],
        ),
        notes=tuple(notes),
    )


def _how_measured(content: Content, n_prompts: int) -> str:
    prompts, how = counted(n_prompts, "prompt"), "without and with the draft in turns"
    n_timed = next((one.n_timed for one in content.document.finalists or ()), None)
    if n_timed is not None and n_timed < n_prompts:
        return f"Counted on {prompts}, {n_timed} of them timed {how}."
    return f"Measured on {prompts}, {how}."


def _requests(content: Content) -> Section | None:
    """Seconds of whole requests, without and with the draft."""
    found = (content.document.requests or ())[:MOST]
    if not found:
        return None
    rows = [
        (
            one.shape,
            one.time_to_first_token_s.text,
            one.total_s.text,
            times_text(one.speedup),
            _pays_from(one),
        )
        for one in found
    ]
    columns = ("first token", "whole request", "speedup", "pays from (tokens)")
    return Section(
        title="A whole request",
        lead=(
            "The wait after sending a prompt: first it is read, which no draft makes faster, then "
            "the answer is written, which a good draft makes faster."
        ),
        table=Table((Words("prompt + answer"), *columns), rows),
        notes=tuple(
            f"No request of about {one.shape} was measured, so that row is extrapolated."
            for one in found
            if one.is_extrapolated
        ),
    )


def _pays_from(one: RequestPart) -> str:
    if one.break_even is None:
        interval = one.speedup_ci95
        return "never" if interval is not None and interval[1] <= 1 else "not shown"
    return "any" if one.break_even <= _SHORTEST else f"{one.break_even:,}"


_PARTS = {
    "draft": "the draft guesses",
    "second_draft_pass": "it reads what was checked",
    "verify": "the target checks",
    "sample": "tokens are chosen",
    "rollback": "wrong guesses are taken back",
    "other": "everything else",
}
"""Parts of a round, in their order."""
_SHOWN = 0.001
"""Share of a round below which a part is not shown."""


def _round(content: Content) -> Section | None:
    """The parts of a mean round, beside the target alone."""
    found = content.document.explanation_terms
    if found is None:
        return None
    total_s = sum(found.round_s.get(name, 0.0) for name in _PARTS)
    parts = {label: found.round_s.get(name, 0.0) for name, label in _PARTS.items()}
    rows = [
        (label, f"{time_text(seconds)}, {percent_text(seconds / total_s)}")
        for label, seconds in parts.items()
        if seconds > _SHOWN * total_s
    ]
    tokens = f"{found.tokens_per_round:.2f} tokens"
    rows += [
        ("the whole round", f"{time_text(total_s)} for {tokens}"),
        ("the target alone, for as many", time_text(found.speedup * total_s)),
        ("tokens guessed per round", f"{found.drafted_per_round:.2f}"),
        ("α: chance that a guess is accepted", f"{found.alpha:.2f}"),
        ("c: a guess over a token of the target", f"{found.c:.3g}"),
        ("V(n)/V(1): the check over a token of the target", f"{found.verify_ratio:.2f}"),
    ]
    text = content.document.explanation
    return Section(
        title="Where the time goes",
        lead=(
            "In each round the draft guesses a few tokens and the target checks them all at once. "
            "It pays if a round is shorter than the target alone is for as many tokens."
        ),
        table=Table((Words(), ""), rows),
        notes=() if text is None else (text,),
    )


def _conditions(content: Content) -> Section | None:
    """Disturbances of the measurement, as ``tune`` reported them."""
    found = content.document.conditions
    if found is None:
        return None
    notes = [short(one, _LONGEST_NOTE) for one in found.notes[:MOST]]
    return Section(
        title="What disturbed it",
        lead=(
            "Other programs, heat and sleep make a machine slower for a while. This is what was "
            "seen while it measured."
        ),
        notes=tuple(notes) or ("Nothing disturbed it.",),
    )


def _machine(content: Content) -> Section | None:
    """Hardware, models, versions and sampling."""
    rows = [*_hardware(content), *_models(content), *_versions(content), *_workload(content)]
    if not rows:
        return None
    return Section(
        title="Machine, models and versions",
        lead="The numbers hold for this hardware, these files and these versions.",
        table=Table((Words(), Words()), rows),
    )


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
    parts = (
        model.file_name,
        None if model.arch is None else short(model.arch),
        None if n_params is None else f"{count_text(n_params)} parameters",
        None if n_bytes is None else bytes_text(n_bytes),
    )
    return ", ".join(filter(None, parts))


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


def _workload(content: Content) -> Iterator[tuple[str, str]]:
    config = content.document.config
    if config is not None:
        sampling = SamplingConfig(temp=config.temp).label
        if config.temp > 0:
            sampling += f", top-k {config.top_k}, top-p {config.top_p:g}, min-p {config.min_p:g}"
        yield "sampling", f"{sampling}, seed {config.seed}"
        source = "" if content.prompts is None else f": {short(content.prompts)}"
        yield "prompts", f"{config.n_prompts}, {config.n_predict} tokens each{source}"


def columns_of(table: Table) -> Sequence[tuple[str, bool]]:
    """The head of each column, and whether it holds numbers."""
    return [(one.head, False) if isinstance(one, Words) else (one, True) for one in table.columns]
