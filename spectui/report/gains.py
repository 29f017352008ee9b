"""Sections on what is gained: how surely, in requests, by setting, depth, temperature, category."""

import math
from collections.abc import Iterable

from spectui.documents import Known
from spectui.format import counted, percent_text, rate_text, time_text, times_text
from spectui.options.setup import SamplingConfig
from spectui.report.charts import Row, bar
from spectui.report.content import Content
from spectui.report.document import Gained, RequestPart, arm_of
from spectui.report.section import MOST, Cells, Section, Table, interval_text, label_of, short
from spectui.report.settings_map import settings_map
from spectui.tune.race import forecast_error

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
    others += [(f"runner-up, {label_of(arm_of(one.params))}", one) for one in finalists[1:]]
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
    heads = ("prompt + answer", "first token", "whole request", "speedup", "pays from (tokens)")
    notes = tuple(
        f"No prompt of about {one.n_prompt:,} tokens was measured, so that row is extrapolated."
        for one in found[:MOST]
        if one.is_extrapolated
    )
    table = Table(heads=heads, rows=tuple(map(_request_cells, found[:MOST])))
    return Known(Section(bars=tuple(bars), table=table, notes=notes))


def _request_cells(one: RequestPart) -> Cells:
    pays = "never" if one.break_even is None else f"{one.break_even:,}"
    if one.break_even is not None and one.break_even <= _SHORTEST:
        pays = "any"
    times = (
        f"{time_text(both.off)} → {time_text(both.on)}"
        for both in (one.time_to_first_token_s, one.total_s)
    )
    return one.shape, *times, times_text(one.speedup), pays


def map_section(content: Content) -> Known[Section]:
    """The map of all settings."""
    found = settings_map(content)
    if found is None:
        return Known(None, "nothing was predicted, and no trial was measured")
    predicted = counted(found.n_predicted, "setting")
    notes = [f"{predicted} predicted, {found.n_measured} measured; a cell shows its best one."]
    if not found.n_predicted:
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


def depth_section(content: Content) -> Known[Section]:
    """The best setting behind prompts of several lengths."""
    found = content.document.depths
    if not found:
        reason = "no lengths of prompt were asked for: spectui tune --depth 0,4096,16384 does"
        return Known(None, reason if found is not None else content.reasons["depths"])
    labels = [f"{one.depth:,} tokens" if one.depth else "prompts as they are" for one in found]
    rows = (
        (
            label,
            times_text(one.speedup),
            interval_text(one.speedup_ci95),
            percent_text(one.acceptance_rate),
            "–" if one.token_s is None else time_text(one.token_s),
        )
        for label, one in zip(labels, found[:MOST], strict=False)
    )
    heads = ("length of prompt", "speedup", "95 % interval", "accepted", "a token of the target")
    limit = content.document.depth_limit
    notes = () if limit is None else (f"It pays up to a depth of about {limit:,} tokens.",)
    chart = _forest(zip(labels, found[:MOST], strict=False))
    return Known(Section(forest=chart, table=Table(heads=heads, rows=tuple(rows)), notes=notes))


def temperatures_section(content: Content) -> Known[Section]:
    """The best setting at other temperatures, as predicted."""
    found, config = content.document.other_temperatures, content.document.config
    if not found:
        return Known(None, content.reasons["other_temperatures"])
    rows = (
        (
            SamplingConfig(temp=one.temp).label,
            times_text(one.predicted_speedup),
            percent_text(one.acceptance_rate),
            str(one.n_prompts),
        )
        for one in found[:MOST]
    )
    heads = ("sampling", "predicted speedup", "accepted", "prompts")
    notes: tuple[str, ...] = ()
    if config is not None:
        own = "greedy output" if config.temp <= 0 else SamplingConfig(temp=config.temp).label
        notes = (f"Everything else here was measured with {own}.",)
    return Known(Section(table=Table(heads=heads, rows=tuple(rows)), notes=notes))


def categories_section(content: Content) -> Known[Section]:
    """The best setting by category."""
    found = content.document.per_category
    if not found:
        reason = "no setting was measured" if found is not None else content.reasons["per_category"]
        return Known(None, reason)
    names = [short(one.category, 60) for one in found[:MOST]]
    rows = (
        (name, str(one.n_prompts), times_text(one.speedup), percent_text(one.acceptance_rate))
        for name, one in zip(names, found, strict=False)
    )
    heads = ("category", "prompts", "speedup", "accepted")
    notes = (f"{len(found) - MOST} further categories left out.",) if len(found) > MOST else ()
    chart = _forest(zip(names, found, strict=False))
    return Known(Section(forest=chart, table=Table(heads=heads, rows=tuple(rows)), notes=notes))


def slots_section(content: Content) -> Known[Section]:
    """The best setting with several requests at once."""
    found = content.document.slots
    if not found:
        return Known(
            None, "one request at a time was measured: -np with --backend server measures more"
        )
    rows = (
        (
            str(one.n_slots),
            rate_text(one.off_all_tokens_per_s),
            rate_text(one.on_all_tokens_per_s),
            times_text(one.speedup),
            interval_text(one.speedup_ci95),
        )
        for one in found[:MOST]
    )
    heads = ("slots", "alone, tokens/s", "drafting, tokens/s", "speedup", "95 % interval")
    return Known(Section(table=Table(heads=heads, rows=tuple(rows))))
