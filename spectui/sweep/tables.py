"""Prints the cells of a sweep: as a table, as Markdown and CSV, and as a picture. Pure."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from textwrap import wrap
from xml.sax.saxutils import escape

from spectui.format import NONE, factor, percent_text, printable, rate_text, times_text
from spectui.measure.speedup import Speedup
from spectui.page import Cell, Table, Words, heads, text_of
from spectui.sweep.cells import coordinates, varying
from spectui.sweep.summary import CellSummary, disturbance_of, fastest, full_names, ranked

_FORMULAS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""Characters that begin a formula in spreadsheets; the last four are wide forms of the others."""
MOST_BARS = 40
_WIDTH, _MARGIN = 720, 40
_LINE, _BAR, _GAP = 16, 12, 8
"""Heights in pixels: of a line of a name, of a bar, and between cells."""
_LETTERS = 95
"""Letters of a line of a cell's name."""


def cells_table(summaries: Sequence[CellSummary]) -> Table:
    """A row per cell."""
    columns = varying(one.cell for one in summaries)
    has_streams = any(one.cell.place.n_slots > 1 for one in summaries)
    streams = ("off all", "on all") if has_streams else ()
    heads = (
        *(Words("cell"), *columns, "off", "on", *streams),
        *("speedup", "interval", "rate", "length", Words("note", is_whole=True)),
    )
    rows = (
        (
            one.name,
            *(column(one.cell) for column in columns.values()),
            rate_text(one.totals.baseline_tokens_per_s),
            rate_text(one.totals.tokens_per_s),
            *(map(rate_text, one.streams_tokens_per_s or (None, None)) if has_streams else ()),
            *_speedup(one.speedup),
            percent_text(one.totals.acceptance_rate),
            _length(one),
            ", ".join(_notes(one)),
        )
        for one in summaries
    )
    return Table(heads, tuple(rows))


def _speedup(speedup: Speedup | None) -> tuple[str, str]:
    if speedup is None:
        return NONE, NONE
    speedup = speedup.capped
    return times_text(speedup.estimate), "–".join(map(factor, speedup.interval or ())) or NONE


def _length(one: CellSummary) -> str:
    length = one.rounds.mean_accepted_length
    return NONE if length is None or not one.totals.n_drafted else f"{length:.2f}"


def _notes(one: CellSummary) -> Iterator[str]:
    """Notes in words that ``remarks`` explains."""
    if one.error is not None:
        yield "failed"
    if one.is_noise:
        yield "noise"
    if one.disturbance is not None and one.disturbance.notes:
        yield "disturbed"
    if one.check is not None and not one.check.lossless:
        yield "differs" if one.check.lossless is None else "LOSSY"


_EXPLAINED = {
    "noise": "faster than the accepted tokens can make it, which is the machine's noise.",
    "LOSSY": (
        "speculation changed the output, and rounding does not explain it; please report that."
    ),
    "differs": (
        "the output is another one than that of the target alone; llama-server does not tell "
        "whether rounding explains it."
    ),
}
"""Notes on cells, as ``_notes`` has them."""


def remarks(summaries: Sequence[CellSummary]) -> Iterator[str]:
    """Remarks on the table, a sentence or more each."""
    yield (
        "off, on: tokens/s, off decoded right beside each prompt of the cell. speedup: on over "
        "off, with its 95 % interval over prompts; where that holds 1, nothing was shown. rate: "
        "accepted of drafted tokens. length: mean accepted length, 1 + accepted / rounds. Counts "
        "are exact."
    )
    if any(one.cell.place.n_slots > 1 for one in summaries):
        yield (
            "slots: streams at once; off and on are those of one stream while it answers, off all "
            "and on all those of all streams together, with the evaluation of prompts."
        )
    given = {note for one in summaries for note in _notes(one)}
    yield from (f"{note}: {text}" for note, text in _EXPLAINED.items() if note in given)
    whole = disturbance_of(summaries)
    yield from () if whole is None else whole.notes
    reasons = {one.speedup.interval_reason for one in summaries if one.speedup is not None}
    for reason in sorted(filter(None, reasons)):
        yield f"Where no interval stands: {reason}."
    best, name_of = fastest(summaries), full_names(summaries)
    if best is not None and len(summaries) > 1:
        yield (
            f"Fastest: {name_of(best)}. The best of {len(summaries)} cells flatters itself: "
            "measure it again with spectui bench, or let spectui tune confirm one."
        )
    for one in summaries:
        if one.error is not None:
            yield f"Failed: {name_of(one)}: {one.error}"


