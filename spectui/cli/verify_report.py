"""Final report of ``spectui verify``, as text and JSON."""

from collections.abc import Iterator

from rich.table import Table

from spectui.cli.documents.verify import verify_document
from spectui.cli.drawing import drawn, wrapped
from spectui.cli.output import write_result
from spectui.format import percent_text
from spectui.monitor.machine import this_machine
from spectui.verify.comparison import Summary, gain, interval_text, verdict
from spectui.verify.result import Verified, notes, warnings
from spectui.verify.subject import subject

_NONE = "–"


def report(found: Verified, json_path: str | None, minded: tuple[str, ...] = ()) -> None:
    """Print promised against delivered.

    Args:
        found: both.
        json_path: value of ``--json``.
        minded: parts of the ``--from`` command that are not measured, as reported before.
    """
    document = verify_document(found, this_machine())
    document["notes"] = [*minded, *document["notes"]]
    write_result(document, text_of(found), json_path)


def text_of(found: Verified) -> str:
    """The sentence, the table and the notes."""
    lines = [wrapped(_sentence(found))]
    if found.differing is not None:
        lines.append(wrapped(found.differing.sentence))
    lines += [wrapped(subject(found.case, found.origin)), "", drawn(_table(found)), ""]
    lines += map(wrapped, _lines(found))
    lines += [wrapped(f"NOTE: {note}") for note in notes(found)]
    lines += [wrapped(f"WARNING: {warning}") for warning in warnings(found)]
    return "\n".join(lines).rstrip()


def _sentence(found: Verified) -> str:
    promised, delivered = found.promised, found.summary
    if delivered is None:
        return "delivered: nothing was measured before it ended"
    return verdict(None if promised is None else promised.speedup, delivered.speedup, found.ratio)


def _table(found: Verified) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("promised", "delivered"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=12)
    cells = zip(*(_cells(one) for one in (found.promised, found.summary)), strict=True)
    rows = (
        "off, tokens/s",
        "on, tokens/s",
        "speedup",
        "95 % interval",
        "accepted of drafted",
        "acceptance rate",
        "prompts",
    )
    for heading, (promised, delivered) in zip(rows, cells, strict=True):
        table.add_row(heading, promised, delivered)
    engine = _NONE if found.promise is None else found.builds.engine
    server = found.builds.server
    table.add_row("llama.cpp", engine, "unknown" if server is None else server.text)
    return table


def _cells(summary: Summary | None) -> tuple[str, ...]:
    if summary is None:
        return (_NONE,) * 7
    rate = summary.acceptance_rate
    return (
        f"{summary.baseline_tokens_per_s:.2f}",
        f"{summary.tokens_per_s:.2f}",
        gain(summary.speedup),
        interval_text(summary.speedup) or _NONE,
        f"{summary.n_accepted} of {summary.n_drafted}",
        percent_text(rate, 1),
        str(summary.speedup.n_prompts),
    )


def _lines(found: Verified) -> Iterator[str]:
    ratio, check = found.ratio, found.counts
    if ratio is not None:
        interval = "" if ratio.low is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
        yield (
            f"delivered over promised speedup: {ratio.estimate:.3f}{interval}, on the "
            f"{ratio.n_prompts} prompts that are the same"
        )
    if check is None:
        yield f"counts beside the engine's: not compared, {found.counts_reason}"
    else:
        equal = f"{check.n_equal} of {check.n_compared} equal"
        yield f"counts and output beside the engine's: {equal}"
