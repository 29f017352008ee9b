"""Sections on what is gained: how surely, in requests, by setting, depth, temperature, category."""

import math

from spectui.format import (
    counted,
    percent_text,
    rate_text,
    times_text,
)
from spectui.known import Known
from spectui.report.charts import Bar, Bars, Forest, Row, bar
from spectui.report.content import Content
from spectui.report.document import RequestPart
from spectui.report.section import MOST, Cells, Section, Table
from spectui.report.settings import arm_of
from spectui.report.settings_map import settings_map
from spectui.report.words import interval_text, label_of, short, temperature_text, time_text
from spectui.tune.race import forecast_error

_SHORTEST = 2
"""Tokens of the shortest answer of which anything is decoded."""


def gain_section(content: Content) -> Known[Section]:
    """Speedups with their intervals: writing, whole requests, llama-server, runners-up."""
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
    placing = content.document.placing
    if placing is not None and placing.best and placing.decoding is not None:
        low, high = placing.decoding.speedup_ci95 or (None, None)
        values = ", ".join(f"{name} {value}" for name, value in placing.best.items())
        label = f"before that, {values} over your command"
        rows.append(Row(label=short(label), speedup=placing.decoding.speedup, low=low, high=high))
    for request in (content.document.requests or ())[:MOST]:
        low, high = request.speedup_ci95 or (None, None)
        label = f"whole request, {_shape(request)}"
        rows.append(Row(label=label, speedup=request.speedup, low=low, high=high))
    for one in (content.document.served or ())[:MOST]:
        if one.delivered is not None and one.delivered.speedup:
            low, high = one.delivered.speedup_ci95 or (None, None)
            label = f"on llama-server, {label_of(arm_of(one.params))}"
            rows.append(Row(label=label, speedup=one.delivered.speedup, low=low, high=high))
    for standing in (content.document.finalists or ())[1:MOST]:
        if standing.speedup:
            low, high = standing.speedup_ci95 or (None, None)
            label = f"runner-up, {label_of(arm_of(standing.params))}"
            rows.append(Row(label=label, speedup=standing.speedup, low=low, high=high))
    prompts = counted(gain.n_prompts, "prompt")
    n_timed = next((one.n_timed for one in content.document.finalists or ()), None)
    how = "without and with the draft in turns"
    notes = [f"Measured on {prompts}, {how}."]
    if n_timed is not None and n_timed < gain.n_prompts:
        notes = [f"Counted on {prompts}, {n_timed} of them timed {how}."]
    if content.document.lossless:
        notes.append("The text was the same with and without the draft.")
    return Known(Section(forest=Forest(rows=tuple(rows)), notes=tuple(notes)))


def _shape(request: RequestPart) -> str:
    return f"{request.n_prompt:,} + {request.n_answer:,} tokens"


def requests_section(content: Content) -> Known[Section]:
    """Seconds of whole requests, without and with the draft."""
    found = content.document.requests
    if not found:
        return Known(None, content.reasons["requests"])
    bars: list[Bar] = []
    rows: list[Cells] = []
    for one in found[:MOST]:
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
        for one in found[:MOST]
        if one.is_extrapolated
    )
    return Known(
        Section(
            bars=Bars(bars=tuple(bars)), table=Table(heads=heads, rows=tuple(rows)), notes=notes
        )
    )


def map_section(content: Content) -> Known[Section]:
    """The map of all settings."""
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
    rows, cells = [], []
    for one in found[:MOST]:
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


def temperatures_section(content: Content) -> Known[Section]:
    """The best setting at other temperatures, as predicted."""
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
        for one in found[:MOST]
    )
    heads = ("temperature", "predicted speedup", "accepted", "prompts")
    config = content.document.config
    notes: tuple[str, ...] = ()
    if config is not None:
        own = "greedy output" if config.temp <= 0 else temperature_text(config.temp)
        notes = (f"Everything else here was measured with {own}.",)
    return Known(Section(table=Table(heads=heads, rows=rows), notes=notes))


def categories_section(content: Content) -> Known[Section]:
    """The best setting by category."""
    found = content.document.per_category
    if not found:
        reason = "no setting was measured" if found is not None else content.reasons["per_category"]
        return Known(None, reason)
    rows, cells = [], []
    for one in found[:MOST]:
        if one.speedup:
            label = f"{short(one.category, 60)} ({counted(one.n_prompts, 'prompt')})"
            rows.append(Row(label=label, speedup=one.speedup))
        cells.append(
            (
                short(one.category, 60),
                str(one.n_prompts),
                times_text(one.speedup),
                percent_text(one.acceptance_rate),
            )
        )
    heads = ("category", "prompts", "speedup", "accepted")
    notes = [f"{counted(len(found) - MOST, 'category')} left out."] if len(found) > MOST else []
    chart = Forest(rows=tuple(rows)) if rows else None
    return Known(
        Section(forest=chart, table=Table(heads=heads, rows=tuple(cells)), notes=tuple(notes))
    )


def slots_section(content: Content) -> Known[Section]:
    """The best setting with several requests at once."""
    found = content.document.slots
    if not found:
        return Known(
            None, "one request at a time was measured: -np with --backend server measures more"
        )
    rows = []
    for one in found[:MOST]:
        low, high = one.speedup_ci95 or (None, None)
        rates = (rate_text(one.off_all_tokens_per_s), rate_text(one.on_all_tokens_per_s))
        rows.append((str(one.n_slots), *rates, times_text(one.speedup), interval_text(low, high)))
    heads = ("slots", "alone, tokens/s", "drafting, tokens/s", "speedup", "95 % interval")
    return Known(Section(table=Table(heads=heads, rows=tuple(rows))))