def markdown(
    title: str, facts: Sequence[str], table: Table, notes: Iterable[str], picture: str | None
) -> str:
    """Render the report of a sweep.

    Args:
        title: title of the report.
        facts: facts on the measurement, an item each.
        table: the cells.
        notes: remarks on them.
        picture: name of the file with the speedups; None without one.
    """
    listed = "\n".join(f"- {_plain(fact)}" for fact in facts)
    parts = [f"# {_plain(title)}", listed, _markdown_table(table), *map(_plain, notes)]
    if picture is not None:
        parts.append(f"## Speedups\n\n![Speedups]({picture})")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    marks = ["---" if isinstance(one, Words) else "---:" for one in table.columns]
    first, *rows = map(_markdown_row, (heads(table), *table.rows))
    return "\n".join((first, f"| {' | '.join(marks)} |", *rows))


def _markdown_row(cells: Sequence[Cell]) -> str:
    texts = (_plain(text_of(one)).replace("|", "\\|") for one in cells)
    return f"| {' | '.join(texts)} |"


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped, which names of files may hold."""
    text = printable(text, keep="\n\t")
    for mark in "\\`*_<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


_COLUMNS = (
    "n_repeats,n_prompts,off_tokens_per_s,on_tokens_per_s,speedup,speedup_low,speedup_high,"
    "n_drafted,n_accepted,n_rounds,acceptance_rate,mean_accepted_length,error"
)
"""Columns of the file, but for those that say which cell it is."""


def summary_csv(summaries: Sequence[CellSummary]) -> str:
    """A row per cell."""
    rows = list(map(_row, summaries))
    page = StringIO()
    # Cells of several drafters have axes that others lack: those stay empty.
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(page, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return page.getvalue()


def _row(one: CellSummary) -> dict[str, object]:
    values = one.document()
    values["speedup_low"], values["speedup_high"] = values["speedup_ci95"] or (None, None)
    values["n_prompts"] = None if one.speedup is None else one.speedup.n_prompts
    # As many threads as there are cores have no number.
    place = {**coordinates(one.cell), "threads": one.cell.place.threads or None}
    return {"cell": one.name, **place, **{name: values[name] for name in _COLUMNS.split(",")}}


def _cell(value: object) -> object:
    """The value of a cell; a text, which may be a file's name, that no spreadsheet computes."""
    if not isinstance(value, str):
        return value
    text = printable(value, keep="\n\t")
    return f"'{text}" if text.lstrip().startswith(_FORMULAS) else text


def speedups_svg(summaries: Sequence[CellSummary]) -> bytes | None:
    """Draw the speedups as bars from 1, with their intervals, the fastest first.

    Text stays text. The background is opaque, for viewers that are dark.

    Returns:
        The file; None where no cell has a speedup.
    """
    name_of = full_names(summaries)
    bars = [(name_of(one), speedup.capped) for one, speedup in ranked(summaries)]
    if not bars:
        return None
    speedups = [speedup for _name, speedup in bars[:MOST_BARS]]
    ends = [1.0, *(end for one in speedups for end in (one.estimate, *(one.interval or ())))]
    per_unit = (_WIDTH - 2 * _MARGIN) / ((max(ends) - min(ends)) or 1.0)

    def across(speedup: float) -> float:
        return float(round(_MARGIN + (speedup - min(ends)) * per_unit, 1))

    parts, y = list[str](), _GAP
    for name, speedup in bars[:MOST_BARS]:
        # A name may be a file's.
        for line in wrap(printable(name), _LETTERS, break_on_hyphens=False):
            y += _LINE
            parts.append(_svg_text(_MARGIN, y - 4, line))
        left, *edges = map(across, (1.0, speedup.estimate, *(speedup.interval or ())))
        parts += _bar(left, edges, y, speedup)
        y += _BAR + _GAP
    n_more = len(bars) - len(speedups)
    more = f"; {n_more} more in summary.csv" if n_more else ""
    parts.append(_svg_text(_MARGIN, y + _LINE, f"speedup (off = 1){more}"))
    size = f'width="{_WIDTH}" height="{y + 2 * _LINE}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    )
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join((head, paper, *parts, "</svg>\n")).encode()


def _svg_text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'


def _bar(one: float, edges: Sequence[float], y: int, speedup: Speedup) -> list[str]:
    """The bar, its interval, and its number beyond both; ``edges`` are estimate, low and high."""
    estimate, middle = edges[0], y + _BAR / 2
    is_gain = estimate >= one
    beyond = max(one, *edges) + 5 if is_gain else min(one, *edges) - 5
    left, width = min(one, estimate), round(abs(estimate - one), 1)
    parts = [
        f'<rect x="{left}" y="{y}" width="{width}" height="{_BAR}" fill="#0072b2"/>',
        f'<path d="M{one} {y - 2}v{_BAR + 4}" stroke="#222"/>',
        _svg_text(beyond, y + 10, times_text(speedup.estimate), "start" if is_gain else "end"),
    ]
    if len(edges) > 1:
        low, high = edges[1:]
        whiskers = f"M{low} {y + 2}v8M{high} {y + 2}v8M{low} {middle}H{high}"
        parts.append(f'<path d="{whiskers}" stroke="#222" fill="none"/>')
    return parts
